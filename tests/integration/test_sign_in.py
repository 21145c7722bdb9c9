"""Signing in with a mailed code, against a real Postgres: good codes, bad ones, limits, races, guests who register."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import UUID, uuid4, uuid5

import grpc
import pytest
import pytest_asyncio
from levata.accounts.v1 import accounts_pb2

from chassis.auth import KeyFiles, Verifier
from services.accounts.__main__ import build
from services.accounts.domain.codes import code_of
from tests.accounts import World, accounts_settings, outcomes, refused
from tests.conftest import Database
from tools.data import DataFolder
from tools.mail import Mailbox

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(
    module_database: Database, keys: KeyFiles, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """One service for all tests here: each has addresses and phones of its own."""
    settings = accounts_settings(module_database, keys, tmp_path_factory.mktemp("accounts"))
    async with build(settings) as address:
        yield World(settings, module_database, Verifier.from_file(keys.jwks), str(address))


def wrong(code: str) -> str:
    """Another code."""
    return f"{(int(code) + 1) % 1_000_000:06}"


async def test_a_new_address_becomes_an_account_and_the_same_address_enters_it(world: World) -> None:
    first, second = world.phone(), world.phone()
    one = await first.sign_in("anna@example.org")
    assert not one.account.guest
    assert one.account.name.startswith("Guest-")
    assert (first.caller.subject, first.caller.guest, first.caller.session) == (
        one.account.account_id,
        False,
        one.session_id,
    )
    assert await first.whoami() == one.account
    assert await world.kinds(one.account.account_id) == ["created", "registered"]
    other = await second.sign_in("  Anna@EXAMPLE.org ")
    assert other.account == one.account
    assert other.session_id != one.session_id
    assert await world.kinds(one.account.account_id) == ["created", "registered"]


async def test_the_code_comes_by_mail_in_the_language_that_was_asked_for(world: World) -> None:
    phone = world.phone()
    await phone.request_code("hindi@example.org", "hi-IN")
    mailbox = Mailbox(DataFolder(Path(world.settings.secret_file).parents[1]))
    while not (mails := mailbox.mails("hindi@example.org")):
        await asyncio.sleep(0.05)
    code = await world.code("hindi@example.org")
    assert code in mails[0].text
    assert any("ऀ" <= each <= "ॿ" for each in mails[0].text)
    await phone.verify("hindi@example.org", code)


async def test_neither_code_nor_token_stands_in_the_database(world: World) -> None:
    phone = world.phone()
    await phone.request_code("secret@example.org")
    code = await world.code("secret@example.org")
    tables = ("account", "guest_request", "sign_in_code", "code_allowance", "mail_outbox", "session", "facts")
    got = await phone.verify("secret@example.org", code)
    await phone.request_code("secret@example.org")
    code = await world.code("secret@example.org")
    found = str([await world.rows(f"select * from {table}") for table in tables])
    assert f"'{code}'" not in found
    assert got.refresh_token not in found
    assert got.access_token not in found
    # What stands for the peer and the address in the limits is neither.
    assert phone.peer not in found
    in_limits = str(await world.rows("select * from code_allowance"))
    assert "secret@example.org" not in in_limits


async def test_a_wrong_code_counts_and_the_sixth_attempt_is_refused_even_with_the_right_one(world: World) -> None:
    phone = world.phone()
    await phone.request_code("guessed@example.org")
    code = await world.code("guessed@example.org")
    for left in (4, 3, 2, 1, 0):
        with refused("CODE_WRONG") as refusal:
            await phone.verify("guessed@example.org", wrong(code))
        assert (refusal.code, refusal.metadata) == (grpc.StatusCode.INVALID_ARGUMENT, {"attempts_left": str(left)})
    with refused("CODE_NOT_LIVE"):
        await phone.verify("guessed@example.org", code)
    assert await world.rows("select from account where address = 'guessed@example.org'") == []


async def test_guesses_made_at_once_are_all_counted(world: World) -> None:
    phone = world.phone()
    await phone.request_code("stormed@example.org")
    code = await world.code("stormed@example.org")
    guesses = [f"{(int(code) + 1 + n) % 1_000_000:06}" for n in range(20)]
    _, reasons = await outcomes(*(world.phone().verify("stormed@example.org", guess) for guess in guesses))
    assert Counter(reasons) == {"CODE_WRONG": 5, "CODE_NOT_LIVE": 15}


async def test_the_last_attempt_may_be_the_right_one(world: World) -> None:
    phone = world.phone()
    await phone.request_code("fifth@example.org")
    code = await world.code("fifth@example.org")
    for _ in range(4):
        with refused("CODE_WRONG"):
            await phone.verify("fifth@example.org", wrong(code))
    await phone.verify("fifth@example.org", code)


async def test_a_code_is_good_for_one_sign_in(world: World) -> None:
    phone = world.phone()
    await phone.request_code("once@example.org")
    code = await world.code("once@example.org")
    await phone.verify("once@example.org", code)
    with refused("CODE_NOT_LIVE"):
        await world.phone().verify("once@example.org", code)


async def test_two_who_use_one_code_at_once_are_one_session(world: World) -> None:
    await world.phone().request_code("raced@example.org")
    code = await world.code("raced@example.org")
    answers, reasons = await outcomes(*(world.phone().verify("raced@example.org", code) for _ in range(6)))
    assert len(answers) == 1
    assert reasons == ["CODE_NOT_LIVE"] * 5
    sessions = "select count(*) from session join account using (account_id) where address = 'raced@example.org'"
    assert await world.rows(sessions) == [(1,)]


async def test_a_new_code_replaces_the_one_before(world: World) -> None:
    phone = world.phone()
    await phone.request_code("twice@example.org")
    first = await world.code("twice@example.org")
    with refused("CODE_WRONG"):
        await phone.verify("twice@example.org", wrong(first))
    await phone.request_code("twice@example.org")
    second = await world.code("twice@example.org")
    assert first != second
    with refused("CODE_WRONG") as refusal:
        await phone.verify("twice@example.org", first)
    # Its attempts begin anew.
    assert refusal.metadata == {"attempts_left": "4"}
    await phone.verify("twice@example.org", second)


async def test_a_code_runs_out(world: World) -> None:
    phone = world.phone()
    await phone.request_code("late@example.org")
    code = await world.code("late@example.org")
    await world.rows("update sign_in_code set expires_at = levata_now() where address = 'late@example.org'")
    with refused("CODE_NOT_LIVE"):
        await phone.verify("late@example.org", code)


async def test_a_code_of_another_address_is_none(world: World) -> None:
    phone = world.phone()
    await phone.request_code("mine@example.org")
    await phone.request_code("theirs@example.org")
    with refused("CODE_WRONG"):
        await phone.verify("theirs@example.org", await world.code("mine@example.org"))
    with refused("CODE_NOT_LIVE"):
        await phone.verify("nobodys@example.org", await world.code("mine@example.org"))


async def test_a_lost_answer_is_given_again(world: World) -> None:
    """Also when the call is repeated at once, and not to a request that only knows the code."""
    phone, request_id = world.phone(), uuid4()
    await phone.request_code("lost@example.org")
    code = await world.code("lost@example.org")
    answers, _ = await outcomes(*(phone.verify("lost@example.org", code, request_id) for _ in range(4)))
    answers.append(await phone.verify("lost@example.org", code, request_id))
    assert len({(each.account.account_id, each.session_id, each.refresh_token) for each in answers}) == 1
    assert len(answers) == 5
    with refused("CODE_NOT_LIVE"):
        await world.phone().verify("lost@example.org", wrong(code), request_id)
    with refused("CODE_NOT_LIVE"):
        await world.phone().verify("lost@example.org", code)
    # Once the session has gone on, its first token is not given out any more.
    await phone.refresh()
    with refused("CODE_NOT_LIVE"):
        await phone.verify("lost@example.org", code, request_id)


@pytest.mark.parametrize("request_id", [UUID(int=0), uuid5(UUID(int=0), "the same for every client")])
async def test_a_request_id_that_others_could_have_is_refused(world: World, request_id: UUID) -> None:
    phone = world.phone()
    with refused("REQUEST_ID_NOT_RANDOM"):
        await phone.verify("anybody@example.org", "123456", request_id)
    with refused("REQUEST_ID_NOT_RANDOM"):
        await phone.refresh(request_id, "token")


@pytest.mark.parametrize(
    "address",
    ["anna", "anna@example.org\r\nBcc: x@example.org", "anna@127.0.0.1", f"anna@{'abcdefgh.' * 28}org"],
)
async def test_what_is_no_address_is_refused(world: World, address: str) -> None:
    phone = world.phone()
    with refused("ADDRESS_INVALID"):
        await phone.request_code(address)
    with refused("ADDRESS_INVALID"):
        await phone.verify(address, "123456")


async def test_an_address_has_one_spelling(world: World) -> None:
    one = await world.phone().sign_in("user@bücher.example")
    await world.phone().request_code("User@xn--BCHER-kva.Example")
    got = await world.phone().verify("user@BÜCHER.example", await world.code("user@xn--bcher-kva.example"))
    assert got.account == one.account


@pytest.mark.parametrize("code", ["12345", "1234567", "12a456", "\uff11\uff12\uff13\uff14\uff15\uff16", ""])
async def test_what_is_no_code_is_refused_without_counting(world: World, code: str) -> None:
    with refused("INVALID_REQUEST"):
        await world.phone().verify("anna@example.org", code)


async def test_an_address_is_sent_five_codes_an_hour_whoever_asks(world: World) -> None:
    for _ in range(5):
        await world.phone().request_code("often@example.org")
    live = await world.code("often@example.org")
    with refused("TOO_MANY_CODES") as refusal:
        await world.phone().request_code("Often@example.org")
    assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert 3_500_000 < int(refusal.metadata["retry_after_ms"]) <= 3_600_000
    # The refused call has changed nothing.
    assert await world.code("often@example.org") == live


async def test_a_peer_is_sent_thirty_codes_an_hour_whatever_the_addresses(world: World) -> None:
    phone, other = world.phone(), world.phone()
    answers, reasons = await outcomes(*(phone.request_code(f"peer{n}@example.org") for n in range(34)))
    assert (len(answers), reasons) == (30, ["TOO_MANY_CODES"] * 4)
    await other.request_code("peer0@example.org")
    # What was refused was not counted for its address.
    assert await world.rows("select count(*) from mail_outbox where address like 'peer%' having count(*) > 31") == []


async def test_who_can_choose_among_ipv6_addresses_is_one_peer(world: World) -> None:
    phone = world.phone()
    for n in range(30):
        phone.peer = f"2001:db8:1:2::{n:x}"
        await phone.request_code(f"six{n}@example.org")
    with refused("TOO_MANY_CODES"):
        await phone.request_code("six30@example.org")
    phone.peer = "2001:db8:1:3::1"
    await phone.request_code("six30@example.org")


async def test_a_limit_lets_go_after_an_hour(world: World) -> None:
    for _ in range(5):
        await world.phone().request_code("patient@example.org")
    with refused("TOO_MANY_CODES"):
        await world.phone().request_code("patient@example.org")
    await world.rows(
        "update code_allowance set sent_at = array(select at - interval '59 minutes' from unnest(sent_at) at)"
    )
    with refused("TOO_MANY_CODES"):
        await world.phone().request_code("patient@example.org")
    await world.rows(
        "update code_allowance set sent_at = array(select at - interval '1 minute' from unnest(sent_at) at)"
    )
    await world.phone().request_code("patient@example.org")


async def test_a_guest_with_a_new_address_becomes_that_account_once(world: World) -> None:
    phone, request_id = world.phone(), uuid4()
    guest = await phone.guest(request_id)
    got = await phone.sign_in("guest@example.org")
    assert (got.account.account_id, got.account.name, got.account.guest) == (
        guest.account.account_id,
        guest.account.name,
        False,
    )
    assert await world.kinds(guest.account.account_id) == ["created", "registered"]
    # The new session is there in place of the guest's, and what made the guest makes nothing any more.
    assert [session.session_id for session in await phone.sessions()] == [got.session_id]
    with refused("GUEST_REGISTERED"):
        await world.phone().guest(request_id)
    # A second address is a second account.
    phone.got = guest
    other = await phone.sign_in("guest-too@example.org")
    assert other.account.account_id != guest.account.account_id
    assert await world.kinds(guest.account.account_id) == ["created", "registered"]


async def test_a_guest_with_a_known_address_enters_that_account_and_stays_behind(world: World) -> None:
    known = await world.phone().sign_in("known@example.org")
    phone = world.phone()
    guest = await phone.guest()
    got = await phone.sign_in("known@example.org")
    assert got.account == known.account
    phone.got = guest
    assert (await phone.whoami()).guest
    assert await world.kinds(guest.account.account_id) == ["created"]
    assert await world.kinds(known.account.account_id) == ["created", "registered"]


async def test_a_guest_whose_two_addresses_race_is_registered_once(world: World) -> None:
    for trial in range(5):
        phone = world.phone()
        guest = await phone.guest()
        addresses = [f"{side}{trial}@race.example.org" for side in ("left", "right")]
        for address in addresses:
            await phone.request_code(address)
        codes = [await world.code(address) for address in addresses]
        both = [world.phone(), world.phone()]
        for each in both:
            each.got = guest
        answers, reasons = await outcomes(
            *(each.verify(address, code) for each, address, code in zip(both, addresses, codes, strict=True))
        )
        assert reasons == []
        ids = {answer.account.account_id for answer in answers}
        assert len(ids) == 2
        assert guest.account.account_id in ids
        for account_id in ids:
            assert await world.kinds(account_id) == ["created", "registered"]


async def test_a_guests_token_that_proves_nothing_is_refused_before_the_history_is_lost(world: World) -> None:
    phone = world.phone()
    await phone.request_code("stale@example.org")
    code = await world.code("stale@example.org")
    phone.got = accounts_pb2.VerifyCodeResponse(access_token="no token")
    with refused("TOKEN_INVALID"):
        await phone.verify("stale@example.org", code)
    phone.got = None
    await phone.verify("stale@example.org", code)


async def test_codes_are_spread_and_follow_from_the_secret(world: World) -> None:
    secret = world.settings.secret()
    codes = [code_of(secret, uuid4()) for _ in range(2000)]
    assert all(len(code) == 6 and code.isdecimal() for code in codes)
    assert len(set(codes)) > 1950
    assert min(codes) < "010000"
    assert max(codes) > "990000"


async def test_limits_hold_over_all_replicas_together(
    database: Database, keys: KeyFiles, tmp_path: Path, make_database: Callable[[], Database]
) -> None:
    settings = accounts_settings(database, keys, tmp_path)
    async with build(settings) as one, build(settings) as two:
        world = World(settings, database, Verifier.from_file(keys.jwks), str(one))
        phones = [world.phone(str(at)) for at in (one, two) * 10]
        answers, reasons = await outcomes(*(phone.request_code("both@example.org") for phone in phones))
        assert (len(answers), set(reasons)) == (5, {"TOO_MANY_CODES"})
        code = await world.code("both@example.org")
        answers, _ = await outcomes(*(world.phone(str(at)).verify("both@example.org", code) for at in (one, two) * 3))
        assert len(answers) == 1
