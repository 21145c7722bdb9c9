"""Accounts that are deleted: named on no leaderboard, in whatever order it is heard; all others keep their places."""

import random
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from levata.accounts.v1 import facts_pb2
from levata.table.v1 import table_pb2

from chassis.database import Pool, open_pool
from chassis.facts import Fact
from services.league.domain.boards import Board, friendly_board, league_board
from services.league.domain.classes import LeagueClass
from services.league.store.standings import PostgresStandings
from tests.conftest import Database
from tests.league import (
    MONDAY,
    close,
    deleted,
    game_finished,
    hear_accounts,
    hear_games,
    hear_ledger,
    heard_up_to,
    prize_paid,
    seat,
    us,
    week_after,
)

ALICE, BOB, CAROL, DAVE = (UUID(int=number, version=4) for number in (1, 2, 3, 4))
JACKS = league_board(MONDAY, LeagueClass.JACK)


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    async with await open_pool(database.dsn("league"), "test", connections_max=4) as opened:
        yield opened


async def top(pool: Pool, board: Board) -> list[tuple[int, UUID | None, int]]:
    """The lines of a leaderboard."""
    return [(line.place, line.account_id, line.points) for line in (await PostgresStandings(pool).top(board, 9)).lines]


async def test_a_line_stays_without_its_account_while_the_week_runs_and_after_it(pool: Pool) -> None:
    await hear_ledger(pool, [prize_paid(n, each, 400 - n) for n, each in enumerate((ALICE, BOB, CAROL, DAVE), start=1)])
    await hear_accounts(pool, [deleted(1, BOB)])
    lines = [(1, ALICE, 399), (2, None, 398), (3, CAROL, 397), (4, DAVE, 396)]
    assert await top(pool, JACKS) == lines
    around = await PostgresStandings(pool).around(JACKS, CAROL, 1)
    assert [(line.place, line.account_id) for line in around.lines] == [(2, None), (3, CAROL), (4, DAVE)]
    assert around.players == 4

    await heard_up_to(pool, 1, 4)
    assert await close(pool, MONDAY, 1, 4)
    await hear_accounts(pool, [deleted(2, ALICE)])
    assert await top(pool, JACKS) == [(1, None, 399), *lines[1:]]
    # Who was before nobody moved up: Carol was third, and has gone up with the first two.
    (carol, dave) = await PostgresStandings(pool).reached([CAROL, DAVE], week_after(MONDAY))
    assert (carol.league_class, dave.league_class) == (LeagueClass.QUEEN, LeagueClass.JACK)


@pytest.mark.parametrize("seed", range(3))
async def test_it_is_heard_twice_and_before_what_the_account_did(pool: Pool, seed: int) -> None:
    chance = random.Random(seed)
    told = [
        (hear_ledger, prize_paid(1, ALICE, 300)),
        (hear_ledger, prize_paid(2, BOB, 200)),
        (
            hear_games,
            game_finished(1, [seat(ALICE, 1), seat(BOB, 2)], mode=table_pb2.MODE_FRIENDLY, at_us=us(MONDAY, 9)),
        ),
        (hear_accounts, registered(1, ALICE)),
        (hear_accounts, deleted(2, ALICE)),
    ]
    chance.shuffle(told)
    for hear, fact in told + chance.choices(told, k=5):
        await hear(pool, [fact])
    assert await top(pool, JACKS) == [(1, None, 300), (2, BOB, 200)]
    assert await top(pool, friendly_board(MONDAY)) == [(1, None, 10), (2, BOB, 7)]
    assert await PostgresStandings(pool).is_deleted(ALICE)
    assert not await PostgresStandings(pool).is_deleted(BOB)


def registered(number: int, account: UUID) -> Fact:
    message = facts_pb2.AccountFact(account_id=str(account), registered=facts_pb2.AccountRegisteredFact())
    return Fact(number, f"levata.accounts.registered.{account}", message.SerializeToString(), us(MONDAY))
