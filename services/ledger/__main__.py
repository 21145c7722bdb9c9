"""`python -m services.ledger`: the ledger service, put together for its process and for tests alike."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from levata.facts.v1 import facts_pb2

from chassis import bus, health, revocation
from chassis.auth import Verifier
from chassis.clock import Clock
from chassis.database import Pool, open_pool
from chassis.facts import LEDGER, Consumer, FactLog, FactsService, Relay, RemoteFacts, Report, Status
from chassis.news import News
from chassis.process import run
from chassis.rpc import Access, Server
from chassis.settings import Address
from chassis.telemetry import ProcessCollector, serve_metrics
from services.ledger import projections
from services.ledger.app.entries import EntryDesk
from services.ledger.app.interventions import Interventions
from services.ledger.app.mondays import Mondays
from services.ledger.app.old_holds import OldHolds
from services.ledger.app.operations import Rebuilt, Step
from services.ledger.app.ports import Owned
from services.ledger.app.refunds import RefundDesk
from services.ledger.app.shop import Shop
from services.ledger.catalogue import read_catalogue
from services.ledger.consumers import accounts, games, league
from services.ledger.consumers.audit import Audit
from services.ledger.rpc import entries, ledger, me, operations, settlement
from services.ledger.rpc.games import RemoteGames
from services.ledger.settings import LedgerSettings
from services.ledger.store.balances import PostgresBalances
from services.ledger.store.entries import PostgresEntries
from services.ledger.store.followed import PostgresFollowed
from services.ledger.store.games import keep_edition
from services.ledger.store.journal import JournalWriter
from services.ledger.store.members import PostgresMembers
from services.ledger.store.refunds import PostgresRefunds
from services.ledger.store.statement import PostgresStatements

STOP_SECONDS: Final = 3
# What the relay is called in health and figures.
RELAY: Final = "levata.facts.relay"
# Who hears of prizes and refunds.
FACTS_ACCESS: Final = Access.by("league")


@asynccontextmanager
async def build(settings: LedgerSettings) -> AsyncIterator[Address]:
    """Start the service; it is stopped at the end of the context."""
    edition = read_catalogue(settings.catalogue_file, settings.time_zone)
    catalogue = edition.catalogue
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(await open_pool(settings.postgres_dsn, settings.service_name))
        clock = await stack.enter_async_context(Clock.following(pool))
        nats = await bus.connect(settings.nats_url, settings.service_name)
        stack.push_async_callback(bus.close, nats)
        outbox = bus.Outbox(nats)
        await outbox.start()
        stack.push_async_callback(outbox.stop)
        balances = PostgresBalances(pool)
        news = News("balances", balances.of, me.NatsPlayers(outbox).tell)
        await keep_edition(pool, edition)
        owners = {
            service: await stack.enter_async_context(RemoteFacts.at(settings.peers[service], settings.service_token))
            for service in ("table", "accounts", "league")
        }
        consumers = {
            "levata.facts.games": games.consumer(owners["table"], pool, nats, edition, news.moved),
            "levata.facts.accounts": accounts.consumer(owners["accounts"], pool, nats, edition, news.moved),
            "levata.facts.league": league.consumer(owners["league"], pool, nats, edition, news.moved),
        }
        relay = Relay(pool, nats, LEDGER)
        table = await stack.enter_async_context(RemoteGames.at(settings.peers["table"], settings.service_token))

        verifier = await stack.enter_async_context(Verifier.following(settings.jwks_file, clock))
        server = Server(verifier, settings.limits)
        journal = await stack.enter_async_context(JournalWriter(pool, news.moved))
        members = PostgresMembers(pool, news.moved)
        mondays = Mondays(members, catalogue, clock.now_us)
        kept = PostgresEntries(pool, news.moved)
        refunds = RefundDesk(PostgresRefunds(pool, news.moved), catalogue, clock.now_us)
        ledger.serve(server, mondays, balances, PostgresStatements(pool), Shop(journal, catalogue), refunds)
        entries.serve(server, EntryDesk(kept, mondays, catalogue.rooms))
        operators = Operators(pool, Audit(owners["table"], pool, edition))
        operations.serve(server, operators, Interventions(journal, members))
        me.serve(server, balances, mondays)
        settlement.serve(server, PostgresFollowed(pool, games.CONSUMER))
        server.add(facts_pb2.DESCRIPTOR.services_by_name["Facts"], FactsService(FactLog(pool)), FACTS_ACCESS)
        old_holds = OldHolds(kept, table, settings.old_hold_seconds)
        reports = [
            *(Report(name, partial(_status_of, consumer)) for name, consumer in consumers.items()),
            Report(RELAY, partial(_status_of, relay)),
        ]
        revocations = await stack.enter_async_context(revocation.heard(server, settings, nats, clock))
        if settings.metrics_listen is not None:
            process = ProcessCollector(server, asyncio.get_running_loop(), pool)
            serve_metrics(settings.metrics_listen, [process, old_holds, *reports, *revocations])
        port = await server.start(*settings.listen)
        stack.push_async_callback(server.stop, STOP_SECONDS)
        workers: list[Relay | Consumer | OldHolds | News[Owned]] = [news, relay, *consumers.values(), old_holds]
        for worker in workers:
            await worker.start()
            stack.push_async_callback(worker.stop)
        for report in reports:
            telling = asyncio.create_task(report.keep_health(server), name="health")
            stack.callback(telling.cancel)
        await stack.enter_async_context(health.kept(server, health.reaches(pool)))
        yield Address(settings.listen.host, port)


class Operators:
    """Implements `app.operations.Operations`."""

    def __init__(self, pool: Pool, audit: Audit) -> None:
        self._pool = pool
        self._audit = audit

    async def rebuild(self, *, dry_run: bool) -> Rebuilt:
        """Make balances anew."""
        return await projections.rebuild(self._pool, dry_run=dry_run)

    def audit(self) -> AsyncGenerator[Step, None]:
        """Compare what games moved with what follows from their facts."""
        return self._audit.run()


def _status_of(worker: Consumer | Relay) -> Status:
    return worker.status


if __name__ == "__main__":
    run("ledger", LedgerSettings, build)
