"""The accounts service against a real Postgres, over gRPC, as one replica, as two, and as a process."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4, uuid5

import asyncpg
import grpc
import pytest
from levata.accounts.v1 import accounts_pb2

from chassis.auth import KeyFiles, Role, Signer, Verifier
from chassis.clock import Clock
from chassis.errors import reason_of
from chassis.rpc import channel, stub
from chassis.settings import Address
from services.accounts.__main__ import build
from services.accounts.app.signing_in import CodePolicy, SigningIn
from services.accounts.app.tokens import Tokens
from services.accounts.domain.account import GUEST_NAME_DIGITS, guest_name
from services.accounts.domain.secret import Secret
from services.accounts.domain.sessions import Device
from services.accounts.store.postgres import PostgresStore
from tests.accounts import ACCOUNTS, accounts_settings
from tests.conftest import Database
from tools.data import DataFolder
from tools.up.servers import told_besides
from tools.up.service import KINDS


@pytest.fixture
def replica(database: Database, keys: KeyFiles, tmp_path: Path) -> Callable[[], AbstractAsyncContextManager[Address]]:
    """Start one more replica."""
    return lambda: build(accounts_settings(database, keys, tmp_path))


@pytest.fixture
async def address(replica: Callable[[], AbstractAsyncContextManager[Address]]) -> AsyncIterator[Address]:
    async with replica() as address:
        yield address


async def create_guest(at: Address, request_id: UUID | None = None) -> accounts_pb2.CreateGuestResponse:
    async with channel(str(at)) as opened:
        request = accounts_pb2.CreateGuestRequest(request_id=str(request_id or uuid4()))
        answer: accounts_pb2.CreateGuestResponse = await stub(opened, ACCOUNTS).CreateGuest(request)
    return answer


async def get_self(at: Address, token: str | None) -> accounts_pb2.Account:
    async with channel(str(at), token) as opened:
        answer: accounts_pb2.GetSelfResponse = await stub(opened, ACCOUNTS).GetSelf(accounts_pb2.GetSelfRequest())
    return answer.account


async def count_rows(database: Database) -> tuple[int, int]:
    connection = await asyncpg.connect(database.dsn("accounts"))
    row = await connection.fetchrow("select (select count(*) from account), (select count(*) from guest_request)")
    await connection.close()
    assert row is not None
    return row[0], row[1]


async def test_a_guest_gets_a_token_that_says_who_it_is(address: Address, keys: KeyFiles) -> None:
    created = await create_guest(address)
    caller = Verifier.from_file(keys.jwks).verify(created.access_token)
    assert (caller.subject, caller.role, caller.guest) == (created.account.account_id, Role.PLAYER, True)
    assert caller.expires_at * 1000 == created.expires_at_ms
    assert UUID(caller.subject).version == 7
    assert created.account.name == guest_name(UUID(caller.subject), GUEST_NAME_DIGITS[0])
    assert await get_self(address, created.access_token) == created.account


async def test_the_same_request_gives_the_same_guest(address: Address, database: Database) -> None:
    request_id = uuid4()
    first, second = await create_guest(address, request_id), await create_guest(address, request_id)
    assert first.account == second.account
    assert await get_self(address, second.access_token) == first.account
    assert await count_rows(database) == (1, 1)


async def test_two_replicas_make_one_guest_of_one_request(
    database: Database, replica: Callable[[], AbstractAsyncContextManager[Address]]
) -> None:
    request_ids = [uuid4() for _ in range(20)]
    async with replica() as one, replica() as two:
        # All at once: both replicas find nothing at first and race to insert.
        calls = [create_guest(at, request_id) for request_id in request_ids for at in (one, two, one, two)]
        created = await asyncio.gather(*calls)
        made = {answer.account.account_id for answer in created}
        assert [answer.account.account_id for answer in created[::4]] == [
            answer.account.account_id for answer in created[3::4]
        ]
        assert await get_self(one, created[1].access_token) == await get_self(two, created[0].access_token)
    assert len(made) == 20
    assert await count_rows(database) == (20, 20)


@pytest.mark.parametrize("request_id", [UUID(int=0), uuid5(UUID(int=0), "the same for every client")])
async def test_a_request_id_that_others_could_have_is_refused(
    address: Address, database: Database, request_id: UUID
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await create_guest(address, request_id)
    assert reason_of(caught.value) == "REQUEST_ID_NOT_RANDOM"
    assert await count_rows(database) == (0, 0)


async def test_oneself_needs_a_players_token_of_an_account_that_is_there(address: Address, keys: KeyFiles) -> None:
    signer = Signer.from_file(keys.signing_key)
    tokens = {
        "TOKEN_MISSING": None,
        "ROLE_REQUIRED": signer.service_token("table", 60),
        "ACCOUNT_NOT_FOUND": signer.player_token(str(uuid4()), True, 60),
    }
    for reason, token in tokens.items():
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await get_self(address, token)
        assert reason_of(caught.value) == reason


async def test_a_guest_whose_short_name_is_taken_gets_a_longer_one(database: Database, keys: KeyFiles) -> None:
    class SameEnds:
        """A clock whose ids differ beyond the digits of the shortest name."""

        made = 0

        def new_id(self) -> UUID:
            self.made += 1
            return UUID(int=(self.made << 25) | 0x12345)

    async with asyncpg.create_pool(database.dsn("accounts")) as pool:
        clock: Any = SameEnds()
        tokens = Tokens(Signer.from_file(keys.signing_key), Clock(), 60)
        signing_in = SigningIn(PostgresStore(pool, 60), tokens, Secret(bytes(32)), clock, CodePolicy(600, 5, 5, 30))
        guests = [(await signing_in.create_guest(uuid4(), Device())).account for _ in range(2)]
    assert [len(guest.name) - len("Guest-") for guest in guests] == list(GUEST_NAME_DIGITS[:2])
    assert guests[1].name.startswith(guests[0].name)


async def test_a_lost_connection_is_a_refusal_and_then_all_is_well(address: Address, database: Database) -> None:
    request_id = uuid4()
    await create_guest(address, request_id)
    admin = await asyncpg.connect(database.admin_dsn)
    lock = await asyncpg.connect(database.admin_dsn)
    transaction = lock.transaction()
    await transaction.start()
    await lock.execute("lock table accounts.guest_request")
    waiting = asyncio.create_task(create_guest(address, request_id))
    cut = (
        "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'levata_accounts' and state = 'active'"
    )
    while not await admin.fetch(cut):
        await asyncio.sleep(0.01)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await waiting
    assert (caught.value.code(), reason_of(caught.value)) == (grpc.StatusCode.UNAVAILABLE, "TEMPORARILY_UNAVAILABLE")
    await transaction.rollback()
    await create_guest(address, request_id)
    assert await count_rows(database) == (1, 1)
    await admin.close()
    await lock.close()


async def test_the_services_role_can_do_no_more_than_its_work(address: Address, database: Database) -> None:
    await create_guest(address)
    connection = await asyncpg.connect(database.dsn("accounts"))
    for statement in (
        "update account set account_id = gen_random_uuid()",
        "update account set created_at = now()",
        "truncate account cascade",
        "delete from guest_request",
        "update facts set subject = ''",
        "delete from facts",
        "drop table guest_request",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)
    await connection.close()


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
async def test_the_process_tells_its_address_and_stops_cleanly(
    database: Database, keys: KeyFiles, tmp_path: Path, signal_number: signal.Signals
) -> None:
    process = await start_process(environment(database, keys, tmp_path) | {"LEVATA_METRICS_LISTEN": "127.0.0.1:0"})
    assert process.stdout is not None
    entries: list[dict[str, str]] = []
    while not entries or entries[-1]["event"] != "listening":
        entries.append(await read_entry(process.stdout))
    host, _, port = entries[-1]["address"].rpartition(":")
    await create_guest(Address(host, int(port)))
    process.send_signal(signal_number)
    assert await process.wait() == 0
    while not process.stdout.at_eof():
        if entry := await read_entry(process.stdout):
            entries.append(entry)
    assert {entry["service"] for entry in entries} == {"accounts"}
    # Without what comes by the clock, at the end too.
    told = [entry["event"] for entry in entries if entry["event"] not in ("facts", "mail is in time")]
    assert told[-2:] == ["stopping", "stopped"]


async def test_the_process_says_which_settings_it_misses() -> None:
    process = await start_process({name: text for name, text in os.environ.items() if not name.startswith("LEVATA_")})
    _, errors = await process.communicate()
    assert process.returncode == 2
    for name in ("LEVATA_POSTGRES_DSN", "LEVATA_JWKS_FILE", "LEVATA_SIGNING_KEY_FILE", "LEVATA_SECRET_FILE"):
        assert name in errors.decode()


async def test_the_process_ends_when_its_port_is_taken(
    address: Address, database: Database, keys: KeyFiles, tmp_path: Path
) -> None:
    process = await start_process(environment(database, keys, tmp_path) | {"LEVATA_LISTEN": str(address)})
    output, _ = await process.communicate()
    assert process.returncode == 1
    [entry] = map(json.loads, output.splitlines()[-1:])
    assert entry["event"] == "failed"
    assert str(address) in json.dumps(entry["exception"])


def environment(database: Database, keys: KeyFiles, folder: Path) -> dict[str, str]:
    return (
        os.environ
        | told_besides(KINDS["accounts"], DataFolder(folder))
        | {
            "LEVATA_POSTGRES_DSN": database.dsn("accounts"),
            "LEVATA_JWKS_FILE": str(keys.jwks),
            "LEVATA_SIGNING_KEY_FILE": str(keys.signing_key),
            "LEVATA_LISTEN": "127.0.0.1:0",
            "LEVATA_LOG_FORMAT": "json",
        }
    )


async def start_process(variables: dict[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.accounts"),
        env=variables,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def read_entry(stream: asyncio.StreamReader) -> Any:
    line = await stream.readline()
    return json.loads(line) if line else None
