"""Facts of games, accounts and the league on a real Postgres: paid once, however often and whenever they come."""

import asyncio
from collections.abc import AsyncIterator
from datetime import date, timedelta
from random import Random
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import asyncpg
import pytest
from levata.ledger.v1 import facts_pb2 as ledger_facts_pb2
from levata.table.v1 import table_pb2

from chassis.database import Pool, open_pool
from chassis.facts import FactLog
from services.ledger import projections
from services.ledger.app.entries import Asked
from services.ledger.catalogue import read_catalogue
from services.ledger.domain.journal import COFFEES, Currency
from tests.conftest import Database
from tests.ledger import (
    CATALOGUE_FILE,
    CLASSIC,
    COIN,
    DOUBLE,
    GOLD,
    NOW_US,
    ONE_AND_A_HALF,
    account_fact,
    analysed,
    began,
    cancelled,
    deal_scored,
    entry_desk,
    finished,
    give,
    mondays,
    of_six,
    owns,
    seat,
    sums,
    tell,
    us,
    week_closed,
)

DAY_US = 86_400_000_000


@pytest.fixture
async def pool(module_database: Database) -> AsyncIterator[Pool]:
    async with await open_pool(module_database.dsn("ledger"), "test") as pool:
        yield pool


@pytest.fixture
def alice() -> UUID:
    return uuid4()


@pytest.fixture
def bob() -> UUID:
    return uuid4()


async def facts_about(pool: Pool, account: UUID) -> list[ledger_facts_pb2.LedgerFact]:
    facts = (await FactLog(pool).read(0, 5_000)).facts
    mine = [fact for fact in facts if fact.subject.endswith(str(account))]
    assert all(fact.subject.split(".")[:2] == ["levata", "ledger"] for fact in mine)
    return [ledger_facts_pb2.LedgerFact.FromString(fact.payload) for fact in mine]


async def test_a_finished_game_pays_its_podium_and_the_days_first_game(pool: Pool, alice: UUID, bob: UUID) -> None:
    seats = of_six(seat(alice, 1, coffee=ONE_AND_A_HALF), seat(bob, 2, room=3))
    await tell(pool, finished(uuid4(), seats))
    assert await owns(pool, alice) == {COIN: 750, GOLD: 5}
    assert await owns(pool, bob) == {COIN: 875, GOLD: 5}
    assert await sums(pool) == {0}


async def test_the_same_fact_ten_times_pays_once_and_is_told_once(pool: Pool, alice: UUID) -> None:
    game_id = uuid4()
    for _ in range(10):
        await tell(pool, finished(game_id, of_six(seat(alice, 2))), number=17)
    assert await owns(pool, alice) == {COIN: 350, GOLD: 5}
    (fact,) = await facts_about(pool, alice)
    paid = fact.prize_paid
    assert (paid.game_id, paid.seat, paid.place, paid.room, paid.coins) == (str(game_id), 0, 2, 2, 350)
    assert (paid.day, paid.week, paid.finished_at_us, paid.games_fact) == ("2026-11-12", "2026-11-09", NOW_US, 17)


async def test_all_facts_of_a_day_again_and_in_any_order_change_nothing(pool: Pool, alice: UUID) -> None:
    games = [uuid4() for _ in range(5)]
    facts = [began(game_id, [alice], CLASSIC) for game_id in games]
    facts += [deal_scored(game_id, number) for game_id in games for number in range(7)]
    facts += [finished(game_id, of_six(seat(alice, 2, room=1)), CLASSIC) for game_id in games]
    facts += [analysed(game_id, 95) for game_id in games]
    for fact in facts:
        await tell(pool, fact)
    # Five second places, three of five games with good play, the day's first game.
    once = {COIN: 5 * 210, GOLD: 5 + 3 * 2 + 3 * 2, ONE_AND_A_HALF: 3, DOUBLE: 3}
    assert await owns(pool, alice) == once
    for fact in facts + Random(1).sample(facts, len(facts)):
        await tell(pool, fact)
    assert await owns(pool, alice) == once
    # Nor after the balances were made anew.
    assert (await projections.rebuild(pool, dry_run=False)).differences == ()
    for fact in facts:
        await tell(pool, fact)
    assert await owns(pool, alice) == once


