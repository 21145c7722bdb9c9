"""What belongs to an account: names that are one's own, profiles, export, deletion, and the facts over JetStream."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import UUID, uuid4

import grpc
import pytest
import pytest_asyncio
from levata.accounts.v1 import accounts_pb2, facts_pb2

from chassis import bus
from chassis.auth import KeyFiles, Verifier
from rules.vip import vip_weekdays
from services.accounts.__main__ import build
from tests.accounts import World, accounts_settings, outcomes, refused
from tests.conftest import Database
from tools.embedded.nats import EmbeddedNats
from tools.patience import within

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(
    module_database: Database, keys: KeyFiles, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """One service for all tests here: each has accounts of its own."""
    settings = accounts_settings(module_database, keys, tmp_path_factory.mktemp("accounts"))
    async with build(settings) as address:
        yield World(settings, module_database, Verifier.from_file(keys.jwks), str(address))


async def profile(world: World, account_id: str) -> accounts_pb2.GetProfileResponse:
    """What somebody without a token sees."""
    answer: accounts_pb2.GetProfileResponse = await world.phone().call(
        "GetProfile", accounts_pb2.GetProfileRequest(account_id=account_id)
    )
    return answer


# Names


async def test_a_name_is_shown_everywhere_once_it_is_chosen(world: World) -> None:
    phone = world.phone()
    account_id = (await phone.sign_in("zoe@example.org")).account.account_id
    answer = await phone.rename("Zoe\u0308")
    assert answer.account.name == "Zoë"
    assert (await phone.whoami()).name == "Zoë"
    assert (await phone.refresh()).account.name == "Zoë"
    assert (await profile(world, account_id)).name == "Zoë"
    # The same again changes nothing.
    await phone.rename("Zoë")
    assert await world.kinds(account_id) == ["created", "registered", "renamed"]
    await phone.rename("ZOË")
    assert (await world.kinds(account_id)).count("renamed") == 2
    assert b"Zo" not in b"".join(fact.SerializeToString() for fact in await world.facts(account_id))


async def test_what_looks_like_anothers_name_is_taken(world: World) -> None:
    owner, other = world.phone(), world.phone()
    await owner.sign_in("owner@example.org")
    await other.sign_in("other@example.org")
    await owner.rename("Nicolae 10")
    for wish in ("Nicolae 10", "nicolae 10", "NICOLAE 1O", "Nicolae lO", "\uff2eicolae 10"):
        with refused("NAME_TAKEN") as refusal:
            await other.rename(wish)
        assert refusal.code is grpc.StatusCode.ALREADY_EXISTS
    # A refused wish has left nothing behind; the owner may change within the look.
    await owner.rename("NICOLAE 10")
    await owner.rename("Somebody else")
    await other.rename("Nicolae 10")
    assert (await other.whoami()).name == "Nicolae 10"


async def test_latin_against_cyrillic(world: World) -> None:
    latin, cyrillic = world.phone(), world.phone()
    await latin.sign_in("latin@example.org")
    await cyrillic.sign_in("cyrillic@example.org")
    await latin.rename("cocoa")
    with refused("NAME_TAKEN"):
        await cyrillic.rename("\u0441\u043e\u0441\u043e\u0430")
    with refused("NAME_INVALID") as refusal:
        await cyrillic.rename("c\u043ecoa")
    assert (refusal.code, refusal.metadata) == (grpc.StatusCode.INVALID_ARGUMENT, {"rule": "SCRIPT"})


async def test_one_of_many_who_want_a_name_at_once_gets_it(world: World) -> None:
    phones = [world.phone() for _ in range(6)]
    for n, phone in enumerate(phones):
        await phone.sign_in(f"wants{n}@example.org")
    wishes = ["Iliana", "ILIANA", "iliana", "lLIANA", "Iliana", "iliana"]
    answers, reasons = await outcomes(*(phone.rename(wish) for phone, wish in zip(phones, wishes, strict=True)))
    assert answers
    assert set(reasons) == {"NAME_TAKEN"}
    looks = await world.rows("select look, count(distinct account_id) from name_look group by look having count(*) > 1")
    assert looks == []


async def test_two_who_swap_their_names_do_not_wait_for_ever(world: World) -> None:
    one, two = world.phone(), world.phone()
    await one.sign_in("swap1@example.org")
    await two.sign_in("swap2@example.org")
    await one.rename("Castor")
    await two.rename("Pollux")
    _, reasons = await outcomes(one.rename("Pollux"), two.rename("Castor"))
    assert set(reasons) <= {"NAME_TAKEN"}
    names = {(await phone.whoami()).name for phone in (one, two)}
    assert len(names) == 2


async def test_guests_choose_no_name(world: World) -> None:
    phone = world.phone()
    await phone.guest()
    with refused("REGISTERED_ONLY"):
        await phone.rename("Anna")
    with refused("NAME_INVALID") as refusal:
        await phone.rename("Guest-anna")
    assert refusal.metadata == {"rule": "RESERVED"}


# Profiles


async def test_a_profile_shows_who_is_signed_in_and_when_vip(world: World) -> None:
    guest, player = world.phone(), world.phone()
    await guest.guest()
    await player.sign_in("profile@example.org")
    for phone in (guest, player):
        account = phone.got.account
        shown = await profile(world, account.account_id)
        weekdays = vip_weekdays(UUID(account.account_id))
        assert (shown.name, shown.registered) == (account.name, not account.guest)
        assert list(shown.vip_weekdays) == [weekday + 1 for weekday in weekdays]
        assert shown.vip_today == (datetime.now(UTC).weekday() in weekdays)
    with refused("ACCOUNT_NOT_FOUND"):
        await profile(world, str(uuid4()))
    with refused("INVALID_REQUEST"):
        await profile(world, "nobody")


# Export and deletion


async def test_all_that_is_stored_is_exported(world: World) -> None:
    phone = world.phone()
    got = await phone.sign_in("export@example.org")
    await phone.rename("एक नाम")
    await phone.request_code("export@example.org")
    exported = json.loads((await phone.call("ExportData", accounts_pb2.ExportDataRequest())).json)
    [session] = exported.pop("sessions")
    assert (session["session_id"], session["device_id"], session["device_name"], session["ended_at"]) == (
        got.session_id,
        phone.device.device_id,
        "a phone",
        None,
    )
    assert exported.pop("sign_in_code")["expires_at"] > exported.pop("created_at")
    assert exported.pop("mails_waiting") in (0, 1)
    assert exported == {
        "account_id": got.account.account_id,
        "name": "एक नाम",
        "guest": False,
        "address": "export@example.org",
    }


async def test_a_deleted_account_leaves_nothing_and_its_id_stays_dead(world: World) -> None:
    phone, tablet = world.phone(), world.phone()
    got = await phone.sign_in("gone@example.org")
    await tablet.sign_in("gone@example.org")
    await phone.rename("Gone Girl")
    await phone.request_code("gone@example.org")
    account_id = got.account.account_id
    await phone.call("DeleteAccount", accounts_pb2.DeleteAccountRequest())
    for table in ("account", "name_look", "sign_in_code", "mail_outbox", "session"):
        rows = str(await world.rows(f"select * from {table}"))
        for trace in (account_id, "gone@example.org", "Gone", phone.device.device_id):
            assert trace not in rows, table
    for call in (phone.whoami(), profile(world, account_id), phone.rename("Gone Boy")):
        # The second, as soon as the end of its session has gone round.
        with refused("ACCOUNT_NOT_FOUND", "SESSION_REVOKED"):
            await call
    for device in (phone, tablet):
        with refused("REFRESH_TOKEN_INVALID"):
            await device.refresh()
    kinds = await world.kinds(account_id)
    assert sorted(kinds[3:5]) == ["session_revoked", "session_revoked"]
    assert kinds[5:] == ["deleted"]
    # Address and name are free: for another account.
    phone.got = None
    anew = await phone.sign_in("gone@example.org")
    assert anew.account.account_id != account_id
    await phone.rename("Gone Girl")


async def test_a_guest_is_deleted_too_and_its_request_makes_another(world: World) -> None:
    phone, request_id = world.phone(), uuid4()
    before = await phone.guest(request_id)
    await phone.call("DeleteAccount", accounts_pb2.DeleteAccountRequest())
    after = await phone.guest(request_id)
    assert after.account.account_id != before.account.account_id
    assert await world.kinds(before.account.account_id) == ["created", "session_revoked", "deleted"]


# Facts


async def test_facts_go_out_over_jetstream(
    database: Database, nats: EmbeddedNats, keys: KeyFiles, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = accounts_settings(database, keys, tmp_path_factory.mktemp("accounts"), nats_url=nats.url("accounts"))
    listener = await bus.connect(nats.url("operator"), "listener")
    heard: asyncio.Queue[facts_pb2.AccountFact] = asyncio.Queue()

    async def hear(message: object) -> None:
        heard.put_nowait(facts_pb2.AccountFact.FromString(message.data))  # type: ignore[attr-defined]

    await listener.subscribe("levata.accounts.*.*", cb=hear)
    await listener.flush()
    async with build(settings) as address:
        world = World(settings, database, Verifier.from_file(keys.jwks), str(address))
        phone = world.phone()
        await phone.guest()
        await phone.sign_in("facts@example.org")
        await phone.rename("Told")
        await phone.call("DeleteAccount", accounts_pb2.DeleteAccountRequest())
        facts = [await within(20, heard.get()) for _ in range(5)]
    await listener.close()
    assert [fact.WhichOneof("kind") for fact in facts] == [
        "created",
        "registered",
        "renamed",
        "session_revoked",
        "deleted",
    ]
    assert facts == await world.facts()
