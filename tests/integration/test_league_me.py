"""Standings on `Me.Watch`: as they are when a stream begins, and live when a game or a prize changes them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from levata.me.v1 import me_pb2

from chassis.auth import KeyFiles, Signer, Verifier
from chassis.database import Pool
from chassis.facts import GAMES, LEDGER, Fact, Relay, publish
from chassis.log import NewFact
from chassis.rpc import channel, stub
from chassis.settings import Address
from services.accounts.__main__ import build as build_accounts
from services.league.__main__ import build as build_league
from services.league.settings import LeagueSettings
from tests.accounts import Phone, World, accounts_settings
from tests.conftest import Database
from tests.facts import serve_facts
from tests.league import game_finished, prize_paid, refunded, seat
from tools.embedded.nats import EmbeddedNats
from tools.embedded.process import free_port
from tools.up.servers import CATALOGUE


@dataclass
class Log:
    """A log that the league hears."""

    pool: Pool
    relay: Relay

    async def tell(self, *facts: Fact) -> None:
        """Append facts."""
        async with self.pool.acquire() as session, session.transaction():
            await publish(session, [NewFact(fact.subject, fact.payload) for fact in facts])
        self.relay.wake()


@dataclass
class Backend:
    """Accounts and a league, who know each other, and the logs of games and of the ledger."""

    accounts: World
    games: Log
    ledger: Log


@pytest.fixture
async def backend(database: Database, nats: EmbeddedNats, keys: KeyFiles, tmp_path: Path) -> AsyncIterator[Backend]:
    signer, address = Signer.from_file(keys.signing_key), Address("127.0.0.1", free_port())
    tokens = {service: tmp_path / f"{service}.token" for service in ("accounts", "league")}
    for service, file in tokens.items():
        file.write_text(signer.service_token(service, 3600))
    async with AsyncExitStack() as stack:
        games, games_relay, games_at = await serve_facts(stack, database, nats, keys, "table", GAMES)
        ledger, ledger_relay, ledger_at = await serve_facts(stack, database, nats, keys, "ledger", LEDGER)
        settings = accounts_settings(
            database,
            keys,
            tmp_path,
            nats_url=nats.url("accounts"),
            service_token_file=tokens["accounts"],
            peers={"league": [str(address)]},
        )
        accounts = await stack.enter_async_context(build_accounts(settings))
        league = LeagueSettings(
            service_name="league",
            listen=address,
            postgres_dsn=database.dsn("league"),
            nats_url=nats.url("league"),
            jwks_file=keys.jwks,
            service_token_file=tokens["league"],
            peers={"table": [games_at], "ledger": [ledger_at], "accounts": [str(accounts)]},
            catalogue_file=CATALOGUE,
        )
        await stack.enter_async_context(build_league(league))
        world = World(settings, database, Verifier.from_file(keys.jwks), str(accounts))
        yield Backend(world, Log(games, games_relay), Log(ledger, ledger_relay))


@asynccontextmanager
async def watching(phone: Phone) -> AsyncIterator[AsyncIterator[me_pb2.Standing]]:
    """What a client is shown of its standing on a stream of its own."""
    async with channel(phone.at, phone.got.access_token, own_connection=True) as opened:
        stream = stub(opened, me_pb2.DESCRIPTOR.services_by_name["Me"]).Watch(me_pb2.WatchRequest())
        try:
            yield (each.standing async for each in stream if each.WhichOneof("kind") == "standing")
        finally:
            stream.cancel()


async def until_shown(standings: AsyncIterator[me_pb2.Standing], **expected: object) -> me_pb2.Standing:
    """Read on until a standing is shown that has these values; the test's own timeout bounds it."""
    async for standing in standings:
        if all(getattr(standing, name) == value for name, value in expected.items()):
            return standing
    raise AssertionError(f"the stream ended before {expected} was shown")


async def test_a_standing_is_there_at_first_and_follows_games_and_prizes(backend: Backend) -> None:
    phone, other = backend.accounts.phone(), uuid4()
    await phone.guest()
    account = UUID(phone.got.account.account_id)
    now = datetime.now(UTC)
    week = (now - timedelta(days=now.weekday())).date()
    async with watching(phone) as standings:
        first = await until_shown(standings, xp=0, level=1, place=0, points=0)
        assert (first.week, getattr(first, "class")) == (week.isoformat(), "jack")
        others = [seat(each, place) for place, each in enumerate((other, uuid4(), uuid4()), start=2)]
        await backend.games.tell(game_finished(0, [seat(account, 1), *others]))
        await until_shown(standings, xp=130, level=2, place=0)
        won = prize_paid(0, account, 300, week=week)
        await backend.ledger.tell(won)
        await until_shown(standings, xp=130, points=300, place=1)
        # Somebody passes by, which is told with the next change of one's own, also where that only takes away.
        await backend.ledger.tell(prize_paid(0, other, 500, week=week), prize_paid(0, account, 100, week=week))
        await until_shown(standings, points=400, place=2)
        await backend.ledger.tell(refunded(0, won))
        await until_shown(standings, points=100, place=2)
    await backend.ledger.tell(prize_paid(0, uuid4(), 1_500, week=week), prize_paid(0, account, 900, week=week))
    # Another stream begins with it, however soon the league heard of that.
    async with watching(phone) as standings:
        await until_shown(standings, xp=130, points=1_000, place=2)
