"""`./levata bench league`: a week with a million players, all of one class: the rebuild, places, live facts, the close.

The facts are in the logs of the ledger and of the games, as those would have published them. At its end places must be
those that sorting gives, and the rebuild must have found nothing to mend.
"""

import asyncio
import os
import random
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, date
from itertools import islice
from statistics import quantiles
from typing import Final
from uuid import UUID

import uvloop
from levata.league.v1 import league_pb2
from levata.ledger.v1 import facts_pb2 as ledger_facts_pb2
from levata.table.v1 import facts_pb2, table_pb2

from bench.report import Ratio, less_is_better, more_is_better, tell
from bench.servers import Backend, backend
from chassis.auth import Signer
from chassis.database import Pool, open_pool
from chassis.facts import GAMES as GAMES_STREAM
from chassis.facts import LEDGER, FactLog, FactStream, Head, publish
from chassis.log import NewFact
from chassis.process import calm_the_collector
from chassis.rpc import channel
from rules.calendar import day_begins_us
from services.league.app.closing import DueWeek, Settled
from services.league.app.rebuild import Done
from services.league.catalogue import read_terms
from services.league.consumers import games
from services.league.consumers.rebuilding import Rebuilding
from services.league.domain.boards import league_board
from services.league.domain.classes import LeagueClass
from services.league.store.names import GAMES_CONSUMER, LEDGER_CONSUMER
from services.league.store.standings import PostgresStandings
from services.league.store.weeks import PostgresWeeks
from tools.up.servers import CATALOGUE

PLAYERS: Final = 1_000_000
# Of six, with all facts of theirs; the others that the prizes are of are left out.
GAMES: Final = 10_000
DEALS: Final = 6
WEEK: Final = date(2026, 11, 9)
TERMS: Final = read_terms(CATALOGUE)
NEIGHBOURS: Final = 5
ASKED, WARMING_UP = 3_000, 200
# Prizes, and games of eight facts each.
LIVE_PRIZES, LIVE_GAMES, LIVE_AT_ONCE, LIVE_WARM = 20_000, 500, 100, 1_000
LIVE_SECONDS_MAX: Final = 120.0
LOOK_SECONDS: Final = 0.02
CHECKED: Final = 50
PUBLISHED_AT_ONCE: Final = 10_000
CALL_SECONDS: Final = 10.0

PLACE_LIMIT_MS, CLOSE_LIMIT_SECONDS = 10.0, 60.0
REBUILD_LIMIT, LIVE_LIMIT = 50_000.0, 2_000.0

# In the order of their names: of the games' facts, and of the ledger's.
_CONSUMERS: Final = (GAMES_CONSUMER, LEDGER_CONSUMER)
_LAST_HEARD: Final = "select array_agg(last order by consumer) from consumer_checkpoint where consumer = any($1)"

_GET_STANDING: Final = "/levata.league.v1.League/GetStanding"
# Prizes of the first rooms with their shares: many are equal.
_PRIZES: Final = (300, 210, 165, 500, 350, 275, 1_250, 875, 687, 2_500, 1_750, 1_375)


def measure() -> list[Ratio]:
    """All figures of the league."""
    chance = random.Random(11)
    accounts = [UUID(bytes=os.urandom(16), version=4) for _ in range(PLAYERS)]
    with backend() as running:
        ratios = [uvloop.run(_rebuilt(running, accounts, chance))]
        tell(ratios[-1])
        with running.league_service() as league:
            ratios.append(uvloop.run(_places(league.address, running.signer, accounts, chance)))
        tell(ratios[-1])
        with running.league_that_hears():
            ratios.append(uvloop.run(_live(running, accounts, chance)))
        tell(ratios[-1])
        ratios.append(uvloop.run(_closed(running, accounts, chance)))
        tell(ratios[-1])
    return ratios


# What has happened


def _prizes(accounts: Sequence[UUID], chance: random.Random) -> Iterator[NewFact]:
    return (_prize(account, chance) for account in accounts)


def _games(count: int, accounts: Sequence[UUID], chance: random.Random) -> Iterator[NewFact]:
    return (fact for _ in range(count) for fact in _game(chance.sample(accounts, 6), chance))


async def _publish(pool: Pool, facts: Iterator[NewFact], at_once: int = PUBLISHED_AT_ONCE) -> None:
    while some := list(islice(facts, at_once)):
        async with pool.acquire() as session, session.transaction():
            await publish(session, some)


