"""The league made anew while weeks are closed and facts come in: the same rows, whatever happens meanwhile.

The logs are the schemas of the table service and the ledger. What the league hears of them, and when, is decided here,
so that a close can come between any two pages of a rebuild.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import psycopg
import pytest
from levata.table.v1 import facts_pb2, table_pb2

from chassis.database import Pool, Session, open_pool
from chassis.errors import Refused
from chassis.facts import Fact, FactLog, Head, Page, accept_incarnation, publish
from chassis.facts.consumer import last_token
from chassis.log import NewFact
from chassis.schema import begin_incarnation
from services.league.app.closing import Closing, DueWeek, Settled
from services.league.app.rebuild import Difference, Done
from services.league.consumers import ledger
from services.league.consumers.rebuilding import Rebuilding
from services.league.domain.boards import league_board
from services.league.domain.classes import LeagueClass
from services.league.store.standings import PostgresStandings
from services.league.store.weeks import PostgresWeeks
from tests.conftest import Database
from tests.league import (
    EFFECTS,
    MONDAY,
    TERMS,
    blocks_fit,
    daily_begun,
    game_finished,
    prize_paid,
    refunded,
    seat,
    standings,
    week_after,
)

ACCOUNTS = [UUID(int=number, version=4) for number in range(1, 13)]
ALICE, BOB, CAROL, DAVE = ACCOUNTS[:4]
PAGE_FACTS = 30
SECOND = week_after(MONDAY)


class ShortPages(FactLog):
    """A log whose pages are short, so that there is much between them."""

    async def read(self, after: int, limit: int = PAGE_FACTS) -> Page:
        """Facts after a number."""
        return await super().read(after, min(limit, PAGE_FACTS))


@dataclass
class Heard:
    """A log, and how the league hears it."""

    consumer: str
    log: FactLog
    effects: Callable[[Session, Sequence[Fact]], Awaitable[None]]


@dataclass
class League:
    """The league's tables, and the logs that it hears."""

    database: Database
    games: Pool
    ledger: Pool
    own: Pool
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    week: date = MONDAY
    won: list[Fact] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.games_heard = Heard("league", ShortPages(self.games), EFFECTS.apply)
        self.ledger_heard = Heard("league-ledger", ShortPages(self.ledger), ledger.Effects().apply)

    async def tell(self, pool: Pool, facts: Sequence[Fact]) -> None:
        """Append facts to a log, which numbers them."""
        async with pool.acquire() as session, session.transaction():
            await publish(session, [NewFact(fact.subject, fact.payload) for fact in facts])

    async def hear(self, heard: Heard, parks: float = 0) -> bool:
        """Hear a page as the consumer does, some of it parked with what is behind it; whether there was any."""
        async with self.own.acquire() as session, session.transaction():
            await session.execute(
                "insert into consumer_checkpoint (consumer, source) values ($1, $1) on conflict do nothing",
                heard.consumer,
            )
            checkpoint = "select last from consumer_checkpoint where consumer = $1 for update"
            page = await heard.log.read(await session.fetchval(checkpoint, heard.consumer))
            keys = await session.fetch("select key from parked_fact where consumer = $1", heard.consumer)
            waits, parked = {row["key"] for row in keys}, []
            for fact in page.facts:
                if last_token(fact) in waits or self.chance.random() < parks:
                    waits.add(last_token(fact))
                    parked.append(fact)
            await heard.effects(session, [fact for fact in page.facts if fact not in parked])
            await session.executemany(
                "insert into parked_fact (consumer, fact_no, key, subject, payload, at)"
                " values ($1, $2, $3, $4, $5, timestamptz 'epoch' + $6::bigint * interval '1 microsecond')",
                [
                    (heard.consumer, fact.number, last_token(fact), fact.subject, fact.payload, fact.at_us)
                    for fact in parked
                ],
            )
            if page.facts:
                await session.execute(
                    "update consumer_checkpoint set incarnation = $2, last = $3 where consumer = $1",
                    heard.consumer,
                    page.head.incarnation,
                    page.facts[-1].number,
                )
            return bool(page.facts)

    async def hear_all(self) -> None:
        """Both logs to their ends."""
        for heard in (self.games_heard, self.ledger_heard):
            while await self.hear(heard):
                pass

    async def retry(self, heard: Heard) -> None:
        """Give the facts that are parked their effects, in order."""
        async with self.own.acquire() as session, session.transaction():
            rows = await session.fetch(
                "delete from parked_fact where consumer = $1"
                " returning fact_no, subject, payload, (extract(epoch from at) * 1000000)::bigint",
                heard.consumer,
            )
            await heard.effects(session, sorted((Fact(*row) for row in rows), key=lambda fact: fact.number))

    async def close(self) -> bool:
        """Close the week with all that is in the logs; the next one begins."""
        ledger_head = await self.ledger_heard.log.head()
        due = DueWeek(
            self.week, await self.games_heard.log.head(), Settled(ledger_head.incarnation, ledger_head.last, ())
        )
        if not await PostgresWeeks(self.own, TERMS).close(due):
            return False
        self.week = week_after(self.week)
        self.move_clock()
        return True

    def move_clock(self) -> None:
        """Games finish in the middle of the week that runs."""
        self.move_clock_to(begins(self.week) + timedelta(days=2))

    def move_clock_to(self, moment: datetime) -> None:
        """The clocks of the games' log and of the league."""
        with psycopg.connect(self.database.admin_dsn, autocommit=True) as admin:
            for schema in ("tables", "league"):
                admin.execute(f"update {schema}.clock_offset set amount = %s - clock_timestamp()", [moment])

    async def rebuild(
        self, between: Callable[[], Awaitable[None]] | None = None, *, dry_run: bool = False
    ) -> tuple[list[Difference], Done]:
        """Make the projection anew, with something else between any two steps."""
        rebuilding = Rebuilding(self.games_heard.log, self.ledger_heard.log, EFFECTS, self.own, TERMS)
        differences, done = [], None
        async for step in rebuilding.rebuild(dry_run=dry_run):
            match step:
                case Difference():
                    differences.append(step)
                case Done():
                    done = step
                case _ if between is not None:
                    await between()
        assert done is not None
        return differences, done

    # Traffic

    async def go_on(self) -> None:
        """Something happens: mostly games and prizes, heard sooner or later; now and then a week is closed."""
        for _ in range(self.chance.randint(1, 4)):
            match self.chance.choices(("games", "prizes", "hear", "retry", "close"), (3, 4, 6, 1, 1))[0]:
                case "games":
                    await self.tell(self.games, self._games())
                case "prizes":
                    await self.tell(self.ledger, self._prizes())
                case "hear":
                    await self.hear(self.games_heard, parks=0.03)
                    await self.hear(self.ledger_heard, parks=0.03)
                case "retry":
                    await self.retry(self.chance.choice((self.games_heard, self.ledger_heard)))
                case "close":
                    await self.hear_all()
                    # Not before something has been heard of both logs.
                    await self.close()

    def _games(self) -> list[Fact]:
        facts = []
        for _ in range(self.chance.randint(1, 12)):
            *people, leaver = self.chance.sample(ACCOUNTS, 5)
            mode = self.chance.choice((table_pb2.MODE_QUICK_PLAY, table_pb2.MODE_FRIENDLY, table_pb2.MODE_SOLO))
            seats = [seat(account, place, eligible=place < 4) for place, account in enumerate(people, start=1)]
            seats[3].left_account_ids.append(str(leaver))
            facts.append(game_finished(0, seats, mode=mode))
        game_id = UUID(int=self.chance.getrandbits(128), version=4)
        day = self.week.isoformat()
        alone: list[facts_pb2.FinishedSeat] = [seat(ALICE, 1, total=self.chance.randint(0, 90))]
        facts += [
            daily_begun(0, ALICE, day, game_id),
            game_finished(0, alone, mode=table_pb2.MODE_DAILY, day=day, game_id=game_id),
        ]
        return self._told(facts)

    def _prizes(self) -> list[Fact]:
        facts = []
        for _ in range(self.chance.randint(1, 12)):
            # Of this week, or late by up to three.
            week = max(MONDAY, self.week - timedelta(days=7 * self.chance.choice((0, 0, 0, 0, 1, 3))))
            account, coins = self.chance.choice(ACCOUNTS), self.chance.choice((300, 500, 1_250))
            facts.append(prize_paid(0, account, coins, week=week, seconds=self.chance.randint(0, 9)))
        back = [refunded(0, fact) for fact in self.chance.sample(self.won, len(self.won) // 20)]
        self.won += facts
        return self._told(facts + back)

    def _told(self, facts: list[Fact]) -> list[Fact]:
        """In any order: attempts at dailies after what they came to, too."""
        return self.chance.sample(facts, len(facts))


@dataclass
class Settlement:
    """A ledger that has always followed the games."""

    log: FactLog

    async def settled(self, games: Head) -> Settled:
        """Where its log stands."""
        head = await self.log.head()
        return Settled(head.incarnation, head.last, ())


def begins(week: date) -> datetime:
    """When a week begins."""
    return datetime(week.year, week.month, week.day, tzinfo=UTC)


@pytest.fixture
async def league(database: Database) -> AsyncIterator[League]:
    async with AsyncExitStack() as stack:
        games, ledger_pool, own = [
            await stack.enter_async_context(await open_pool(database.dsn(service), "test", connections_max=8))
            for service in ("table", "ledger", "league")
        ]
        yield League(database, games, ledger_pool, own)


@pytest.mark.parametrize("seed", range(3))
async def test_it_is_the_same_with_closes_in_the_middle_of_it(league: League, seed: int) -> None:
    league.chance = random.Random(seed)
    league.move_clock()
    while (await league.ledger_heard.log.head()).last < 150:
        await league.go_on()
    await league.hear_all()
    for _ in range(2):
        began = league.week

        async def meanwhile() -> None:
            await league.go_on()
            if league.week == began:  # noqa: B023 - called in this round of the loop only
                await league.hear_all()
                assert await league.close()

        differences, done = await league.rebuild(meanwhile)
        assert (differences, done.differences, done.switched) == ([], 0, True)
        assert league.week > began
    # What is parked for good is missing in both.
    await league.hear_all()
    assert (await league.rebuild(dry_run=True))[0] == []
    for heard in (league.games_heard, league.ledger_heard):
        await league.retry(heard)
    assert (await league.rebuild())[0] == []


async def test_what_is_told_twice_or_only_as_taken_back_comes_out_the_same(league: League) -> None:
    game = game_finished(0, [seat(ALICE, 1), seat(BOB, 2)], mode=table_pb2.MODE_FRIENDLY)
    first, second = (UUID(int=number, version=4) for number in (101, 102))
    begun = [daily_begun(0, ALICE, MONDAY.isoformat(), game_id) for game_id in (second, first, second)]
    kept, back, unknown = prize_paid(0, ALICE, 900), prize_paid(0, BOB, 500), prize_paid(0, CAROL, 70)
    await league.tell(league.games, [game, *begun, game])
    await league.tell(
        league.ledger, [kept, back, kept, refunded(0, unknown), refunded(0, back), back, refunded(0, back)]
    )
    await league.hear_all()
    assert await standings(league.own, MONDAY) == {"jack": [(ALICE, 900)]}
    for _ in range(2):
        differences, done = await league.rebuild()
        # Two seats, their counts and progress, one attempt, three prizes, a score in the league and two friendly ones.
        assert (differences, done.rows) == ([], 2 + 2 + 2 + 1 + 3 + 1 + 2)
    assert await standings(league.own, MONDAY) == {"jack": [(ALICE, 900)]}
    # What is read is the new build: there is no other any more.
    assert await league.own.fetchval("select count(*) from build") == 1
    tables = "select count(*) from pg_class where relname ~ '^(prize|score|seat_result)_[0-9]+$'"
    assert await league.own.fetchval(tables) == 3


async def test_places_among_thousands_of_equals_are_exact_in_a_build(league: League) -> None:
    equals = [UUID(int=number, version=4) for number in range(101, 2_401)]
    rich = [prize_paid(0, ALICE, 2**40), prize_paid(0, BOB, 2**27, seconds=5), prize_paid(0, CAROL, 2**27)]
    facts = [*rich, *(prize_paid(0, account, 300) for account in equals), prize_paid(0, DAVE, 9, week=SECOND)]
    await league.tell(league.ledger, league.chance.sample(facts, len(facts)))
    # What the consumer has heard, and has done nothing about.
    head = await league.ledger_heard.log.head()
    await league.own.execute(
        "insert into consumer_checkpoint (consumer, source, incarnation, last) values ($1, $1, $2, $3)",
        league.ledger_heard.consumer,
        head.incarnation,
        head.last,
    )
    assert (await league.rebuild())[1].switched
    order = [(ALICE, 2**40), (CAROL, 2**27), (BOB, 2**27), *((account, 300) for account in equals)]
    assert await standings(league.own, MONDAY) == {"jack": order}
    blocks = await league.own.fetch(
        "select players from score_block order by board, minus_points, reached_us, account_id"
    )
    assert sorted(row["players"] for row in blocks) == [1, 303, 1_000, 1_000]
    assert await blocks_fit(league.own)
    board = league_board(MONDAY, LeagueClass.JACK)
    for place in (1, 3, 4, 1_000, 1_001, 2_000, 2_001, 2_303):
        around = await PostgresStandings(league.own).around(board, order[place - 1][0], 1)
        assert [line.place for line in around.lines if line.account_id == order[place - 1][0]] == [place]


async def test_the_boundarys_second_fifty_times_under_a_moved_clock_with_replicas_that_are_broken_off(
    league: League,
) -> None:
    for _ in range(50):
        league.move_clock()
        await league.tell(league.games, [friendly_game()])
        league.move_clock_to(begins(week_after(league.week)) - timedelta(milliseconds=20))
        await _until_closed(league)
        league.week = week_after(league.week)

    closed = await league.own.fetch("select week, games_fact, ledger_fact from week_close order by week")
    assert [row["week"] for row in closed] == [MONDAY + timedelta(days=7 * nth) for nth in range(50)]
    told = await league.own.fetch("select subject from facts where subject like '%week_closed%' order by fact_no")
    assert [row["subject"].rpartition(".")[2] for row in told] == [row["week"].isoformat() for row in closed]
    # A week has the games that ended before its end, to the microsecond, and the prizes that were told by its close.
    ended = {row["fact_no"]: row["at"] for row in await league.games.fetch("select fact_no, at from facts")}
    for row in closed:
        assert row["games_fact"] == sum(at < begins(week_after(row["week"])) for at in ended.values())
    counted = await league.own.fetch("select fact_no, friendly_week from seat_result")
    assert {row["fact_no"] for row in counted} == ended.keys()
    for row in counted:
        assert begins(row["friendly_week"]) <= ended[row["fact_no"]] < begins(week_after(row["friendly_week"]))
    after = {row["week"]: row["ledger_fact"] for row in closed}
    for row in await league.own.fetch("select fact_no, week from prize"):
        assert after.get(row["week"] - timedelta(days=7), 0) < row["fact_no"] <= after.get(row["week"], 2**63)
    assert (await league.rebuild())[0] == []


async def _until_closed(league: League) -> None:
    """Games end and prizes are told in the last moments of the week and the first of the next; three replicas close."""

    async def is_closed() -> bool:
        return bool(await league.own.fetchval("select exists (select from week_close where week = $1)", league.week))

    async def play() -> None:
        while not await is_closed():
            await league.tell(league.games, [friendly_game()])
            await league.tell(league.ledger, [prize_paid(0, league.chance.choice(ACCOUNTS), 300, week=league.week)])
            await asyncio.sleep(0.004)

    async def hear(heard: Heard) -> None:
        while not await is_closed():
            await league.hear(heard)
            await asyncio.sleep(0.002)

    async def close() -> None:
        weeks = PostgresWeeks(league.own, TERMS)
        closing = Closing(league.games_heard.log, Settlement(league.ledger_heard.log), weeks, UTC)
        # Stopped anywhere, and started again; in the end it is left alone.
        for seconds in (league.chance.random() * 0.03, league.chance.random() * 0.03, None):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while not await is_closed():
                        # Somebody may not be as far yet.
                        with contextlib.suppress(Refused):
                            await closing.close_next()
                        await asyncio.sleep(0.002)

    await asyncio.gather(play(), hear(league.games_heard), hear(league.ledger_heard), close(), close(), close())
    await league.hear_all()


def friendly_game() -> Fact:
    """A friendly game ends now."""
    return game_finished(0, [seat(ALICE, 1), seat(BOB, 2)], mode=table_pb2.MODE_FRIENDLY)


async def test_after_a_restore_of_the_ledger_its_numbers_come_again_and_closed_weeks_stay(league: League) -> None:
    alice, bob, carol, dave = (prize_paid(0, account, 900 - n) for n, account in enumerate(ACCOUNTS[:4]))
    league.move_clock()
    await league.tell(
        league.games, [game_finished(0, [seat(each, place) for place, each in enumerate(ACCOUNTS[:4], start=1)])]
    )
    await league.tell(league.ledger, [alice, bob, carol, dave, refunded(0, prize_paid(0, ALICE, 0))])
    await league.hear_all()
    assert await league.close()
    closed = await standings(league.own, MONDAY)
    assert closed == {"jack": [(ALICE, 900), (BOB, 899), (CAROL, 898), (DAVE, 897)]}

    _restore_ledger(league.database, last=2)
    # Nothing is heard or closed of another log before an operator has said so.
    assert not await league.close()
    async with league.own.acquire() as session:
        await accept_incarnation(session, "league-ledger", (await league.ledger_heard.log.head()).incarnation, 2)
    # The ledger follows the games once more, and goes on: the number 5 is another fact's now.
    await league.tell(league.ledger, [carol, dave, prize_paid(0, ALICE, 70, week=SECOND)])
    await league.hear_all()
    assert await standings(league.own, MONDAY) == closed
    assert await standings(league.own, SECOND) == {"queen": [(ALICE, 70)]}
    differences, done = await league.rebuild()
    assert (differences, done.ledger_fact, done.switched) == ([], 5, True)
    assert await league.close()
    assert (await league.rebuild(dry_run=True))[0] == []


def _restore_ledger(database: Database, last: int) -> None:
    """As a backup has it that was made at a number; and what an operator does first then."""
    with psycopg.connect(database.admin_dsn, autocommit=True) as admin:
        # What is appended stays, for everybody but who restores.
        admin.execute("set session_replication_role = replica")
        admin.execute("delete from ledger.facts where fact_no > %s", [last])
        admin.execute("update ledger.fact_head set last = %s", [last])
    begin_incarnation(database.admin_dsn, "ledger")
