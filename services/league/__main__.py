"""`python -m services.league`: the league service, put together for its process and for tests alike."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from levata.facts.v1 import facts_pb2

from chassis import bus, health, revocation
from chassis.auth import Verifier
from chassis.clock import Clock
from chassis.database import open_pool
from chassis.facts import LEAGUE, FactLog, FactsService, Relay, RemoteFacts, Report
from chassis.process import run
from chassis.rpc import Access, Server
from chassis.settings import Address, Settings
from chassis.telemetry import ProcessCollector, serve_metrics
from services.league import consumers, rpc
from services.league.app import League
from services.league.store import PostgresRecords

STOP_SECONDS: Final = 3
# What the consumer and the relay are called in health and figures.
GAMES_FACTS: Final = "levata.facts.games"
RELAY: Final = "levata.facts.relay"
# Who hears of closed weeks.
FACTS_ACCESS: Final = Access.by("ledger")


@asynccontextmanager
async def build(settings: Settings) -> AsyncIterator[Address]:
    """Start the service; it is stopped at the end of the context."""
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(await open_pool(settings.postgres_dsn, settings.service_name))
        clock = await stack.enter_async_context(Clock.following(pool))
        nats = await bus.connect(settings.nats_url, settings.service_name)
        stack.push_async_callback(bus.close, nats)
        owner = await stack.enter_async_context(RemoteFacts.at(settings.peers["table"], settings.service_token))
        consumer = consumers.consumer(owner, pool, nats)
        relay = Relay(pool, nats, LEAGUE)

        verifier = await stack.enter_async_context(Verifier.following(settings.jwks_file, clock))
        server = Server(verifier, settings.limits)
        rpc.serve(server, League(PostgresRecords(pool), consumers.Rebuilding(owner, pool)))
        server.add(facts_pb2.DESCRIPTOR.services_by_name["Facts"], FactsService(FactLog(pool)), FACTS_ACCESS)
        reports = [Report(GAMES_FACTS, lambda: consumer.status), Report(RELAY, lambda: relay.status)]
        revocations = await stack.enter_async_context(revocation.heard(server, settings, nats, clock))
        if settings.metrics_listen is not None:
            process = ProcessCollector(server, asyncio.get_running_loop(), pool)
            serve_metrics(settings.metrics_listen, [process, *reports, *revocations])
        port = await server.start(*settings.listen)
        stack.push_async_callback(server.stop, STOP_SECONDS)
        for worker in (relay, consumer):
            await worker.start()
            stack.push_async_callback(worker.stop)
        for report in reports:
            telling = asyncio.create_task(report.keep_health(server), name="health of facts")
            stack.callback(telling.cancel)
        await stack.enter_async_context(health.kept(server, health.reaches(pool)))
        yield Address(settings.listen.host, port)


if __name__ == "__main__":
    run("league", Settings, build)