def _prize(account: UUID, chance: random.Random) -> NewFact:
    finished_at_us = day_begins_us(WEEK, UTC) + chance.randrange(7 * 86_400) * 1_000_000
    paid = ledger_facts_pb2.PrizePaidFact(
        game_id=str(UUID(int=chance.getrandbits(128), version=4)),
        coins=chance.choice(_PRIZES),
        week=WEEK.isoformat(),
        finished_at_us=finished_at_us,
    )
    message = ledger_facts_pb2.LedgerFact(account_id=str(account), prize_paid=paid)
    return NewFact(f"levata.ledger.prize_paid.{account}", message.SerializeToString())


def _game(accounts: Sequence[UUID], chance: random.Random) -> list[NewFact]:
    game_id = str(UUID(int=chance.getrandbits(128), version=4))
    holders = [facts_pb2.FactSeat(account_id=str(account), room=1, prize=300) for account in accounts]
    created = facts_pb2.CreatedFact(game_type="romanian_whist", variant="quick", mode=table_pb2.MODE_QUICK_PLAY)
    created.seats.extend(holders)
    scored = facts_pb2.DealScoredFact(hand_size=8, points=range(6), tricks_won=range(6), bids=range(6), own=[True] * 6)
    finished = facts_pb2.FinishedFact(
        game_type="romanian_whist", variant="quick", mode=table_pb2.MODE_QUICK_PLAY, deal_count=DEALS
    )
    for place, holder in enumerate(holders, start=1):
        finished.seats.add(holder=holder, place=place, total=30 - place, own_deals=DEALS, eligible=True)
    told = [
        ("created", facts_pb2.GameFact(game_id=game_id, version=1, created=created)),
        *(("deal_scored", facts_pb2.GameFact(game_id=game_id, version=2, deal_scored=scored)) for _ in range(DEALS)),
        ("finished", facts_pb2.GameFact(game_id=game_id, version=3, finished=finished)),
    ]
    return [NewFact(f"levata.games.{kind}.{game_id}", fact.SerializeToString()) for kind, fact in told]


async def _relayed(pool: Pool, stream: FactStream) -> None:
    """JetStream has had all facts until now."""
    await pool.execute(
        "insert into relay_checkpoint (stream, incarnation, last) select $1, incarnation, last from fact_head",
        stream.name,
    )


async def _heard(pool: Pool, heads: dict[str, Head]) -> None:
    """The consumers stand at the heads; what they should have added the first rebuild adds."""
    for consumer, head in heads.items():
        await pool.execute(
            "insert into consumer_checkpoint (consumer, source, incarnation, last) values ($1, $1, $2, $3)",
            consumer,
            head.incarnation,
            head.last,
        )


# Measuring


async def _rebuilt(running: Backend, accounts: Sequence[UUID], chance: random.Random) -> Ratio:
    async with (
        await open_pool(running.dsn("league"), "levata bench") as league,
        await open_pool(running.dsn("ledger"), "levata bench") as ledger_pool,
        await open_pool(running.dsn("table"), "levata bench") as table,
    ):
        await _publish(ledger_pool, _prizes(accounts, chance))
        await _publish(table, _games(GAMES, accounts, chance))
        await _relayed(ledger_pool, LEDGER)
        await _relayed(table, GAMES_STREAM)
        logs = FactLog(table), FactLog(ledger_pool)
        heads = [await log.head() for log in logs]
        await _heard(league, dict(zip(_CONSUMERS, heads, strict=True)))
        rebuilding = Rebuilding(*logs, games.Effects(UTC, TERMS), league, TERMS)
        # As every service does.
        calm_the_collector()
        await _rebuild(rebuilding)
        seconds, done = await _rebuild(rebuilding)
    assert done.differences == 0, f"{done.differences} rows came out otherwise the second time"
    facts = sum(head.last for head in heads)
    how = (
        f"{PLAYERS:,} prizes and {GAMES:,} games, {facts:,} facts from the logs to the switch; {done.rows:,} rows "
        "compared and nothing found to mend; peer: the limit"
    )
    return more_is_better("rebuild", [facts / seconds], [REBUILD_LIMIT], "facts/s", 1.0, how)


async def _rebuild(rebuilding: Rebuilding) -> tuple[float, Done]:
    """The seconds until the new build was switched to; the old one is dropped after them."""
    began, switched_at = time.perf_counter(), 0.0
    done = None
    async for step in rebuilding.rebuild(dry_run=False):
        if isinstance(step, Done):
            done, switched_at = step, time.perf_counter()
    assert done is not None and done.switched
    return switched_at - began, done


