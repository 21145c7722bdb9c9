"""Revoked sessions: facts of the accounts' log reach a server over NATS or by reading, and its streams end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from uuid import uuid4

import grpc
import psycopg
import pytest
from levata.accounts.v1 import facts_pb2
from levata.table.v1 import table_pb2

from chassis import revocation
from chassis.auth import KeyFiles, Signer, Verifier
from chassis.bus import connect
from chassis.clock import Clock
from chassis.database import Pool, open_pool
from chassis.errors import reason_of
from chassis.facts import ACCOUNTS, FactLog, Relay, State, publish
from chassis.log import NewFact
from chassis.revocation import Revocations
from chassis.rpc import Access, Call, Server, channel, stub
from tests.conftest import Database
from tools.embedded.nats import EmbeddedNats
from tools.migrate import SCHEMAS

TABLE = table_pb2.DESCRIPTOR.services_by_name["Table"]
TOKEN_SECONDS = 600


class Streams:
    """A service whose streams do not end."""

    async def watch(self, request: table_pb2.WatchRequest, call: Call) -> None:
        await call.write(table_pb2.WatchResponse())
        await asyncio.Event().wait()

    def __getattr__(self, name: str) -> Any:
        async def not_asked(*_: Any) -> None: ...

        return not_asked


class Log:
    """The accounts' log, as accounts writes it."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    async def revoke(self, session: str, expire_at_s: int) -> None:
        account = str(uuid4())
        revoked = facts_pb2.SessionRevokedFact(session_id=session, tokens_expire_at_s=expire_at_s)
        fact = facts_pb2.AccountFact(account_id=account, session_revoked=revoked)
        await self.tell(f"levata.accounts.session_revoked.{account}", fact.SerializeToString())

    async def tell(self, subject: str, payload: bytes) -> None:
        async with self.pool.acquire() as session, session.transaction():
            await publish(session, [NewFact(subject, payload)])


class Away(FactLog):
    """The accounts' log, which may be out of reach."""

    is_away = False

    async def before(self, at_us: int) -> Any:
        self._refuse_while_away()
        return await super().before(at_us)

    async def read(self, after: int, limit: int = 3) -> Any:
        self._refuse_while_away()
        return await super().read(after, limit)

    def _refuse_while_away(self) -> None:
        if self.is_away:
            raise ConnectionError("accounts is away")


class World:
    """The accounts' log with its relay, and servers that hear of it."""

    def __init__(self, database: Database, nats: EmbeddedNats, keys: KeyFiles, log: Log, clock: Clock) -> None:
        self.database = database
        self.nats = nats
        self.log = log
        self.clock = clock
        self.owner = Away(log.pool)
        self.signer = Signer.from_file(keys.signing_key, clock)
        self._keys = keys

    def token(self, session: str) -> str:
        return self.signer.player_token(str(uuid4()), False, TOKEN_SECONDS, session)

    def expire_at_s(self) -> int:
        return self.clock.now_s() + TOKEN_SECONDS

    @asynccontextmanager
    async def replica(self, *, over_nats: bool) -> AsyncIterator["Replica"]:
        async with AsyncExitStack() as stack:
            server = Server(Verifier.from_file(self._keys.jwks, self.clock))
            server.add(TABLE, Streams(), Access.ANY)
            target = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
            stack.push_async_callback(server.stop, 0)
            client = None
            if over_nats:
                client = await connect(self.nats.url("table"), "table")
                stack.push_async_callback(client.close)
            revocations = Revocations(server, self.owner, client, self.clock, TOKEN_SECONDS)
            await revocations.start()
            stack.push_async_callback(revocations.stop)
            yield Replica(server, revocations, target, stack)


class Replica:
    """One server."""

    def __init__(self, server: Server, revocations: Revocations, target: str, stack: AsyncExitStack) -> None:
        self.server = server
        self.revocations = revocations
        self._target = target
        self._stack = stack

    async def table(self, token: str) -> Any:
        return stub(await self._stack.enter_async_context(channel(self._target, token)), TABLE)

    async def watch(self, token: str) -> Any:
        """A stream that has begun."""
        stream = (await self.table(token)).Watch(table_pb2.WatchRequest(game_id=str(uuid4())))
        await stream.read()
        return stream

    async def refusal(self, token: str) -> str | None:
        try:
            await self.watch(token)
        except grpc.aio.AioRpcError as error:
            return reason_of(error)
        return None

    async def has_read(self) -> None:
        await until(lambda: self.revocations.status.state is State.CAUGHT_UP)


