"""Weeks of the league in a real Postgres: standings, refunds, closes, and facts late, twice or in any order."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import date
from uuid import UUID

import asyncpg
import pytest
from levata.league.v1 import facts_pb2
from levata.ledger.v1 import facts_pb2 as ledger_facts_pb2
from levata.table.v1 import table_pb2

from chassis.database import Pool, open_pool
from chassis.facts import Fact
from services.league.app.standings import StreakOf, Xp
from services.league.domain.boards import daily_board, friendly_board, league_board
from services.league.domain.classes import LeagueClass
from services.league.domain.progress import Streak
from services.league.store.standings import PostgresStandings
from tests.conftest import Database
from tests.league import (
    MONDAY,
    TERMS,
    Model,
    blocks_fit,
    close,
    daily_begun,
    game_finished,
    hear_games,
    hear_ledger,
    heard_up_to,
    prize_paid,
    refunded,
    seat,
    standings,
    us,
    week_after,
)

ALICE, BOB, CAROL, DAVE = (UUID(int=number, version=4) for number in (1, 2, 3, 4))
SECOND, THIRD = week_after(MONDAY), week_after(week_after(MONDAY))


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    async with await open_pool(database.dsn("league"), "test", connections_max=4) as opened:
        yield opened


async def told(pool: Pool) -> list[facts_pb2.LeagueFact]:
    """All that the league has told others."""
    rows = await pool.fetch("select payload from facts order by fact_no")
    return [facts_pb2.LeagueFact.FromString(row["payload"]) for row in rows]


async def test_prizes_add_up_and_equals_are_ranked_by_who_was_first_then_by_id(pool: Pool) -> None:
    await hear_ledger(
        pool,
        [
            prize_paid(1, ALICE, 300, seconds=10),
            prize_paid(2, BOB, 900, seconds=30),
            prize_paid(3, ALICE, 600, seconds=20),
            prize_paid(4, DAVE, 900, seconds=30),
            prize_paid(5, CAROL, 901, seconds=90),
        ],
    )
    assert await standings(pool, MONDAY) == {"jack": [(CAROL, 901), (ALICE, 900), (BOB, 900), (DAVE, 900)]}


async def test_a_guests_prize_does_not_count(pool: Pool) -> None:
    await hear_ledger(pool, [prize_paid(1, ALICE, 300, guest=True)])
    assert await standings(pool, MONDAY) == {}


async def test_a_refund_takes_the_prize_off_and_who_has_none_left_does_not_count(pool: Pool) -> None:
    one, other, bobs = prize_paid(1, ALICE, 300, seconds=5), prize_paid(2, ALICE, 500, seconds=9), prize_paid(3, BOB, 9)
    await hear_ledger(pool, [one, other, bobs])
    await hear_ledger(pool, [refunded(4, other), refunded(5, bobs)])
    assert await standings(pool, MONDAY) == {"jack": [(ALICE, 300)]}
    # The last prize that counts is the one before now.
    assert await pool.fetchval("select reached_us from score") == one.at_us
    # In whatever order, and again.
    await hear_ledger(pool, [refunded(5, bobs), bobs, other, one, refunded(4, other)])
    assert await standings(pool, MONDAY) == {"jack": [(ALICE, 300)]}


async def test_a_close_waits_until_both_logs_have_been_heard(pool: Pool) -> None:
    await hear_ledger(pool, [prize_paid(1, ALICE, 300)])
    assert not await close(pool, MONDAY, games_fact=5, ledger_fact=1)
    await heard_up_to(pool, 4, 1)
    assert not await close(pool, MONDAY, games_fact=5, ledger_fact=1)
    await heard_up_to(pool, 5, 0)
    assert not await close(pool, MONDAY, games_fact=5, ledger_fact=1)
    assert await told(pool) == []
    await heard_up_to(pool, 5, 1)
    assert await close(pool, MONDAY, games_fact=5, ledger_fact=1)


async def test_a_close_tells_its_numbers_the_podium_and_who_moved(pool: Pool) -> None:
    accounts = [UUID(int=number, version=4) for number in range(1, 6)]
    await hear_ledger(pool, [prize_paid(n, account, 1_000 - n) for n, account in enumerate(accounts, start=1)])
    await heard_up_to(pool, 7, 5)
    assert await close(pool, MONDAY, games_fact=7, ledger_fact=5)
    *moves, closed = await told(pool)
    week = closed.week_closed
    assert (closed.week, week.games_fact, week.ledger_fact) == (MONDAY.isoformat(), 7, 5)
    jack = week.classes[0]
    assert (jack.name, jack.counted, list(jack.podium_account_ids)) == ("jack", 5, [str(each) for each in accounts[:3]])
    assert [each.counted for each in week.classes] == [5, 0, 0, 0]
    assert {fact.account_id for fact in moves} == {str(each) for each in accounts[:3]}
    assert {fact.promoted.to for fact in moves} == {"queen"}


async def test_three_at_once_close_a_week_once(pool: Pool) -> None:
    await hear_ledger(pool, [prize_paid(1, ALICE, 300)])
    await heard_up_to(pool, 1, 1)
    assert await asyncio.gather(*(close(pool, MONDAY, 1, 1) for _ in range(3))) == [True, True, True]
    assert await close(pool, MONDAY, 1, 1)
    assert sum(fact.HasField("week_closed") for fact in await told(pool)) == 1
    assert await pool.fetchval("select class from member_class where account_id = $1", ALICE) == 1


async def test_weeks_are_closed_one_after_another_and_stay_as_they_are(pool: Pool) -> None:
    await heard_up_to(pool, 1, 1)
    assert await close(pool, MONDAY, 1, 1)
    with pytest.raises(asyncpg.RestrictViolationError):
        await close(pool, THIRD, 1, 1)
    assert await close(pool, SECOND, 1, 1)
    with pytest.raises(asyncpg.PostgresError):
        await pool.execute("delete from week_close")
    with pytest.raises(asyncpg.PostgresError):
        await pool.execute("update week_close set games_fact = 9")


async def test_what_is_heard_of_after_the_close_counts_in_the_next_week(pool: Pool) -> None:
    await hear_ledger(pool, [prize_paid(1, ALICE, 300)])
    await heard_up_to(pool, 1, 1)
    await close(pool, MONDAY, 1, 1)
    # Ten weeks late, or one.
    await hear_ledger(pool, [prize_paid(2, BOB, 500), prize_paid(3, CAROL, 50, week=date(2026, 8, 31))])
    assert await standings(pool, MONDAY) == {"jack": [(ALICE, 300)]}
    assert await standings(pool, SECOND) == {"jack": [(BOB, 500), (CAROL, 50)]}
    # Of the first week, with ten closed since.
    await heard_up_to(pool, 1, 3)
    week = SECOND
    for _ in range(9):
        assert await close(pool, week, 1, 3)
        week = week_after(week)
    await hear_ledger(pool, [prize_paid(4, DAVE, 70)])
    assert await standings(pool, week) == {"jack": [(DAVE, 70)]}
    assert (await standings(pool, SECOND))["jack"] == [(BOB, 500), (CAROL, 50)]


async def test_a_refund_after_the_close_changes_neither_week(pool: Pool) -> None:
    won = prize_paid(1, ALICE, 300)
    await hear_ledger(pool, [won])
    await heard_up_to(pool, 1, 1)
    await close(pool, MONDAY, 1, 1)
    await hear_ledger(pool, [refunded(2, won)])
    assert await standings(pool, MONDAY) == {"jack": [(ALICE, 300)]}
    assert await standings(pool, SECOND) == {}


async def test_what_was_won_before_the_close_of_the_week_before_moves_with_its_account(pool: Pool) -> None:
    await hear_ledger(pool, [prize_paid(1, ALICE, 300), prize_paid(2, ALICE, 70, week=SECOND)])
    assert await standings(pool, SECOND) == {"jack": [(ALICE, 70)]}
    await heard_up_to(pool, 1, 2)
    await close(pool, MONDAY, 1, 2)
    assert await standings(pool, SECOND) == {"queen": [(ALICE, 70)]}
    await hear_ledger(pool, [prize_paid(3, ALICE, 30, week=SECOND)])
    assert await standings(pool, SECOND) == {"queen": [(ALICE, 100)]}
    assert await blocks_fit(pool)


async def test_of_a_thousand_equals_those_who_were_first_move_up(pool: Pool) -> None:
    accounts = [UUID(int=number, version=4) for number in range(1, 1_001)]
    chance = random.Random(5)
    chance.shuffle(accounts)
    # Each second ten of them had as much: by account then.
    won = [prize_paid(n, account, 300, seconds=(n - 1) // 10) for n, account in enumerate(accounts, start=1)]
    first = sorted(accounts, key=lambda account: (accounts.index(account) // 10, account))
    await hear_ledger(pool, chance.sample(won, len(won)))
    await heard_up_to(pool, 1, 1_000)
    assert await close(pool, MONDAY, 1, 1_000)
    (week,) = [fact.week_closed for fact in await told(pool) if fact.HasField("week_closed")]
    assert (week.classes[0].counted, list(week.classes[0].podium_account_ids)) == (1_000, [str(a) for a in first[:3]])
    moved = await pool.fetch("select account_id from member_class where class = 1")
    assert {row["account_id"] for row in moved} == set(first[:200])


@pytest.mark.parametrize("seed", range(4))
async def test_any_order_and_repetition_between_closes_gives_the_models_standings(pool: Pool, seed: int) -> None:
    chance = random.Random(seed)
    model = Model()
    accounts = [UUID(int=number, version=4) for number in range(1, 31)]
    number, week = 0, MONDAY
    for _ in range(5):
        facts = []
        for account in accounts:
            for _ in range(chance.randint(0, 3)):
                number += 1
                seconds = chance.randint(0, 40)
                won = prize_paid(number, account, chance.choice([300, 500, 1_250]), week=week, seconds=seconds)
                facts.append(won)
                if chance.random() < 0.25:
                    number += 1
                    facts.append(refunded(number, won))
                else:
                    model.win(week, account, coins_of(won), seconds)
        told_often = facts + chance.choices(facts, k=len(facts))
        chance.shuffle(told_often)
        while told_often:
            batch = told_often[: chance.randint(1, 20)]
            del told_often[: len(batch)]
            await hear_ledger(pool, batch)
        assert await standings(pool, week) == model.standings(week)
        await heard_up_to(pool, 1, number)
        assert await close(pool, week, 1, number)
        model.close(week)
        classes = {row["account_id"]: row["class"] for row in await pool.fetch("select * from member_class")}
        assert {each: classes.get(each, 0) for each in accounts} == {
            each: model.class_of.get(each, 0) for each in accounts
        }
        week = week_after(week)
    assert await blocks_fit(pool)


def coins_of(won: Fact) -> int:
    return ledger_facts_pb2.LedgerFact.FromString(won.payload).prize_paid.coins


async def test_places_of_many_with_equal_scores_are_counted_exactly(pool: Pool) -> None:
    number = 0
    for start in range(0, 6_000, 1_500):
        facts = []
        for nth in range(start, start + 1_500):
            number += 1
            # Most have the same points, a thousand of them the same time too.
            facts.append(
                prize_paid(
                    number, UUID(int=nth * 7919 % 6_007 + 1, version=4), 300 if nth % 3 else 500, seconds=nth // 1_000
                )
            )
        await hear_ledger(pool, facts)
    assert await blocks_fit(pool)
    assert await pool.fetchval("select count(*) from score_block") > 2
    order = [account for account, _ in (await standings(pool, MONDAY))["jack"]]
    reader = PostgresStandings(pool)
    for place in (1, 2, 1_000, 2_345, 5_999, 6_000):
        around = await reader.around(league_board(MONDAY, LeagueClass.JACK), order[place - 1], 3)
        first = max(1, place - 3)
        assert [line.account_id for line in around.lines] == order[first - 1 : place + 3]
        assert [line.place for line in around.lines] == list(range(first, min(6_000, place + 3) + 1))
        assert around.players == 6_000


# Games


async def test_xp_streaks_friendly_tables_and_dailies_follow_from_games_in_any_order(pool: Pool) -> None:
    first, second = UUID(int=101, version=4), UUID(int=102, version=4)
    facts = [
        game_finished(1, [seat(ALICE, 1), seat(BOB, 2), seat(CAROL, 3), seat(DAVE, 4)]),
        game_finished(2, [seat(ALICE, 2), seat(BOB, 3), seat(CAROL, 4), seat(DAVE, 1)]),
        game_finished(3, [seat(ALICE, 1), seat(BOB, 2)], mode=table_pb2.MODE_FRIENDLY),
        game_finished(4, [seat(ALICE, 2), seat(BOB, 1)], mode=table_pb2.MODE_FRIENDLY),
        daily_begun(5, ALICE, "2026-11-10", first),
        daily_begun(6, ALICE, "2026-11-10", second),
        daily_finished(7, second, ALICE, 90),
        daily_finished(8, first, ALICE, 40),
    ]
    chance = random.Random(3)
    for _ in range(4):
        chance.shuffle(facts)
        await hear_games(pool, [*facts[:3], *facts[:2]])
        await hear_games(pool, facts[3:])
    reader = PostgresStandings(pool)
    alice, bob, carol = await reader.reached([ALICE, BOB, CAROL], MONDAY)
    assert (alice.progress.xp, bob.progress.xp) == (130 + 120 + 130 + 120 + 130 * 2, 120 + 110 + 120 + 130)
    # Of four seats the first two are the podium.
    assert [each.progress.streak for each in (alice, bob, carol)] == [Streak.FIRE, Streak.NONE, Streak.ICE]
    friendly = await reader.top(friendly_board(MONDAY), 10)
    assert [(line.account_id, line.points) for line in friendly.lines] == [(ALICE, 17), (BOB, 17)]
    daily = await reader.top(daily_board(date(2026, 11, 10), "oh_hell"), 10)
    assert [(line.account_id, line.points) for line in daily.lines] == [(ALICE, 40)]
    for account, number, total in (
        (ALICE, Xp(), alice.progress.xp),
        (ALICE, friendly_board(MONDAY), 17),
        (ALICE, daily_board(date(2026, 11, 10), "oh_hell"), 40),
    ):
        explained = await reader.causes(account, number, 2**63 - 1, 100)
        assert (explained.total, sum(cause.amount for cause in explained.causes)) == (total, total)
    streak = await reader.causes(CAROL, StreakOf(), 2**63 - 1, 100)
    assert [(cause.fact, cause.podium) for cause in streak.causes] == [(2, False), (1, False)]
    levels = [fact.level_reached.level for fact in await told(pool) if fact.account_id == str(ALICE)]
    assert sorted(level for level in levels if level) == list(range(2, alice.progress.level(TERMS) + 1))


async def test_a_game_counts_in_the_week_in_which_it_ends(pool: Pool) -> None:
    seats = [seat(ALICE, 1), seat(BOB, 2)]
    last, first = us(SECOND) - 1, us(SECOND)
    await hear_games(pool, [game_finished(1, seats, mode=table_pb2.MODE_FRIENDLY, at_us=last)])
    await hear_games(pool, [game_finished(2, seats, mode=table_pb2.MODE_FRIENDLY, at_us=first)])
    for week in (MONDAY, SECOND):
        top = await PostgresStandings(pool).top(friendly_board(week), 10)
        assert [(line.account_id, line.points) for line in top.lines] == [(ALICE, 10), (BOB, 7)]


def daily_finished(number: int, game_id: UUID, account: UUID, total: int) -> Fact:
    seats = [seat(account, 1, total=total)]
    return game_finished(number, seats, mode=table_pb2.MODE_DAILY, day="2026-11-10", game_id=game_id)
