"""A log of facts and a consumer of them, for tests: the table service's schema tells, the league's hears.

The effect of each fact is a row in a table whose keys are numbers: a doubled effect fails, a lost one leaves a hole.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import psycopg
from levata.facts.v1 import facts_pb2 as log_pb2
from nats.aio.client import Client

from chassis.auth import KeyFiles, Verifier
from chassis.bus import connect
from chassis.database import Pool, Session, open_pool
from chassis.facts import GAMES, Consumer, Fact, FactLog, FactsOwner, FactsService, FactStream, Relay, publish
from chassis.facts.consumer import Apply
from chassis.log import NewFact
from chassis.rpc import Access, Server
from tests.conftest import Database
from tools.embedded.nats import EmbeddedNats


@dataclass
class Wiring:
    """Both sides, connected."""

    owner: Pool
    hearer: Pool
    relay_nats: Client
    consumer_nats: Client
    # The consumer's; nobody else's on a shared JetStream.
    name: str
    # What is stopped at the end, also of a failed test.
    parts: list[Relay | Consumer] = field(default_factory=list)

    def relay(self) -> Relay:
        """A relay of the owner."""
        relay = Relay(self.owner, self.relay_nats, GAMES)
        self.parts.append(relay)
        return relay

    def consumer(
        self,
        apply: Apply | None = None,
        owner: FactsOwner | None = None,
    ) -> Consumer:
        """A consumer whose effect is `keep`, or another one."""
        consumer = Consumer(
            self.name, GAMES, owner or FactLog(self.owner), self.hearer, self.consumer_nats, apply or keep
        )
        self.parts.append(consumer)
        return consumer

    async def tell(self, count: int, *, key: str = "game") -> int:
        """Commit that many facts, each in a transaction of its own; answers the last number."""
        last = 0
        for _ in range(count):
            async with self.owner.acquire() as session, session.transaction():
                last = await publish(session, [NewFact(f"levata.games.finished.{key}", b"told")])
        return last

    async def effects(self) -> list[int]:
        """Numbers of the facts that have had their effect, in the order in which they had it."""
        return [row["fact_no"] for row in await self.hearer.fetch("select fact_no from effect order by place")]

    async def heard(self, consumer: Consumer, last: int) -> None:
        """Wait until a consumer is through to a number."""
        await until(lambda: consumer.status.checkpoint >= last)


async def keep(session: Session, fact: Fact) -> None:
    """The effect."""
    await session.execute("insert into effect (fact_no) values ($1)", fact.number)


async def until(happened: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for something that others do; the test's own timeout bounds it."""
    while not (await answer if isinstance(answer := happened(), Awaitable) else answer):
        await asyncio.sleep(0.02)


@asynccontextmanager
async def wired(database: Database, nats: EmbeddedNats) -> AsyncIterator[Wiring]:
    """Connections of both sides, each with its own service's rights."""
    with psycopg.connect(database.admin_dsn, autocommit=True) as admin:
        admin.execute("""
            create table if not exists league.effect (
                fact_no bigint primary key, place bigint generated always as identity
            );
            grant select, insert, delete on league.effect to levata_league;
        """)
    async with AsyncExitStack() as stack:
        owner = await stack.enter_async_context(await open_pool(database.dsn("table"), "test"))
        hearer = await stack.enter_async_context(await open_pool(database.dsn("league"), "test"))
        relay_nats = await connect(nats.url("table"), "test relay")
        stack.push_async_callback(relay_nats.close)
        consumer_nats = await connect(nats.url("league"), "test consumer")
        stack.push_async_callback(consumer_nats.close)
        wiring = Wiring(owner, hearer, relay_nats, consumer_nats, f"test-{uuid4()}")
        try:
            yield wiring
        finally:
            for part in wiring.parts:
                await part.stop()


async def serve_facts(
    stack: AsyncExitStack, database: Database, nats: EmbeddedNats, keys: KeyFiles, service: str, stream: FactStream
) -> tuple[Pool, Relay, str]:
    """A log, served and relayed as its owner does."""
    pool = await stack.enter_async_context(await open_pool(database.dsn(service), "test"))
    owner = Server(Verifier.from_file(keys.jwks))
    access = Access.by("league", "ledger")
    owner.add(log_pb2.DESCRIPTOR.services_by_name["Facts"], FactsService(FactLog(pool)), access)
    port = await owner.start("127.0.0.1", 0)
    stack.push_async_callback(owner.stop, 0)
    client = await connect(nats.url(service), "test")
    stack.push_async_callback(client.close)
    relay = Relay(pool, client, stream)
    await relay.start()
    stack.push_async_callback(relay.stop)
    return pool, relay, f"127.0.0.1:{port}"
