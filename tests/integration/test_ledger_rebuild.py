"""Balances made anew from the transfers while money moves, on a real Postgres."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import pytest

from chassis.database import Pool, open_pool
from services.ledger import projections
from services.ledger.app.operations import BalanceDifference
from services.ledger.domain.journal import Balance, Cause, CauseKind, Currency, House, Transfer, posted
from services.ledger.store.journal import JournalWriter
from tests.conftest import Database

ALICE, BOB, NOBODY = (UUID(int=number, version=4) for number in (1, 2, 3))
WELCOME = Cause(CauseKind.GRANT, "test", "welcome")


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    async with await open_pool(database.dsn("ledger"), "test") as pool:
        yield pool


async def give(writer: JournalWriter, account: UUID, amount: int) -> None:
    transfer = Transfer(House.GRANTS.value, account, Currency.COIN, amount)
    await writer.post(posted(f"give {uuid4()}", WELCOME, [transfer]))


async def test_a_balance_that_the_transfers_do_not_explain_is_shown_and_put_right(
    database: Database, pool: Pool
) -> None:
    async with JournalWriter(pool) as writer:
        await give(writer, ALICE, 100)
        await give(writer, BOB, 50)
    operator = await asyncpg.connect(database.admin_dsn)
    await operator.execute("update ledger.balance set posted = 101 where account = $1", ALICE)
    await operator.execute("delete from ledger.balance where account = $1", BOB)
    await operator.execute("insert into ledger.balance values ($1, 'gold', 7, 3)", NOBODY)
    await operator.close()
    differences = (
        BalanceDifference(ALICE, Currency.COIN, Balance(101), Balance(100)),
        BalanceDifference(BOB, Currency.COIN, None, Balance(50)),
        BalanceDifference(NOBODY, Currency.GOLD, Balance(7, 3), None),
    )
    for dry_run in (True, False):
        rebuilt = await projections.rebuild(pool, dry_run=dry_run)
        assert (rebuilt.differences, rebuilt.transfers, rebuilt.switched) == (differences, 2, not dry_run)
    assert (await projections.rebuild(pool, dry_run=False)).differences == ()
    async with JournalWriter(pool) as writer:
        await give(writer, BOB, 1)
    assert await pool.fetchval("select posted from balance where account = $1", BOB) == 51


async def test_nothing_that_moves_meanwhile_is_taken_for_a_difference(pool: Pool) -> None:
    """Four writers, forty rebuilds, one of them always under way."""
    moving = True

    async def move(writer: JournalWriter) -> int:
        moved = 0
        while moving:
            await asyncio.gather(*(give(writer, UUID(int=n % 50 + 1000), 1 + n) for n in range(20)))
            moved += 20
        return moved

    async with JournalWriter(pool) as one, JournalWriter(pool) as other:
        movers = [asyncio.create_task(move(writer)) for writer in (one, other) for _ in range(2)]
        rebuilds = [await projections.rebuild(pool, dry_run=number % 2 == 0) for number in range(40)]
        moving = False
        moved = sum(await asyncio.gather(*movers))
    assert all(rebuilt.differences == () for rebuilt in rebuilds)
    assert rebuilds[0].transfers < rebuilds[-1].transfers <= moved
    assert (await projections.rebuild(pool, dry_run=True)).transfers == moved