async def test_first_game_gold_comes_once_a_day(pool: Pool, alice: UUID) -> None:
    for hours in (0, 5, 11, 12, 20):
        await tell(pool, finished(uuid4(), of_six(seat(alice, 6))), NOW_US + hours * DAY_US // 24)
    # Noon, 17:00 and 23:00; midnight and the morning after.
    assert await owns(pool, alice) == {GOLD: 10}


@pytest.mark.parametrize("mode", [table_pb2.MODE_FRIENDLY, table_pb2.MODE_SOLO, table_pb2.MODE_DAILY])
async def test_only_quick_play_pays(pool: Pool, alice: UUID, mode: table_pb2.Mode.ValueType) -> None:
    await tell(pool, finished(uuid4(), of_six(seat(alice, 1)), mode=mode))
    assert await owns(pool, alice) == {}


async def test_who_is_not_eligible_gets_nothing(pool: Pool, alice: UUID) -> None:
    await tell(pool, finished(uuid4(), of_six(seat(alice, 1, eligible=False))))
    assert (await owns(pool, alice), await facts_about(pool, alice)) == ({}, [])


async def test_good_play_follows_from_the_deals_of_a_classic_game(pool: Pool, alice: UUID) -> None:
    game_id = uuid4()
    await tell(pool, began(game_id, [alice], CLASSIC))
    for number in range(20):
        # Six good ones, a bad one, seven good ones with one of one card among them, five good ones.
        await tell(pool, deal_scored(game_id, number, good=number != 6, hand_size=1 if number == 9 else 8))
    await tell(pool, finished(game_id, of_six(seat(alice, 6)), CLASSIC))
    assert await owns(pool, alice) == {GOLD: 5 + 2, ONE_AND_A_HALF: 1}
    for table in ("classic_game", "scored_deal"):
        assert await pool.fetchval(f"select count(*) from {table} where game_id = $1", game_id) == 0


async def test_deals_of_other_games_and_of_cancelled_ones_are_not_kept(pool: Pool, alice: UUID) -> None:
    quick, broken_off = uuid4(), uuid4()
    await tell(pool, began(quick, [alice], ("romanian_whist", "quick")))
    await tell(pool, began(broken_off, [alice], CLASSIC))
    for game_id in (quick, broken_off):
        await tell(pool, deal_scored(game_id, 0))
    await tell(pool, cancelled(broken_off, version=9))
    query = "select count(*) from scored_deal where game_id = any($1)"
    assert await pool.fetchval(query, [quick, broken_off]) == 0


async def classic_game(pool: Pool, account: UUID, at_us: int = NOW_US, room: int = 1) -> UUID:
    """A last place with seven good deals."""
    game_id = uuid4()
    await tell(pool, began(game_id, [account], CLASSIC))
    for number in range(7):
        await tell(pool, deal_scored(game_id, number))
    await tell(pool, finished(game_id, of_six(seat(account, 6, room=room)), CLASSIC), at_us)
    return game_id


async def test_the_first_room_pays_for_good_play_in_three_games_a_day(pool: Pool, alice: UUID) -> None:
    *_, fourth = [await classic_game(pool, alice) for _ in range(4)]
    assert (await owns(pool, alice))[ONE_AND_A_HALF] == 3
    # The coach's part is of the same three games.
    await tell(pool, analysed(fourth, 100))
    assert DOUBLE not in await owns(pool, alice)
    # Other rooms and other days have nothing to do with it.
    await classic_game(pool, alice, room=2)
    await classic_game(pool, alice, NOW_US + DAY_US)
    assert (await owns(pool, alice))[ONE_AND_A_HALF] == 5


async def test_an_analysis_pays_once_whatever_a_later_one_finds(pool: Pool, alice: UUID) -> None:
    game_id = await classic_game(pool, alice)
    for score in (85, 85, 99):
        await tell(pool, analysed(game_id, score))
    assert await owns(pool, alice) == {GOLD: 7, ONE_AND_A_HALF: 2}


async def test_an_analysis_with_too_many_hints_or_of_another_game_pays_nothing(pool: Pool, alice: UUID) -> None:
    hinted = await classic_game(pool, alice)
    await tell(pool, analysed(hinted, 100, moves=60, hinted=31))
    quick = uuid4()
    await tell(pool, finished(quick, of_six(seat(alice, 6))))
    await tell(pool, analysed(quick, 100))
    await tell(pool, analysed(uuid4(), 100))
    assert await owns(pool, alice) == {GOLD: 7, ONE_AND_A_HALF: 1}


# Accounts


def coffees(each: int) -> dict[Currency, int]:
    return dict.fromkeys(COFFEES, each)


async def test_who_has_an_address_is_welcomed_once(pool: Pool, alice: UUID) -> None:
    await account_fact(pool, alice, "created", NOW_US)
    assert await owns(pool, alice) == {}
    for _ in range(10):
        await account_fact(pool, alice, "registered", NOW_US)
    assert await owns(pool, alice) == {COIN: 1_000, **coffees(10)}


async def test_mondays_come_once_also_for_who_was_away(pool: Pool, alice: UUID, bob: UUID) -> None:
    """Registered on a Thursday."""
    await account_fact(pool, alice, "registered", NOW_US)
    for at, each in (
        ("2026-11-15T23:59:59", 10),
        ("2026-11-16T00:00:00", 12),
        ("2026-11-22T23:59:59", 12),
        # Away for three Mondays.
        ("2026-12-09T08:00:00", 18),
        ("2026-12-09T08:00:00", 18),
        # Another replica's clock is behind.
        ("2026-12-01T08:00:00", 18),
    ):
        await mondays(pool, us(at)).bring([bob, alice])
        assert await owns(pool, alice) == {COIN: 1_000, **coffees(each)}
    assert await owns(pool, bob) == {}
    query = "select cause_id from entry where key like 'monday:%' || $1 order by 1"
    weeks = [row["cause_id"] for row in await pool.fetch(query, str(alice))]
    assert weeks == ["2026-11-16", "2026-11-23", "2026-11-30", "2026-12-07"]


@pytest.mark.parametrize(
    ("registered", "midnight"),
    # Clocks go forward and back on the Sunday before: Monday comes an hour earlier or later in UTC than a week ago.
    [("2026-03-26T12:00:00", "2026-03-29T21:00:00"), ("2026-10-22T12:00:00", "2026-10-25T22:00:00")],
)
async def test_mondays_coffee_at_a_change_of_summer_time(
    pool: Pool, alice: UUID, registered: str, midnight: str
) -> None:
    edition = read_catalogue(CATALOGUE_FILE, ZoneInfo("Europe/Bucharest"))
    await account_fact(pool, alice, "registered", us(registered), edition)
    for at_us, each in ((us(midnight) - 1, 10), (us(midnight), 12), (us(midnight) + DAY_US, 12)):
        await mondays(pool, at_us, edition.catalogue).bring([alice])
        assert await owns(pool, alice) == {COIN: 1_000, **coffees(each)}


async def test_mondays_of_many_at_once_come_once(pool: Pool, alice: UUID, bob: UUID) -> None:
    for account in (alice, bob):
        await account_fact(pool, account, "registered", NOW_US)
    monday = us("2026-11-16T00:00:00")
    async with asyncio.TaskGroup() as group:
        for number in range(30):
            together = [alice, bob] if number % 2 else [bob, alice]
            group.create_task(mondays(pool, monday).bring(together))
    for account in (alice, bob):
        assert await owns(pool, account) == {COIN: 1_000, **coffees(12)}


async def test_mondays_coffee_is_there_for_the_game_that_one_enters_first(pool: Pool, alice: UUID) -> None:
    await account_fact(pool, alice, "registered", NOW_US)
    desk = entry_desk(pool, now_us=NOW_US + 7 * DAY_US)
    for _ in range(12):
        (entrant,) = await desk.hold(uuid4(), [Asked(alice, 1, DOUBLE)])
        assert entrant.refusal is None
    (entrant,) = await desk.hold(uuid4(), [Asked(alice, 1, DOUBLE)])
    assert entrant.refusal is DOUBLE


async def test_no_mondays_for_an_account_that_is_gone(pool: Pool, alice: UUID) -> None:
    await account_fact(pool, alice, "registered", NOW_US)
    await account_fact(pool, alice, "deleted", NOW_US)
    await mondays(pool, NOW_US + 30 * DAY_US).bring([alice])
    assert (await owns(pool, alice))[DOUBLE] == 10


# The league


async def test_a_closed_week_pays_its_best_once(pool: Pool, alice: UUID, bob: UUID) -> None:
    week = date(2026, 11, 9)
    for _ in range(10):
        await week_closed(pool, week, ace=[alice], jack=[bob], king=[])
    assert await owns(pool, alice) == {COIN: 1_200_000, GOLD: 600}
    assert await owns(pool, bob) == {COIN: 100_000, GOLD: 50}
    await week_closed(pool, week + timedelta(days=7), jack=[alice, bob])
    assert await owns(pool, bob) == {COIN: 180_000, GOLD: 80}


async def test_the_reward_of_a_deleted_account_lapses(pool: Pool, alice: UUID, bob: UUID) -> None:
    await account_fact(pool, alice, "registered", NOW_US)
    await account_fact(pool, alice, "deleted", NOW_US)
    await week_closed(pool, date(2026, 10, 26), queen=[alice, bob])
    assert await owns(pool, alice) == {COIN: 1_000, **coffees(10)}
    assert await owns(pool, bob) == {COIN: 160_000, GOLD: 60}


async def test_what_was_decided_is_kept_against_the_service_itself(pool: Pool, alice: UUID) -> None:
    await give(pool, alice, 1)
    game_id = await classic_game(pool, alice)
    await tell(pool, analysed(game_id, 50))
    await account_fact(pool, alice, "registered", NOW_US)
    await account_fact(pool, alice, "deleted", NOW_US)
    await entry_desk(pool).hold(uuid4(), [Asked(alice, 1, None)])
    for statement in (
        "update settled_seat set prize = 9",
        "update settled_seat set coached_by = null where coached_by is not null",
        "delete from settled_seat",
        "update settled_game set day = day",
        "delete from settled_game",
        "delete from closed_week",
        "delete from member",
        "update member set mondays_until = mondays_until - 7",
        "update deleted_account set deleted_at = deleted_at + interval '1 day'",
        "delete from deleted_account",
        "update weekly_rank set rank = 1",
        "delete from weekly_rank",
        "update game_entry set began = not began",
        "update game_entry set began = null, began_at = null",
        "update game_entry set seated = '{}'",
        "update game_entry set game_type = 'bridge'",
        "update game_entry set input_hash = null",
        "delete from game_entry",
        "update entrant set refusal = 'coin'",
        "delete from entrant",
        "update catalogue set content = ''",
    ):
        with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.IntegrityConstraintViolationError)):
            await pool.execute(statement)
