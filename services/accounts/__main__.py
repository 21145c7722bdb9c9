"""`python -m services.accounts`: the accounts service, put together for its process and for tests alike."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import structlog
from levata.facts.v1 import facts_pb2
from levata.league.v1 import standings_pb2
from levata.me.v1 import updates_pb2
from nats.aio.client import Client
from prometheus_client.registry import Collector

from chassis import bus, health, revocation
from chassis.auth import Signer, Verifier
from chassis.clock import Clock
from chassis.database import Pool, open_pool
from chassis.errors import in_a_line
from chassis.facts import ACCOUNTS, FactLog, FactsService, Relay, Report
from chassis.front import keep_public_health, public_names
from chassis.peers import Peers
from chassis.process import run
from chassis.rpc import Access, Server
from chassis.settings import Address
from chassis.tasks import end
from chassis.telemetry import ProcessCollector, serve_metrics
from services.accounts.app.profiles import Profiles
from services.accounts.app.sessions import DEVICE_DAYS, Sessions
from services.accounts.app.signing_in import SigningIn
from services.accounts.app.tokens import Tokens
from services.accounts.domain.codes import code_of
from services.accounts.mail.outbox import Outbox
from services.accounts.mail.sender import Sender
from services.accounts.me import api as me_api
from services.accounts.me.feed import BALANCES, GAMES, SEARCH, STANDING
from services.accounts.me.hub import Hub
from services.accounts.me.sources import OwnAccount, Service, Source
from services.accounts.rpc import api
from services.accounts.rpc.ranks import RemoteRanks
from services.accounts.settings import AccountsSettings
from services.accounts.store.postgres import PostgresStore

log = structlog.get_logger(__name__)

# Calls are short here: those that run when the service stops are done long before.
STOP_SECONDS: Final = 3
# Nothing depends on what is forgotten being gone: it only takes room.
FORGET_EVERY_SECONDS: Final = 600
# What the relay is called in health and figures.
RELAY: Final = "levata.facts.relay"
# Who hears of accounts: at least which sessions were revoked.
FACTS_ACCESS: Final = Access.by("league", "ledger", "matchmaker", "table")


@asynccontextmanager
async def build(settings: AccountsSettings) -> AsyncIterator[Address]:
    """Start the service; it is stopped at the end of the context.

    Without NATS (an empty URL) it relays no facts, and streams of `Me` lag.
    """
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(await open_pool(settings.postgres_dsn, settings.service_name))
        clock = await stack.enter_async_context(Clock.following(pool))
        nats = await _connect(settings, stack)
        relay = None if nats is None else await _relay(nats, pool, stack)
        secret = settings.secret()
        mail = Sender(
            Outbox(pool),
            settings.mail_transport(),
            settings.mail_sender(),
            lambda code_id: code_of(secret, code_id),
            clock,
            timeout_seconds=settings.mail_timeout_seconds,
            retry_seconds=settings.mail_retry_seconds,
        )

        store = PostgresStore(pool, settings.refresh_token_seconds)
        signer = await stack.enter_async_context(Signer.following(settings.signing_key_file, clock))
        verifier = await stack.enter_async_context(Verifier.following(settings.jwks_file, clock))
        tokens = Tokens(signer, clock, settings.access_token_seconds)
        profiles = Profiles(store, tokens, clock, settings.time_zone)
        hub = Hub(nats, [OwnAccount(profiles), *await _other_sources(settings, stack)])
        # At the public port this service answers for all of them.
        server = Server(verifier, settings.limits, reflected=public_names())
        api.serve(
            server,
            SigningIn(store, tokens, secret, clock, settings.code_policy(), on_mail=mail.wake),
            Sessions(store, tokens, secret),
            profiles,
            await _ranks(settings, stack),
        )
        me_api.serve(server, hub)
        facts = facts_pb2.DESCRIPTOR.services_by_name["Facts"]
        server.add(facts, FactsService(FactLog(pool)), FACTS_ACCESS)
        collectors: list[Collector] = [ProcessCollector(server, asyncio.get_running_loop(), pool), mail, hub]
        if relay is not None:
            report = Report(RELAY, lambda: relay.status)
            collectors.append(report)
            telling = asyncio.create_task(report.keep_health(server), name="health of the relay")
            stack.callback(telling.cancel)
        collectors += await stack.enter_async_context(revocation.heard(server, settings, nats, clock, FactLog(pool)))
        if settings.metrics_listen is not None:
            serve_metrics(settings.metrics_listen, collectors)
        port = await server.start(*settings.listen)
        stack.push_async_callback(server.stop, STOP_SECONDS)
        front = asyncio.create_task(keep_public_health(server, settings.service_name, settings.peers), name="front")
        stack.push_async_callback(end, front)
        await hub.start()
        stack.push_async_callback(hub.stop)
        await mail.start(server)
        stack.push_async_callback(mail.stop)
        forgetting = asyncio.create_task(_forget(store), name="forgetting")
        stack.push_async_callback(end, forgetting)
        await stack.enter_async_context(health.kept(server, health.reaches(pool)))
        yield Address(settings.listen.host, port)


async def _connect(settings: AccountsSettings, stack: AsyncExitStack) -> Client | None:
    """NATS, if there is one."""
    if not settings.nats_url:
        return None
    nats = await bus.connect(settings.nats_url, settings.service_name)
    stack.push_async_callback(bus.close, nats)
    return nats


async def _relay(nats: Client, pool: Pool, stack: AsyncExitStack) -> Relay:
    """Send facts to JetStream."""
    relay = Relay(pool, nats, ACCOUNTS)
    await relay.start()
    stack.push_async_callback(relay.stop)
    return relay


async def _other_sources(settings: AccountsSettings, stack: AsyncExitStack) -> Sequence[Source]:
    """The other services that have something to tell of an account."""
    snapshots = updates_pb2.DESCRIPTOR.services_by_name["Snapshots"]
    sources = []
    for topic in (GAMES, BALANCES, SEARCH, STANDING):
        if addresses := settings.peers.get(topic.source):
            peers = Peers.at(addresses, settings.service_token, snapshots)
            sources.append(Service(topic, await stack.enter_async_context(peers)))
    return sources


async def _ranks(settings: AccountsSettings, stack: AsyncExitStack) -> RemoteRanks:
    """What the league knows of accounts, if there is one."""
    addresses = settings.peers.get("league")
    if not addresses:
        return RemoteRanks(None)
    standings = standings_pb2.DESCRIPTOR.services_by_name["Standings"]
    return RemoteRanks(await stack.enter_async_context(Peers.at(addresses, settings.service_token, standings)))


async def _forget(store: PostgresStore) -> None:
    """Delete what is of no use any more, now and then; several replicas do no harm."""
    while True:
        try:
            await store.forget(DEVICE_DAYS)
        except Exception as error:
            log.warning("what is old could not be deleted", error=in_a_line(error))
        await asyncio.sleep(FORGET_EVERY_SECONDS)


if __name__ == "__main__":
    run("accounts", AccountsSettings, build)
