"""`python -m services.table`: the table service, put together for its process and for tests alike."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from uuid import uuid4

from levata.facts.v1 import facts_pb2
from nats.aio.client import Client
from prometheus_client.registry import Collector

from chassis import bus, health, revocation
from chassis.auth import Verifier
from chassis.clock import Clock
from chassis.database import Pool, open_pool
from chassis.facts import GAMES, FactLog, FactsService, Relay, Report
from chassis.log import GroupWriter, LogReader
from chassis.process import run
from chassis.rpc import Access, Server
from chassis.settings import Address, Settings
from chassis.telemetry import LogCollector, ProcessCollector, serve_metrics
from services.table.app.audience import Audiences
from services.table.app.delayed import DelayedGames
from services.table.app.following import Following
from services.table.app.gatherings import Gatherings
from services.table.app.host import Host
from services.table.app.own_games import NoPlayers
from services.table.app.replicas import NoReplicas
from services.table.app.routing import Routing
from services.table.app.tables import Tables
from services.table.figures import TableCollector
from services.table.rpc import api, me, messages
from services.table.rpc.gatherings import OtherReplicas
from services.table.rpc.me import NatsPlayers
from services.table.rpc.replicas import NatsReplicas
from services.table.store.chat import ChatStore
from services.table.store.database import Store
from services.table.store.log import GameLog

# Streams have been told to resume before; what is left is unary calls.
STOP_SECONDS: Final = 3
# What the relay is called in health and figures.
RELAY: Final = "levata.facts.relay"
# Who hears of games; `tools` looks how far their facts are.
FACTS_ACCESS: Final = Access.by("league", "ledger", "matchmaker", "tools")


@asynccontextmanager
async def build(settings: Settings) -> AsyncIterator[Address]:
    """Start the service; it is stopped at the end of the context.

    Without NATS (an empty URL) it relays no facts, and hears nothing of other replicas.
    """
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(await open_pool(settings.postgres_dsn, settings.service_name))
        clock = await stack.enter_async_context(Clock.following(pool))
        nats = await _connect(settings, stack)
        relay = None if nats is None else await _relay(nats, pool, stack)
        on_facts = None if relay is None else relay.wake
        writer = await stack.enter_async_context(GroupWriter(settings.postgres_dsn, on_facts=on_facts))

        store, game_log, host_id = Store(pool), GameLog(writer, LogReader(pool)), uuid4()
        replicas = NoReplicas() if nats is None else NatsReplicas(nats, host_id)
        players = NoPlayers() if nats is None else await _players(nats, stack)
        audiences = Audiences(messages)
        following = Following(game_log, replicas, audiences)
        host = Host(host_id, store, game_log, clock, replicas, players, audiences, following)
        routing = Routing(store, game_log, host, replicas)
        verifier = await stack.enter_async_context(Verifier.following(settings.jwks_file, clock))
        server = Server(verifier, settings.limits)
        gatherings = await _gatherings(pool, nats, str(host_id), stack)
        delayed = DelayedGames(game_log, messages, audiences, clock)
        api.serve(server, Tables(store, game_log, host, following, routing), delayed, gatherings)
        me.serve(server, store, game_log)
        facts = facts_pb2.DESCRIPTOR.services_by_name["Facts"]
        server.add(facts, FactsService(FactLog(pool)), FACTS_ACCESS)
        collectors: list[Collector] = [
            ProcessCollector(server, asyncio.get_running_loop(), pool),
            LogCollector(writer),
            TableCollector(host, following, audiences),
        ]
        if relay is not None:
            report = Report(RELAY, lambda: relay.status)
            collectors.append(report)
            telling = asyncio.create_task(report.keep_health(server), name="health of the relay")
            stack.callback(telling.cancel)
        collectors += await stack.enter_async_context(revocation.heard(server, settings, nats, clock))
        if settings.metrics_listen is not None:
            serve_metrics(settings.metrics_listen, collectors)
        port = await server.start(*settings.listen)
        stack.push_async_callback(server.stop, STOP_SECONDS)
        address = Address(settings.listen.host, port)
        if isinstance(replicas, NatsReplicas):
            await replicas.start(routing.serve)
            stack.push_async_callback(replicas.stop)
        await following.start()
        stack.push_async_callback(following.stop)
        await delayed.start()
        stack.push_async_callback(delayed.stop)
        stack.callback(audiences.close_streams, "DRAINING")
        await host.start(str(address))
        stack.push_async_callback(host.stop)

        async def is_well() -> bool:
            return host.heartbeat.is_sure and writer.connected

        await stack.enter_async_context(health.kept(server, is_well))
        yield address


async def _connect(settings: Settings, stack: AsyncExitStack) -> Client | None:
    """NATS, if there is one."""
    if not settings.nats_url:
        return None
    nats = await bus.connect(settings.nats_url, settings.service_name)
    stack.push_async_callback(bus.close, nats)
    return nats


async def _players(nats: Client, stack: AsyncExitStack) -> NatsPlayers:
    """The way to people who watch what becomes of their games."""
    outbox = bus.Outbox(nats)
    await outbox.start()
    stack.push_async_callback(outbox.stop)
    return NatsPlayers(outbox)


async def _gatherings(pool: Pool, nats: Client | None, replica_id: str, stack: AsyncExitStack) -> Gatherings:
    """The people around friendly tables, with those of the other replicas if there is a way to hear of them."""
    others = None if nats is None else OtherReplicas(nats, replica_id)
    gatherings = Gatherings(ChatStore(pool), messages, others)
    await gatherings.start()
    stack.push_async_callback(gatherings.stop)
    if others is not None:
        await others.start(gatherings)
        stack.push_async_callback(others.stop)
    return gatherings


async def _relay(nats: Client, pool: Pool, stack: AsyncExitStack) -> Relay:
    """Send facts to JetStream."""
    relay = Relay(pool, nats, GAMES)
    await relay.start()
    stack.push_async_callback(relay.stop)
    return relay


if __name__ == "__main__":
    run("table", Settings, build)
