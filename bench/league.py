"""`./levata bench league`: a week with a million players, all of one class: places, live facts, the rebuild, the close.

The facts are in the ledger's own log, as the ledger would have published them, and reach the league's tables as they
always do. At its end places must be those that sorting gives.
"""

import os
import random
import time
from collections.abc import Sequence
from datetime import UTC, date
from statistics import quantiles
from typing import Final
from uuid import UUID

import uvloop
from levata.ledger.v1 import facts_pb2

from bench.report import Ratio, less_is_better, more_is_better, tell
from bench.servers import backend
from chassis.database import Pool, open_pool
from chassis.facts import Fact, FactLog, Head, publish
from chassis.log import NewFact
from rules.calendar import day_begins_us
from services.league.app.closing import DueWeek, Settled
from services.league.app.rebuild import Done
from services.league.catalogue import read_terms
from services.league.consumers import games, ledger
from services.league.consumers.rebuilding import Rebuilding
from services.league.domain.boards import league_board
from services.league.domain.classes import LeagueClass
from services.league.store.standings import PostgresStandings
from services.league.store.weeks import PostgresWeeks
from tools.up.servers import CATALOGUE

PLAYERS: Final = 1_000_000
WEEK: Final = date(2026, 11, 9)
TERMS: Final = read_terms(CATALOGUE)
NEIGHBOURS: Final = 5
ASKED: Final = 3_000
LIVE_FACTS, LIVE_AT_ONCE = 20_000, 100
PUBLISHED_AT_ONCE: Final = 10_000

PLACE_LIMIT_MS, CLOSE_LIMIT_SECONDS = 10.0, 60.0
REBUILD_LIMIT, LIVE_LIMIT = 50_000.0, 2_000.0

# Prizes of the first rooms with their shares: many are equal.
_PRIZES: Final = (300, 210, 165, 500, 350, 275, 1_250, 875, 687, 2_500, 1_750, 1_375)


def measure() -> list[Ratio]:
    """All figures of the league."""
    with backend() as running:
        return uvloop.run(_of_a_week(running.dsn("league"), running.dsn("ledger"), running.dsn("table")))


async def _of_a_week(league_dsn: str, ledger_dsn: str, table_dsn: str) -> list[Ratio]:
    chance = random.Random(11)
    accounts = [UUID(bytes=os.urandom(16), version=4) for _ in range(PLAYERS)]
    async with (
        await open_pool(league_dsn, "levata bench") as league,
        await open_pool(ledger_dsn, "levata bench") as ledger_pool,
        await open_pool(table_dsn, "levata bench") as table,
    ):
        await _publish_prizes(ledger_pool, accounts, chance)
        logs = FactLog(table), FactLog(ledger_pool)
        await _heard(league, *logs)
        ratios = [await _rebuild(league, *logs)]
        tell(ratios[-1])
        ratios.append(await _places(league, accounts, chance))
        tell(ratios[-1])
        ratios.append(await _live(league, accounts, chance))
        tell(ratios[-1])
        await _assert_places(league, accounts, chance)
        ratios.append(await _close(league, *logs))
        tell(ratios[-1])
    return ratios


async def _publish_prizes(pool: Pool, accounts: Sequence[UUID], chance: random.Random) -> None:
    for first in range(0, PLAYERS, PUBLISHED_AT_ONCE):
        facts = [_prize(account, chance) for account in accounts[first : first + PUBLISHED_AT_ONCE]]
        async with pool.acquire() as session, session.transaction():
            await publish(session, facts)


def _prize(account: UUID, chance: random.Random) -> NewFact:
    finished_at_us = day_begins_us(WEEK, UTC) + chance.randrange(7 * 86_400) * 1_000_000
    paid = facts_pb2.PrizePaidFact(
        game_id=str(UUID(int=chance.getrandbits(128), version=4)),
        coins=chance.choice(_PRIZES),
        week=WEEK.isoformat(),
        finished_at_us=finished_at_us,
    )
    message = facts_pb2.LedgerFact(account_id=str(account), prize_paid=paid)
    return NewFact(f"levata.ledger.prize_paid.{account}", message.SerializeToString())


