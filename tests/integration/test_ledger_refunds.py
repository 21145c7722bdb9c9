"""Refunds on a real Postgres: one effect whoever asks and however often, and nothing half done."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest
from levata.ledger.v1 import facts_pb2

from chassis.database import Pool, open_pool
from chassis.errors import Refused
from chassis.facts import FactLog
from services.ledger.app.entries import Asked
from services.ledger.app.refunds import RefundDesk
from services.ledger.store.refunds import PostgresRefunds
from tests.conftest import Database
from tests.ledger import (
    CATALOGUE,
    COIN,
    DOUBLE,
    GOLD,
    NOW_US,
    ONE_AND_A_HALF,
    analysed,
    entry_desk,
    give,
    owns,
    play,
    sums,
    tell,
    us,
)

HOUR_US = 3_600_000_000
# VIP on Mondays and Saturdays.
VIP_ON_MONDAYS = UUID("00000000-0000-4000-8000-000000000002")


@pytest.fixture
async def pool(module_database: Database) -> AsyncIterator[Pool]:
    async with await open_pool(module_database.dsn("ledger"), "test") as pool:
        yield pool


@pytest.fixture
def alice() -> UUID:
    return uuid4()


def refund_desk(pool: Pool, now_us: int = NOW_US + HOUR_US) -> RefundDesk:
    return RefundDesk(PostgresRefunds(pool), CATALOGUE, lambda: now_us)


async def refused(pool: Pool, account: UUID, game_id: UUID, now_us: int = NOW_US + HOUR_US) -> str:
    before = await owns(pool, account)
    with pytest.raises(Refused) as caught:
        await refund_desk(pool, now_us).refund(account, game_id, uuid4())
    assert await owns(pool, account) == before
    return caught.value.reason


async def test_all_that_the_game_moved_goes_back_but_the_days_first_game(pool: Pool, alice: UUID) -> None:
    await give(pool, alice, 1_000)
    await give(pool, alice, 1, DOUBLE)
    game_id = await play(pool, alice, place=3, room=3, coffee=DOUBLE, good_deals=7)
    # 1,250 x 55 % x 2; the row of seven; the first game of the day.
    assert await owns(pool, alice) == {COIN: 500 + 1_375, ONE_AND_A_HALF: 1, GOLD: 2 + 5}
    await tell(pool, analysed(game_id, 92))
    assert await owns(pool, alice) == {COIN: 1_875, ONE_AND_A_HALF: 1, DOUBLE: 1, GOLD: 9}
    # The coffee that the analysis brought is the one that was drunk: nothing would come back but a loss.
    assert await refused(pool, alice, game_id) == "NOTHING_TO_REFUND"
    cheap = await play(pool, alice, place=4, room=3, good_deals=7)
    assert await refund_desk(pool).refund(alice, cheap, uuid4()) == {COIN: 500, GOLD: -2, ONE_AND_A_HALF: -1}
    assert await owns(pool, alice) == {COIN: 1_875, ONE_AND_A_HALF: 1, DOUBLE: 1, GOLD: 9}
    assert await sums(pool) == {0}


async def test_the_league_is_told(pool: Pool, alice: UUID) -> None:
    await give(pool, alice, 200)
    await give(pool, alice, 1, DOUBLE)
    game_id = await play(pool, alice, place=3, coffee=DOUBLE)
    assert await refund_desk(pool).refund(alice, game_id, uuid4()) == {COIN: -350, DOUBLE: 1}
    mine = [fact for fact in (await FactLog(pool).read(0)).facts if fact.subject.endswith(str(alice))]
    assert [fact.subject.split(".")[2] for fact in mine] == ["prize_paid", "refunded"]
    refunded = facts_pb2.LedgerFact.FromString(mine[1].payload).refunded
    assert (refunded.game_id, refunded.seat, refunded.prize) == (str(game_id), 0, 550)
    assert (refunded.day, refunded.week, refunded.finished_at_us) == ("2026-11-12", "2026-11-09", NOW_US)


async def test_fifty_times_the_same_request_and_then_fifty_others_have_one_effect(pool: Pool, alice: UUID) -> None:
    await give(pool, alice, 200)
    game_id, request_id = await play(pool, alice), uuid4()
    desk = refund_desk(pool)
    answers = await asyncio.gather(*(desk.refund(alice, game_id, request_id) for _ in range(50)))
    assert answers == [{COIN: 200}] * 50
    others = await asyncio.gather(*(desk.refund(alice, game_id, uuid4()) for _ in range(50)), return_exceptions=True)
    assert [other.reason for other in others if isinstance(other, Refused)] == ["ALREADY_REFUNDED"] * 50
    assert await owns(pool, alice) == {COIN: 200, GOLD: 5}
    # The first answer comes again, also when the time is over.
    assert await refund_desk(pool, NOW_US + 99 * HOUR_US).refund(alice, game_id, request_id) == {COIN: 200}


async def test_fifty_different_requests_at_once_have_one_effect(pool: Pool, alice: UUID) -> None:
    await give(pool, alice, 200)
    game_id, desk = await play(pool, alice), refund_desk(pool)
    answers = await asyncio.gather(*(desk.refund(alice, game_id, uuid4()) for _ in range(50)), return_exceptions=True)
    assert [answer for answer in answers if isinstance(answer, dict)] == [{COIN: 200}]
    assert await owns(pool, alice) == {COIN: 200, GOLD: 5}


async def test_of_many_games_of_a_day_asked_for_at_once_three_are_given_back(pool: Pool, alice: UUID) -> None:
    await give(pool, alice, 1_000)
    games = [await play(pool, alice) for _ in range(5)]
    desk = refund_desk(pool)
    answers = await asyncio.gather(*(desk.refund(alice, game, uuid4()) for game in games), return_exceptions=True)
    assert sorted(answer.reason if isinstance(answer, Refused) else "given" for answer in answers) == [
        *["NO_REFUNDS_LEFT"] * 2,
        *["given"] * 3,
    ]
    assert (await owns(pool, alice))[COIN] == 600


async def test_the_same_request_for_another_game_is_refused(pool: Pool, alice: UUID) -> None:
    await give(pool, alice, 400)
    one, other, request_id = await play(pool, alice), await play(pool, alice), uuid4()
    await refund_desk(pool).refund(alice, one, request_id)
    with pytest.raises(Refused, match="REQUEST_ID_REUSED"):
        await refund_desk(pool).refund(alice, other, request_id)


async def test_what_was_won_and_spent_cannot_go_back(pool: Pool, alice: UUID) -> None:
    await give(pool, alice, 200)
    await give(pool, alice, 2, DOUBLE)
    # 500 x 55 % x 2 = 550 against an entry of 200 and a coffee.
    game_id = await play(pool, alice, place=3, coffee=DOUBLE)
    (entrant,) = await entry_desk(pool).hold(uuid4(), [Asked(alice, 3, None)])
    assert entrant.refusal is None
    # What is held is spent, too: of 550 coins 500 are.
    assert await refused(pool, alice, game_id) == "INSUFFICIENT_COINS"


async def test_the_policy_changes_with_the_day_on_which_the_game_finished(pool: Pool) -> None:
    account = VIP_ON_MONDAYS
    await give(pool, account, 2_000)
    sunday, monday = us("2026-11-15T23:30:00"), us("2026-11-16T00:30:00")
    old = [await play(pool, account, at_us=sunday) for _ in range(4)]
    new = [await play(pool, account, at_us=monday) for _ in range(2)]
    tuesday = await play(pool, account, at_us=monday + 24 * HOUR_US)
    # All asked for on Monday.
    for game_id in old[:3]:
        assert await refund_desk(pool, monday).refund(account, game_id, uuid4()) == {COIN: 200}
    assert await refused(pool, account, old[3], monday) == "NO_REFUNDS_LEFT"
    assert await refund_desk(pool, monday).refund(account, new[0], uuid4()) == {COIN: 200}
    assert await refused(pool, account, new[1], monday) == "NO_REFUNDS_LEFT"
    assert await refused(pool, account, tuesday, monday + 25 * HOUR_US) == "NOT_A_VIP_DAY"


async def test_what_is_not_given_back(pool: Pool, alice: UUID) -> None:
    await give(pool, alice, 1_000)
    assert await refused(pool, alice, uuid4()) == "NOT_PLAYED"
    assert await refused(pool, uuid4(), await play(pool, alice)) == "NOT_PLAYED"
    assert await refused(pool, alice, await play(pool, alice, place=1)) == "REFUND_OF_A_WIN"
    assert await refused(pool, alice, await play(pool, alice, eligible=False)) == "NOT_ELIGIBLE"
    assert await refused(pool, alice, await play(pool, alice, room=1)) == "NOTHING_TO_REFUND"
    assert await refused(pool, alice, await play(pool, alice), NOW_US + 24 * HOUR_US + 1) == "REFUND_TOO_LATE"


async def test_a_refund_ends_what_an_analysis_would_pay_and_gives_no_game_of_the_day_back(
    pool: Pool, alice: UUID
) -> None:
    await give(pool, alice, 1, DOUBLE)
    games = [await play(pool, alice, room=1, coffee=DOUBLE, good_deals=7)]
    games += [await play(pool, alice, room=1, good_deals=7) for _ in range(2)]
    assert await refund_desk(pool).refund(alice, games[0], uuid4()) == {DOUBLE: 1, GOLD: -2, ONE_AND_A_HALF: -1}
    await tell(pool, analysed(games[0], 100))
    assert await owns(pool, alice) == {DOUBLE: 1, GOLD: 9, ONE_AND_A_HALF: 2}
    # Of the three games of the day none is left.
    await play(pool, alice, room=1, good_deals=7)
    assert await owns(pool, alice) == {DOUBLE: 1, GOLD: 9, ONE_AND_A_HALF: 2}


async def test_a_refund_and_an_analysis_at_the_same_moment_leave_nothing_over(pool: Pool, alice: UUID) -> None:
    await give(pool, alice, 200)
    for _ in range(3):
        game_id = await play(pool, alice)
        before = await owns(pool, alice)
        await asyncio.gather(refund_desk(pool).refund(alice, game_id, uuid4()), tell(pool, analysed(game_id, 100)))
        after = await owns(pool, alice)
        assert after == before | {COIN: before.get(COIN, 0) + 200}