async def until(true: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    """Wait until it is so; the test's own time-out is the bound."""
    while True:
        answer = true()
        if answer if isinstance(answer, bool) else await answer:
            return
        await asyncio.sleep(0.02)


async def ended(stream: Any) -> str | None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stream.read()
    return reason_of(caught.value)


@pytest.fixture
async def world(database: Database, nats: EmbeddedNats, keys: KeyFiles) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(await open_pool(database.dsn("accounts"), "accounts"))
        clock = await Clock.measured(pool)
        client = await connect(nats.url("accounts"), "accounts")
        stack.push_async_callback(client.close)
        relay = Relay(pool, client, ACCOUNTS)
        await relay.start()
        stack.push_async_callback(relay.stop)
        yield World(database, nats, keys, Log(pool), clock)


async def test_over_nats_alone_every_replica_hears_at_once(world: World) -> None:
    world.owner.is_away = True
    session, other = str(uuid4()), str(uuid4())
    token, other_token = world.token(session), world.token(other)
    async with world.replica(over_nats=True) as first, world.replica(over_nats=True) as second:
        streams = [await first.watch(token), await second.watch(token)]
        kept = await first.watch(other_token)
        await world.log.revoke(session, world.expire_at_s())
        assert [await ended(stream) for stream in streams] == ["SESSION_REVOKED"] * 2
        assert [await replica.refusal(token) for replica in (first, second)] == ["SESSION_REVOKED"] * 2
        assert await first.refusal(other_token) is None
        assert not kept.done()
        # It has not read for a while, and says so.
        assert first.revocations.status.state is not State.CAUGHT_UP


async def test_without_nats_it_is_read_within_seconds(world: World) -> None:
    session = str(uuid4())
    async with world.replica(over_nats=False) as replica:
        await replica.has_read()
        stream = await replica.watch(world.token(session))
        for _ in range(7):
            await world.log.tell("levata.accounts.created.somebody", b"")
        await world.log.revoke(session, world.expire_at_s())
        assert await ended(stream) == "SESSION_REVOKED"


async def test_a_new_replica_knows_what_was_revoked_before_it_ran(world: World) -> None:
    sessions = [str(uuid4()) for _ in range(5)]
    for session in sessions:
        await world.log.revoke(session, world.expire_at_s())
    async with world.replica(over_nats=False) as replica:
        await replica.has_read()
        assert replica.server.revoked_sessions == 5
        assert await replica.refusal(world.token(sessions[0])) == "SESSION_REVOKED"


async def test_what_is_older_than_any_token_is_not_read(world: World) -> None:
    async with world.log.pool.acquire() as session:
        before_us = await session.fetchval("select (extract(epoch from levata_now()) * 1000000)::bigint")
    await world.log.revoke(str(uuid4()), world.expire_at_s())
    with psycopg.connect(world.database.admin_dsn) as admin:
        admin.execute(f"set search_path = {SCHEMAS['accounts'].name}")
        admin.execute("alter table facts disable trigger all")
        admin.execute(f"update facts set at = at - interval '{TOKEN_SECONDS + 61} seconds'")
        admin.execute("alter table facts enable trigger all")
    await world.log.revoke(str(uuid4()), world.expire_at_s())
    assert (await world.owner.before(before_us)).last == 1
    async with world.replica(over_nats=False) as replica:
        await replica.has_read()
        assert replica.server.revoked_sessions == 1


async def test_accounts_that_was_away_at_the_start_is_read_when_it_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revocation, "READ_SECONDS", 0.05)
    session = str(uuid4())
    await world.log.revoke(session, world.expire_at_s())
    world.owner.is_away = True
    async with world.replica(over_nats=False) as replica:
        # Nobody can have told it: it lets the session in, and says that it does not know.
        stream = await replica.watch(world.token(session))
        assert replica.revocations.status.state is State.LAGGING
        world.owner.is_away = False
        assert await ended(stream) == "SESSION_REVOKED"
        await replica.has_read()


async def test_a_restored_log_is_read_anew_and_what_is_known_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revocation, "READ_SECONDS", 0.05)
    known, told = str(uuid4()), str(uuid4())
    await world.log.revoke(known, world.expire_at_s())
    async with world.replica(over_nats=False) as replica:
        await replica.has_read()
        with psycopg.connect(world.database.admin_dsn) as admin:
            admin.execute(f"set search_path = {SCHEMAS['accounts'].name}")
            admin.execute("alter table facts disable trigger all")
            admin.execute("alter table fact_head disable trigger all")
            admin.execute("delete from facts")
            admin.execute("update fact_head set incarnation = gen_random_uuid(), last = 0")
            admin.execute("alter table fact_head enable trigger all")
            admin.execute("alter table facts enable trigger all")
        await world.log.revoke(told, world.expire_at_s())
        await until(lambda: replica.server.revoked_sessions == 2)
        assert await replica.refusal(world.token(known)) == "SESSION_REVOKED"
        assert await replica.refusal(world.token(told)) == "SESSION_REVOKED"


@pytest.mark.parametrize("payload", [b"\xff", b"", facts_pb2.AccountFact().SerializeToString()])
async def test_a_fact_that_cannot_be_read_keeps_no_other_back(world: World, payload: bytes) -> None:
    session = str(uuid4())
    await world.log.tell("levata.accounts.session_revoked.somebody", payload)
    await world.log.revoke(session, world.expire_at_s())
    async with world.replica(over_nats=False) as replica:
        await replica.has_read()
        assert await replica.refusal(world.token(session)) == "SESSION_REVOKED"
        # Nothing was taken for the session of those that have none.
        assert await replica.refusal(world.signer.service_token("table", 60)) is None
