"""`python -m services.league`: the league service, put together for its process and for tests alike."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from levata.facts.v1 import facts_pb2

from chassis import bus, health, revocation
from chassis.auth import Verifier
from chassis.clock import Clock
from chassis.database import open_pool
from chassis.facts import LEAGUE, Consumer, FactLog, FactsService, Relay, RemoteFacts, Report, Status
from chassis.news import News
from chassis.process import run
from chassis.rpc import Access, Server
from chassis.settings import Address
from chassis.telemetry import ProcessCollector, serve_metrics
from services.league.app.closing import Closing
from services.league.app.standings import League, Rank
from services.league.catalogue import read_terms
from services.league.consumers import accounts, games, ledger
from services.league.consumers.rebuilding import Rebuilding
from services.league.consumers.settlement import RemoteLedger
from services.league.rpc import league, me, operations, standings
from services.league.settings import LeagueSettings
from services.league.store.records import PostgresRecords
from services.league.store.standings import PostgresStandings
from services.league.store.weeks import PostgresWeeks

STOP_SECONDS: Final = 3
# What the consumers and the relay are called in health and figures.
GAMES_FACTS: Final = "levata.facts.games"
LEDGER_FACTS: Final = "levata.facts.ledger"
ACCOUNTS_FACTS: Final = "levata.facts.accounts"
RELAY: Final = "levata.facts.relay"
# Who hears of closed weeks.
FACTS_ACCESS: Final = Access.by("ledger")


@asynccontextmanager
async def build(settings: LeagueSettings) -> AsyncIterator[Address]:
    """Start the service; it is stopped at the end of the context."""
    terms = read_terms(settings.catalogue_file)
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(await open_pool(settings.postgres_dsn, settings.service_name))
        clock = await stack.enter_async_context(Clock.following(pool))
        nats = await bus.connect(settings.nats_url, settings.service_name)
        stack.push_async_callback(bus.close, nats)
        token, zone = settings.service_token, settings.time_zone
        games_log = await stack.enter_async_context(RemoteFacts.at(settings.peers["table"], token))
        ledger_log = await stack.enter_async_context(RemoteFacts.at(settings.peers["ledger"], token))
        accounts_log = await stack.enter_async_context(RemoteFacts.at(settings.peers["accounts"], token))
        answers = League(PostgresStandings(pool), terms, zone)
        outbox = bus.Outbox(nats)
        await outbox.start()
        stack.push_async_callback(outbox.stop)
        news = News("standings", answers.ranks, me.NatsPlayers(outbox).tell)
        effects = games.Effects(zone, terms)
        consumers = {
            GAMES_FACTS: games.consumer(games_log, pool, nats, effects, news.moved),
            LEDGER_FACTS: ledger.consumer(ledger_log, pool, nats, news.moved),
            ACCOUNTS_FACTS: accounts.consumer(accounts_log, pool, nats),
        }
        relay = Relay(pool, nats, LEAGUE)
        remote_ledger = await stack.enter_async_context(RemoteLedger.at(settings.peers["ledger"], token))
        closing = Closing(games_log, remote_ledger, PostgresWeeks(pool, terms, news.moved), zone)

        verifier = await stack.enter_async_context(Verifier.following(settings.jwks_file, clock))
        server = Server(verifier, settings.limits)
        league.serve(server, PostgresRecords(pool), answers)
        standings.serve(server, answers)
        me.serve(server, answers)
        operations.serve(server, Rebuilding(games_log, ledger_log, effects, pool, terms))
        server.add(facts_pb2.DESCRIPTOR.services_by_name["Facts"], FactsService(FactLog(pool)), FACTS_ACCESS)
        reports = [
            *(Report(name, partial(_status_of, consumer)) for name, consumer in consumers.items()),
            Report(RELAY, partial(_status_of, relay)),
        ]
        revocations = await stack.enter_async_context(revocation.heard(server, settings, nats, clock))
        if settings.metrics_listen is not None:
            process = ProcessCollector(server, asyncio.get_running_loop(), pool)
            serve_metrics(settings.metrics_listen, [process, *reports, *revocations])
        port = await server.start(*settings.listen)
        stack.push_async_callback(server.stop, STOP_SECONDS)
        workers: list[Relay | Consumer | News[Rank]] = [news, relay, *consumers.values()]
        for worker in workers:
            await worker.start()
            stack.push_async_callback(worker.stop)
        await stack.enter_async_context(closing.working())
        for report in reports:
            telling = asyncio.create_task(report.keep_health(server), name="health of facts")
            stack.callback(telling.cancel)
        await stack.enter_async_context(health.kept(server, health.reaches(pool)))
        yield Address(settings.listen.host, port)


def _status_of(worker: Consumer | Relay) -> Status:
    return worker.status


if __name__ == "__main__":
    run("league", LeagueSettings, build)
