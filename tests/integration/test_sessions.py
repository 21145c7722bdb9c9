"""Sessions: refreshed once per token, ended when a token is used twice, listed, ended, and what others hear of it."""

import base64
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import grpc
import pytest
import pytest_asyncio
from levata.accounts.v1 import accounts_pb2, devices_pb2

from chassis.auth import KeyFiles, Signer, Verifier
from chassis.rpc import channel, stub
from services.accounts.__main__ import build
from services.accounts.app.sessions import DEVICE_DAYS
from services.accounts.domain.sessions import Kept, Shown, first_token, judged, next_token, parsed
from services.accounts.store.postgres import PostgresStore
from tests.accounts import Phone, World, accounts_settings, outcomes, refused
from tests.conftest import Database

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEVICES = devices_pb2.DESCRIPTOR.services_by_name["Devices"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(
    module_database: Database, keys: KeyFiles, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """One service for all tests here: each has accounts of its own."""
    settings = accounts_settings(module_database, keys, tmp_path_factory.mktemp("accounts"))
    async with build(settings) as address:
        yield World(settings, module_database, Verifier.from_file(keys.jwks), str(address))


async def revoked(world: World, account_id: str) -> list[str]:
    """The sessions of an account that others were told have ended."""
    return [
        fact.session_revoked.session_id for fact in await world.facts(account_id) if fact.HasField("session_revoked")
    ]


async def test_a_refresh_gives_new_tokens_of_the_same_session(world: World) -> None:
    phone = world.phone()
    first = await phone.sign_in("refresh@example.org")
    second = await phone.refresh()
    third = await phone.refresh()
    assert {each.session_id for each in (first, second, third)} == {first.session_id}
    assert len({each.refresh_token for each in (first, second, third)}) == 3
    assert third.account == first.account
    assert phone.caller.session == first.session_id
    assert await revoked(world, first.account.account_id) == []


async def test_a_refresh_tells_what_the_account_is_by_now(world: World) -> None:
    phone, tablet, request_id = world.phone(), world.phone(), uuid4()
    await phone.guest(request_id)
    await phone.refresh()
    await tablet.guest(request_id)
    assert tablet.caller.guest
    await phone.sign_in("registers@example.org")
    refreshed = await tablet.refresh()
    assert refreshed.account == phone.got.account
    assert not tablet.caller.guest


async def test_a_token_that_is_used_twice_ends_its_session(world: World) -> None:
    """As when it was stolen, whoever of the two comes first."""
    phone, thief = world.phone(), world.phone()
    stolen = (await phone.sign_in("stolen@example.org")).refresh_token
    account_id, session_id = phone.got.account.account_id, phone.got.session_id
    await thief.refresh(token=stolen)
    with refused("REFRESH_TOKEN_REUSED") as refusal:
        await phone.refresh(token=stolen)
    assert refusal.code is grpc.StatusCode.UNAUTHENTICATED
    for token in (thief.got.refresh_token, stolen):
        with refused("SESSION_REVOKED"):
            await phone.refresh(token=token)
    assert await revoked(world, account_id) == [session_id]
    # Another session of the account goes on.
    await phone.sign_in("stolen@example.org")
    await phone.refresh()


async def test_an_old_token_ends_its_session_however_long_ago_it_was_used(world: World) -> None:
    phone = world.phone()
    oldest = (await phone.sign_in("old@example.org")).refresh_token
    for _ in range(3):
        await phone.refresh()
    newest = phone.got.refresh_token
    with refused("REFRESH_TOKEN_REUSED"):
        await world.phone().refresh(token=oldest)
    with refused("SESSION_REVOKED"):
        await phone.refresh(token=newest)


async def test_a_lost_answer_is_given_again_and_is_no_theft(world: World) -> None:
    """The request's id tells: however often and late it is repeated, until the new token is used."""
    phone, request_id = world.phone(), uuid4()
    token = (await phone.sign_in("repeat@example.org")).refresh_token
    answers, reasons = await outcomes(*(world.phone().refresh(request_id, token) for _ in range(6)))
    assert reasons == []
    assert len({answer.refresh_token for answer in answers}) == 1
    again = await phone.refresh(request_id, token)
    assert again.refresh_token == answers[0].refresh_token
    await phone.refresh()
    with refused("REFRESH_TOKEN_REUSED"):
        await phone.refresh(request_id, token)


async def test_two_who_use_one_token_at_once_end_its_session(world: World) -> None:
    phone = world.phone()
    token = (await phone.sign_in("parallel@example.org")).refresh_token
    [answer], reasons = await outcomes(*(world.phone().refresh(token=token) for _ in range(2)))
    assert reasons == ["REFRESH_TOKEN_REUSED"]
    with refused("SESSION_REVOKED"):
        await phone.refresh(token=answer.refresh_token)
    assert await revoked(world, answer.account.account_id) == [answer.session_id]


async def test_a_token_of_nobodys_making_is_refused_and_ends_nothing(world: World) -> None:
    phone = world.phone()
    got = await phone.sign_in("forged@example.org")
    session = UUID(got.session_id).bytes
    genuine = base64.urlsafe_b64decode(got.refresh_token)
    forged = [
        "",
        "no token",
        "é" * 100,
        "A" * 107,
        base64.urlsafe_b64encode(session).decode(),
        base64.urlsafe_b64encode(session + bytes(64)).decode(),
        base64.urlsafe_b64encode(session + bytes(32) + genuine[48:]).decode(),
        base64.urlsafe_b64encode(uuid4().bytes + genuine[16:]).decode(),
        got.access_token[:200],
    ]
    for token in forged:
        with refused("REFRESH_TOKEN_INVALID"):
            await phone.refresh(token=token or "?")
    await phone.refresh(token=got.refresh_token)


async def test_a_session_that_was_not_refreshed_for_so_long_is_over(world: World) -> None:
    phone = world.phone()
    got = await phone.sign_in("idle@example.org")
    assert 29 * 86_400_000 < got.refresh_expires_at_ms - got.expires_at_ms < 30 * 86_400_000
    await world.rows("update session set expires_at = levata_now() where session_id = $1", UUID(got.session_id))
    with refused("REFRESH_TOKEN_INVALID"):
        await phone.refresh()
    assert await revoked(world, got.account.account_id) == []


async def test_sessions_are_listed_and_ended_one_by_one(world: World) -> None:
    phone, tablet, stranger = world.phone(), world.phone(), world.phone()
    tablet.device.name = "टैबलेट"
    one = await phone.sign_in("list@example.org")
    two = await tablet.sign_in("list@example.org")
    await stranger.sign_in("stranger@example.org")
    listed = await phone.sessions()
    assert [(each.session_id, each.device_name, each.current) for each in listed] == [
        (two.session_id, "टैबलेट", False),
        (one.session_id, "a phone", True),
    ]
    assert all(abs(each.created_at_ms - one.expires_at_ms + 900_000) < 60_000 for each in listed)
    await phone.refresh()
    assert [each.current for each in await phone.sessions()] == [True, False]
    # Only one's own.
    await stranger.call("EndSession", accounts_pb2.EndSessionRequest(session_id=two.session_id))
    assert len(await phone.sessions()) == 2
    for _ in range(2):
        await phone.call("EndSession", accounts_pb2.EndSessionRequest(session_id=two.session_id))
    assert [each.session_id for each in await phone.sessions()] == [one.session_id]
    with refused("SESSION_REVOKED"):
        await tablet.refresh()
    assert await revoked(world, one.account.account_id) == [two.session_id]
    await phone.call("EndSession", accounts_pb2.EndSessionRequest())
    assert await revoked(world, one.account.account_id) == [two.session_id, one.session_id]


async def test_the_fact_of_an_end_tells_when_the_last_token_has_run_out(world: World) -> None:
    phone = world.phone()
    got = await phone.sign_in("runs-out@example.org")
    await phone.call("EndSession", accounts_pb2.EndSessionRequest())
    [fact] = [fact for fact in await world.facts(got.account.account_id) if fact.HasField("session_revoked")]
    assert 0 <= fact.session_revoked.tokens_expire_at_s - got.expires_at_ms // 1000 < 60


async def test_signing_out_everywhere_ends_all_sessions(world: World) -> None:
    phones = [world.phone() for _ in range(4)]
    for phone in phones:
        await phone.sign_in("everywhere@example.org")
    ids = {phone.got.session_id for phone in phones}
    account_id = phones[0].got.account.account_id
    answer = await phones[0].call("SignOutEverywhere", accounts_pb2.SignOutEverywhereRequest())
    assert answer.sessions_ended == 4
    for phone in phones:
        with refused("SESSION_REVOKED"):
            await phone.refresh()
    assert set(await revoked(world, account_id)) == ids


async def test_sessions_end_while_they_are_refreshed_and_the_account_is_deleted(world: World) -> None:
    """All at once, again and again: nothing hangs, and in the end nothing is left."""
    for trial in range(4):
        phones = [world.phone() for _ in range(4)]
        for phone in phones:
            await phone.sign_in(f"storm{trial}@example.org")
        account_id = phones[0].got.account.account_id
        _, reasons = await outcomes(
            *(phone.refresh() for phone in phones),
            phones[0].call("SignOutEverywhere", accounts_pb2.SignOutEverywhereRequest()),
            phones[1].rename(f"Storm {trial}"),
            phones[2].call("DeleteAccount", accounts_pb2.DeleteAccountRequest()),
            phones[3].call("EndSession", accounts_pb2.EndSessionRequest()),
        )
        assert set(reasons) <= {"SESSION_REVOKED", "REFRESH_TOKEN_INVALID", "ACCOUNT_NOT_FOUND"}
        if await world.rows("select from account where account_id = $1", UUID(account_id)):
            # Signing out had gone round before the deletion came.
            phones[2].got = None
            await phones[2].sign_in(f"storm{trial}@example.org")
            await phones[2].call("DeleteAccount", accounts_pb2.DeleteAccountRequest())
        for phone in phones:
            with refused("REFRESH_TOKEN_INVALID"):
                await phone.refresh(token=phone.got.refresh_token)
        kinds = await world.kinds(account_id)
        assert (kinds.count("deleted"), kinds[-1]) == (1, "deleted")
        ended = await revoked(world, account_id)
        assert len(ended) == len(set(ended))
        assert {phone.got.session_id for phone in phones} <= set(ended)


async def test_a_guest_is_the_same_session_until_it_was_refreshed(world: World) -> None:
    phone, request_id = world.phone(), uuid4()
    answers, _ = await outcomes(*(phone.guest(request_id) for _ in range(5)))
    assert len({(answer.account.account_id, answer.session_id, answer.refresh_token) for answer in answers}) == 1
    assert len(await phone.sessions()) == 1
    await phone.refresh()
    anew = await phone.guest(request_id)
    assert anew.account.account_id == answers[0].account.account_id
    assert anew.session_id != answers[0].session_id
    # What the guest's request gave before its session was ended is good for nothing.
    await phone.call("EndSession", accounts_pb2.EndSessionRequest())
    ended = anew.refresh_token
    again = await phone.guest(request_id)
    assert again.refresh_token != ended
    with refused("SESSION_REVOKED"):
        await phone.refresh(token=ended)


async def shared(world: World, keys: KeyFiles, *phones: Phone, more: tuple[str, ...] = ()) -> Any:
    """What the matchmaker is told of these accounts."""
    token = Signer.from_file(keys.signing_key).service_token("matchmaker", 60)
    ids = [phone.got.account.account_id for phone in phones]
    async with channel(world.address, token) as opened:
        answer = await stub(opened, DEVICES).SharedDevices(devices_pb2.SharedDevicesRequest(account_ids=[*ids, *more]))
    return {frozenset((ids.index(pair.first_account_id), ids.index(pair.second_account_id))) for pair in answer.pairs}


async def test_accounts_that_were_used_on_one_device_are_told(world: World, keys: KeyFiles) -> None:
    one, two, three, nameless, faceless = (world.phone() for _ in range(5))
    two.device.device_id = one.device.device_id.upper()
    nameless.device.device_id = faceless.device.device_id = ""
    for phone in (one, two, three, nameless, faceless):
        await phone.guest()
    everybody = (one, two, three, nameless, faceless)
    assert await shared(world, keys, *everybody, more=(str(uuid4()),)) == {frozenset((0, 1))}
    # A session that has ended tells all the same, for as long as the device counts.
    await two.call("EndSession", accounts_pb2.EndSessionRequest())
    assert await shared(world, keys, *everybody) == {frozenset((0, 1))}
    ago = f"seen_at = levata_now() - interval '{DEVICE_DAYS} days'"
    await world.rows(f"update session set {ago} where session_id = $1", UUID(two.got.session_id))
    assert await shared(world, keys, *everybody) == set()


async def test_companions_are_told_whoever_else_was_asked_about(world: World, keys: KeyFiles) -> None:
    one, two, stranger = (world.phone() for _ in range(3))
    two.device.device_id = one.device.device_id
    for phone in (one, two, stranger):
        await phone.guest()
    ids = [phone.got.account.account_id for phone in (one, two, stranger)]
    token = Signer.from_file(keys.signing_key).service_token("matchmaker", 60)
    async with channel(world.address, token) as opened:
        for asked, pairs in (([ids[0]], 1), (ids[:2], 1), ([ids[2], str(uuid4())], 0)):
            request = devices_pb2.CompanionsRequest(account_ids=asked)
            answer = await stub(opened, DEVICES).Companions(request)
            told = [[pair.first_account_id, pair.second_account_id] for pair in answer.pairs]
            assert told == [sorted(ids[:2])] * pairs


async def test_only_the_matchmaker_is_told_of_devices(world: World, keys: KeyFiles) -> None:
    phone = world.phone()
    await phone.guest()
    signer = Signer.from_file(keys.signing_key)
    tokens = {"SERVICE_NOT_ALLOWED": signer.service_token("league", 60), "ROLE_REQUIRED": phone.got.access_token}
    for reason, token in tokens.items():
        async with channel(world.address, token) as opened:
            with refused(reason):
                await stub(opened, DEVICES).SharedDevices(devices_pb2.SharedDevicesRequest())


async def test_what_is_of_no_use_is_forgotten(database: Database, keys: KeyFiles, tmp_path: Any) -> None:
    settings = accounts_settings(database, keys, tmp_path)
    async with build(settings) as address:
        world = World(settings, database, Verifier.from_file(keys.jwks), str(address))
        ended, live = world.phone(), world.phone()
        await ended.sign_in("ended@example.org")
        await live.sign_in("live@example.org")
        await ended.call("EndSession", accounts_pb2.EndSessionRequest())
        async with asyncpg.create_pool(database.dsn("accounts"), min_size=1, max_size=2) as pool:
            store = PostgresStore(pool, settings.refresh_token_seconds)
            await store.forget(DEVICE_DAYS)
            counts = """select (select count(*) from session), (select count(*) from sign_in_code),
                               (select count(*) from code_allowance)"""
            assert await world.rows(counts) == [(2, 2, 4)]
            await world.rows("update session set seen_at = seen_at - interval '31 days'")
            await world.rows("update sign_in_code set expires_at = expires_at - interval '11 minutes'")
            await world.rows(
                "update code_allowance set sent_at = array(select at - interval '61 minutes' from unnest(sent_at) at)"
            )
            await store.forget(DEVICE_DAYS)
            # A live session is never forgotten.
            assert await world.rows(counts) == [(1, 0, 0)]
        await live.refresh()


async def test_the_next_token_follows_from_the_secret(world: World) -> None:
    """While those that are out are judged by their hashes alone."""
    secret, other = world.settings.secret(), type(world.settings.secret())(bytes(32))
    token = first_token(secret, uuid4(), uuid4())
    request_id = uuid4()
    assert parsed(token.text) == token
    assert next_token(secret, token, request_id) == next_token(secret, token, request_id)
    assert next_token(secret, token, request_id) != next_token(other, token, request_id)
    kept = Kept(token.family_hash, token.own_hash, None, None)
    assert judged(kept, token, b"any") is Shown.CURRENT
    assert judged(kept, first_token(secret, token.session_id, uuid4()), b"any") is Shown.FOREIGN
    assert judged(kept, next_token(other, token, request_id), b"any") is Shown.SPENT