async def _heard(pool: Pool, games_log: FactLog, ledger_log: FactLog) -> None:
    """The consumers stand at the heads; what they should have added the first rebuild adds."""
    for consumer, owner in (("league", games_log), ("league-ledger", ledger_log)):
        head = await owner.head()
        await pool.execute(
            "insert into consumer_checkpoint (consumer, source, incarnation, last) values ($1, $1, $2, $3)",
            consumer,
            head.incarnation,
            head.last,
        )


async def _rebuild(pool: Pool, games_log: FactLog, ledger_log: FactLog) -> Ratio:
    rebuilding = Rebuilding(games_log, ledger_log, games.Effects(UTC, TERMS), pool, TERMS)
    began = time.perf_counter()
    done = None
    async for step in rebuilding.rebuild(dry_run=False):
        done = step
    seconds = time.perf_counter() - began
    assert isinstance(done, Done) and done.switched
    how = f"{PLAYERS:,} facts from the log to the switch, scores and the comparison included; peer: the limit"
    return more_is_better("rebuild", [PLAYERS / seconds], [REBUILD_LIMIT], "facts/s", 1.0, how)


async def _places(pool: Pool, accounts: Sequence[UUID], chance: random.Random) -> Ratio:
    standings, board = PostgresStandings(pool), league_board(WEEK, LeagueClass.JACK)
    took = []
    for number in range(ASKED + 200):
        account = chance.choice(accounts)
        began = time.perf_counter()
        around = await standings.around(board, account, NEIGHBOURS)
        # The first ones warm up.
        if number >= 200:
            took.append((time.perf_counter() - began) * 1_000)
        assert any(line.account_id == account for line in around.lines)
    p99 = quantiles(took, n=100)[98]
    how = f"p99 of {ASKED:,} random players of {PLAYERS:,}, {NEIGHBOURS} neighbours each way, one after another"
    return less_is_better("own_place", [p99], [PLACE_LIMIT_MS], "ms", 1.0, f"{how}; peer: the limit")


async def _live(pool: Pool, accounts: Sequence[UUID], chance: random.Random) -> Ratio:
    """Facts of prizes as the consumer takes them, a hundred to a transaction."""
    effects = ledger.Effects()
    facts = []
    for number in range(PLAYERS + 1, PLAYERS + LIVE_FACTS + 1):
        new = _prize(chance.choice(accounts), chance)
        facts.append(Fact(number, new.subject, new.payload, day_begins_us(WEEK, UTC)))
    began = time.perf_counter()
    for first in range(0, LIVE_FACTS, LIVE_AT_ONCE):
        async with pool.acquire() as session, session.transaction():
            await effects.apply(session, facts[first : first + LIVE_AT_ONCE])
    speed = LIVE_FACTS / (time.perf_counter() - began)
    how = f"{LIVE_FACTS:,} prizes among {PLAYERS:,} players, {LIVE_AT_ONCE} to a transaction; peer: the limit"
    return more_is_better("live", [speed], [LIVE_LIMIT], "facts/s", 1.0, how)


async def _close(pool: Pool, games_log: FactLog, ledger_log: FactLog) -> Ratio:
    games_head, ledger_head = await games_log.head(), await ledger_log.head()
    due = DueWeek(
        WEEK, Head(games_head.incarnation, games_head.last), Settled(ledger_head.incarnation, ledger_head.last, ())
    )
    began = time.perf_counter()
    assert await PostgresWeeks(pool, TERMS).close(due)
    seconds = time.perf_counter() - began
    promoted = PLAYERS // TERMS.on(WEEK).movers_one_in
    how = f"{PLAYERS:,} who counted, {promoted:,} promoted, with their facts; peer: the limit"
    return less_is_better("close", [seconds], [CLOSE_LIMIT_SECONDS], "s", 1.0, how)


async def _assert_places(pool: Pool, accounts: Sequence[UUID], chance: random.Random) -> None:
    """Places are those that sorting gives."""
    standings, board = PostgresStandings(pool), league_board(WEEK, LeagueClass.JACK)
    asked = chance.sample(accounts, 50)
    rows = await pool.fetch(
        """select account_id, place from (
            select account_id, row_number() over (order by points desc, reached_us, account_id) as place
            from score where build = (select build from live_build)
        ) ranked where account_id = any($1)""",
        asked,
        timeout=60,
    )
    for account_id, place in rows:
        (line,) = (await standings.around(board, account_id, 0)).lines
        assert line.place == place, f"{account_id} is told to be {line.place} and is {place}"