async def _places(address: str, signer: Signer, accounts: Sequence[UUID], chance: random.Random) -> Ratio:
    request = league_pb2.GetStandingRequest(neighbours=NEIGHBOURS)
    request.board.league.week = WEEK.isoformat()
    # A word of Python's.
    setattr(request.board.league, "class", LeagueClass.JACK.label)
    took = []
    async with channel(address) as connection:
        ask = connection.unary_unary(
            _GET_STANDING,
            request_serializer=league_pb2.GetStandingRequest.SerializeToString,
            response_deserializer=league_pb2.GetStandingResponse.FromString,
        )
        for number in range(WARMING_UP + ASKED):
            account = str(chance.choice(accounts))
            shown = (("authorization", f"Bearer {signer.player_token(account, False, 3_600)}"),)
            began = time.perf_counter()
            standing = await ask(request, metadata=shown, timeout=CALL_SECONDS)
            if number >= WARMING_UP:
                took.append((time.perf_counter() - began) * 1_000)
            assert standing.own.account_id == account and len(standing.around) > NEIGHBOURS
    p99 = quantiles(took, n=100)[98]
    how = (
        f"over gRPC, p99 of {ASKED:,} random players of {PLAYERS:,}, {NEIGHBOURS} neighbours each way, "
        "one after another; peer: the limit"
    )
    return less_is_better("own_place", [p99], [PLACE_LIMIT_MS], "ms", 1.0, how)


async def _live(running: Backend, accounts: Sequence[UUID], chance: random.Random) -> Ratio:
    """From the first fact, appended to its owner's log, until the league's consumers have committed what all do."""
    async with (
        await open_pool(running.dsn("league"), "levata bench") as league,
        await open_pool(running.dsn("ledger"), "levata bench") as ledger,
        await open_pool(running.dsn("table"), "levata bench") as table,
    ):

        async def told_and_heard(prizes: int, games: int) -> float:
            told = [
                (ledger, list(_prizes(chance.choices(accounts, k=prizes), chance))),
                (table, list(_games(games, accounts, chance))),
            ]
            began = time.perf_counter()
            await asyncio.gather(*(_publish(pool, iter(facts), LIVE_AT_ONCE) for pool, facts in told))
            heads = [(await FactLog(pool).head()).last for pool in (table, ledger)]
            async with asyncio.timeout(LIVE_SECONDS_MAX):
                while await league.fetchval(_LAST_HEARD, _CONSUMERS) != heads:
                    await asyncio.sleep(LOOK_SECONDS)
            return time.perf_counter() - began

        await told_and_heard(LIVE_WARM, LIVE_WARM // LIVE_AT_ONCE)
        facts = LIVE_PRIZES + LIVE_GAMES * (DEALS + 2)
        speed = facts / await told_and_heard(LIVE_PRIZES, LIVE_GAMES)
    how = (
        f"{LIVE_PRIZES:,} prizes among {PLAYERS:,} players and {LIVE_GAMES:,} games, {LIVE_AT_ONCE} facts to a "
        "transaction of their owners, until the league has committed all; table service, ledger and league are "
        "processes of their own; peer: the limit"
    )
    return more_is_better("live", [speed], [LIVE_LIMIT], "facts/s", 1.0, how)


async def _closed(running: Backend, accounts: Sequence[UUID], chance: random.Random) -> Ratio:
    async with (
        await open_pool(running.dsn("league"), "levata bench") as league,
        await open_pool(running.dsn("ledger"), "levata bench") as ledger,
        await open_pool(running.dsn("table"), "levata bench") as table,
    ):
        assert not await league.fetchval("select count(*) from parked_fact")
        await _assert_places(league, accounts, chance)
        return await _close(league, FactLog(table), FactLog(ledger))


async def _close(pool: Pool, games_log: FactLog, ledger_log: FactLog) -> Ratio:
    games_head, ledger_head = await games_log.head(), await ledger_log.head()
    due = DueWeek(WEEK, games_head, Settled(ledger_head.incarnation, ledger_head.last, ()))
    began = time.perf_counter()
    assert await PostgresWeeks(pool, TERMS).close(due)
    seconds = time.perf_counter() - began
    promoted = PLAYERS // TERMS.on(WEEK).movers_one_in
    how = f"{PLAYERS:,} who counted, {promoted:,} promoted, with their facts; peer: the limit"
    return less_is_better("close", [seconds], [CLOSE_LIMIT_SECONDS], "s", 1.0, how)


async def _assert_places(pool: Pool, accounts: Sequence[UUID], chance: random.Random) -> None:
    """Places are those that sorting gives."""
    standings, board = PostgresStandings(pool), league_board(WEEK, LeagueClass.JACK)
    rows = await pool.fetch(
        """select account_id, place from (
            select account_id, row_number() over (order by points desc, reached_us, account_id) as place
            from score where build = (select build from live_build)
        ) ranked where account_id = any($1)""",
        chance.sample(accounts, CHECKED),
        timeout=60,
    )
    assert len(rows) == CHECKED
    for account_id, place in rows:
        (line,) = (await standings.around(board, account_id, 0)).lines
        assert line.place == place, f"{account_id} is told to be {line.place} and is {place}"
