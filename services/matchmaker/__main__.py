"""`python -m services.matchmaker`: the matchmaker, put together for its process and for tests alike."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import structlog
from levata.facts.v1 import facts_pb2

from chassis import bus, health, revocation
from chassis.auth import Verifier
from chassis.clock import Clock
from chassis.database import open_pool
from chassis.errors import in_a_line
from chassis.facts import MATCHES, FactLog, FactsService, Relay, RemoteFacts, Report
from chassis.process import run
from chassis.rpc import Access, Server
from chassis.settings import Address
from chassis.tasks import end
from chassis.telemetry import ProcessCollector, serve_metrics
from services.matchmaker.app.alone import Alone
from services.matchmaker.app.dealing import Dealing
from services.matchmaker.app.forming import Former
from services.matchmaker.app.freed import Freed
from services.matchmaker.app.friendly import FriendlyTables
from services.matchmaker.app.preparing import Preparing
from services.matchmaker.app.quick_play import QuickPlay
from services.matchmaker.catalogue import read_rooms
from services.matchmaker.consumers import games
from services.matchmaker.domain.quick_play import POOLS
from services.matchmaker.figures import MatchmakerCollector
from services.matchmaker.rpc import api, friendly, me
from services.matchmaker.rpc.me import NatsPlayers
from services.matchmaker.rpc.others import Others
from services.matchmaker.rpc.replicas import NatsReplicas
from services.matchmaker.settings import MatchmakerSettings
from services.matchmaker.store.attempts import PostgresAttempts
from services.matchmaker.store.friendly import PostgresFriendlyTables
from services.matchmaker.store.quick_play import PostgresQuickPlay

log = structlog.get_logger(__name__)

STOP_SECONDS: Final = 3
# What consumer and relay are called in health and figures.
CONSUMER: Final = "levata.facts.games"
RELAY: Final = "levata.facts.relay"
# Who hears of tables; `tools` looks how far their facts are.
FACTS_ACCESS: Final = Access.by("tools")
FORGET_EVERY_SECONDS: Final = 3600.0


@asynccontextmanager
async def build(settings: MatchmakerSettings) -> AsyncIterator[Address]:
    """Start the service; it is stopped at the end of the context."""
    rooms = read_rooms(settings.catalogue_file)
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(await open_pool(settings.postgres_dsn, settings.service_name))
        clock = await stack.enter_async_context(Clock.following(pool))
        nats = await bus.connect(settings.nats_url, settings.service_name)
        stack.push_async_callback(bus.close, nats)
        outbox = bus.Outbox(nats)
        await outbox.start()
        stack.push_async_callback(outbox.stop)
        others = await stack.enter_async_context(Others.at(settings))
        game_facts = await stack.enter_async_context(RemoteFacts.at(settings.peers["table"], settings.service_token))
        relay = Relay(pool, nats, MATCHES)

        store, friendly_store = PostgresQuickPlay(pool), PostgresFriendlyTables(pool)
        attempts = PostgresAttempts(pool)
        players, replicas = NatsPlayers(outbox), NatsReplicas(nats, outbox)
        freed = Freed(store, players, clock.now_us)
        consumer = games.consumer(game_facts, pool, nats, freed.moved)
        dealing = Dealing(store, others.games, others.ledger, players, clock.now_us)
        preparing = Preparing(store, others.games)
        formers = {each: Former(each, store, preparing, dealing, players, clock.now_us, clock.new_id) for each in POOLS}
        quick_play = QuickPlay(
            rooms,
            store,
            others.games,
            others.ledger,
            others.league,
            others.accounts,
            replicas,
            zone=settings.time_zone,
            now_us=clock.now_us,
            new_id=clock.new_id,
        )
        stack.push_async_callback(quick_play.stop)
        tables = FriendlyTables(
            friendly_store,
            others.games,
            players,
            clock.now_us,
            gone_seconds=settings.friendly_gone_seconds,
            answers_seconds=settings.friendly_answers_seconds,
        )
        verifier = await stack.enter_async_context(Verifier.following(settings.jwks_file, clock))
        server = Server(verifier, settings.limits)
        api.serve(server, quick_play, tables, Alone(others.games, attempts, clock.now_us))
        friendly.serve(server, tables)
        me.serve(server, store, friendly_store, clock.now_us)
        server.add(facts_pb2.DESCRIPTOR.services_by_name["Facts"], FactsService(FactLog(pool)), FACTS_ACCESS)
        reports = [Report(CONSUMER, lambda: consumer.status), Report(RELAY, lambda: relay.status)]
        revocations = await stack.enter_async_context(revocation.heard(server, settings, nats, clock))
        figures = MatchmakerCollector(list(formers.values()), dealing, tables)
        if settings.metrics_listen is not None:
            process = ProcessCollector(server, asyncio.get_running_loop(), pool)
            serve_metrics(settings.metrics_listen, [process, figures, *reports, *revocations])
        port = await server.start(*settings.listen)
        stack.push_async_callback(server.stop, STOP_SECONDS)
        await freed.start()
        stack.push_async_callback(freed.stop)
        await consumer.start()
        stack.push_async_callback(consumer.stop)
        await relay.start()
        stack.push_async_callback(relay.stop)
        for report in reports:
            stack.push_async_callback(end, asyncio.create_task(report.keep_health(server), name="health"))
        deals = asyncio.create_task(figures.keep_health(server), name="health of the deals")
        stack.push_async_callback(end, deals)
        stack.push_async_callback(store.release_turns)
        stack.push_async_callback(dealing.stop)
        stack.push_async_callback(preparing.stop)
        await replicas.start(formers)
        for former in formers.values():
            former.start()
            stack.push_async_callback(former.stop)
        tables.start()
        stack.push_async_callback(tables.stop)
        forgetting = asyncio.create_task(_forget(store, friendly_store, attempts), name="forget")
        stack.push_async_callback(end, forgetting)
        await stack.enter_async_context(health.kept(server, health.reaches(pool)))
        yield Address(settings.listen.host, port)


async def _forget(store: PostgresQuickPlay, friendly_store: PostgresFriendlyTables, attempts: PostgresAttempts) -> None:
    """Delete what is of no use any more, now and then; several replicas do no harm."""
    while True:
        try:
            await store.forget_ended()
            await friendly_store.forget()
            await attempts.forget()
        except Exception as error:
            log.warning("what is old could not be deleted", error=in_a_line(error))
        await asyncio.sleep(FORGET_EVERY_SECONDS)


if __name__ == "__main__":
    run("matchmaker", MatchmakerSettings, build)
