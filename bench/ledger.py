"""`./levata bench ledger`: transfers against Postgres' own bench, and what reading and rebuilding cost.

At its end the books must be right: all currencies sum to zero, and balances are what their transfers say.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID, uuid4

import uvloop

from bench.pgbench import SCALE, Pgbench
from bench.report import Ratio, more_is_better
from bench.servers import backend
from chassis.database import Pool, open_pool
from services.ledger import projections
from services.ledger.domain.journal import Cause, CauseKind, Currency, Entry, House, Outcome, Transfer, posted
from services.ledger.store.journal import JournalWriter

ACCOUNTS: Final = 100_000
CALLERS: Final = 64
ROUNDS, SECONDS, WARM_SECONDS = 3, 5.0, 2.0
TRANSFERS_FLOOR, ONE_HOUSE_FLOOR = 2.0, 1.0
REBUILD_LIMIT = 50_000.0
# What everybody begins with, of which one is paid or gained at a time.
_START: Final = 1_000_000
# As many at once as make full transactions, and no more than may wait.
_OPENING_AT_ONCE: Final = 4_096
_WELCOME: Final = Cause(CauseKind.GRANT, "bench", "welcome")
_HOUSES: Final = tuple(house.value for house in House)


def measure() -> list[Ratio]:
    """All figures of the ledger."""
    with backend() as running:
        return uvloop.run(_of_the_journal(running.dsn("ledger"), Pgbench(running.postgres)))


async def _of_the_journal(dsn: str, pgbench: Pgbench) -> list[Ratio]:
    async with await open_pool(dsn, "levata bench") as pool:
        accounts = [UUID(bytes=os.urandom(16), version=4) for _ in range(ACCOUNTS)]
        async with JournalWriter(pool) as journal:
            await _open_accounts(journal, accounts)
            ratios = await _transfers(journal, accounts, pgbench)
        ratios.append(await _rebuild(pool))
        await _assert_adds_up(pool)
    return ratios


async def _open_accounts(journal: JournalWriter, accounts: Sequence[UUID]) -> None:
    for first in range(0, ACCOUNTS, _OPENING_AT_ONCE):
        some = accounts[first : first + _OPENING_AT_ONCE]
        grants = [Transfer(House.GRANTS.value, account, Currency.COIN, _START) for account in some]
        await asyncio.gather(*(journal.post(posted(f"welcome:{grant.player}", _WELCOME, [grant])) for grant in grants))


async def _transfers(journal: JournalWriter, accounts: Sequence[UUID], pgbench: Pgbench) -> list[Ratio]:
    """Over all house accounts, and over one."""
    loads = {"any": _load(accounts, _HOUSES), "one": _load(accounts, _HOUSES[:1])}
    speed: dict[str, list[float]] = {"any": [], "one": [], "pgbench": []}
    for number in range(ROUNDS + 1):
        seconds = SECONDS if number else WARM_SECONDS
        found = {name: await _per_second(journal, entry, seconds) for name, entry in loads.items()}
        found["pgbench"] = await asyncio.to_thread(pgbench.transactions_per_second, CALLERS, seconds)
        # The first round is to warm up.
        for name, figure in found.items() if number else ():
            speed[name].append(figure)
    how = (
        f"{CALLERS} callers in one process, {ACCOUNTS:,} accounts, answered after the commit, {ROUNDS} x {SECONDS:g} s "
        f"alternating, medians; peer: pgbench's TPC-B, scale {SCALE}, {CALLERS} clients, on the same server"
    )
    return [
        more_is_better("transfers", speed["any"], speed["pgbench"], "transfers/s", TRANSFERS_FLOOR, how),
        more_is_better(
            "transfers_one_house_account",
            speed["one"],
            speed["pgbench"],
            "transfers/s",
            ONE_HOUSE_FLOOR,
            "as above, all against one account of the house",
        ),
    ]


def _load(accounts: Sequence[UUID], houses: Sequence[UUID]) -> Callable[[], Entry]:
    """Makes entries, each of one coin that somebody pays or is paid."""
    chance = random.Random(7)

    def entry() -> Entry:
        game, player, house = str(uuid4()), chance.choice(accounts), chance.choice(houses)
        debit, credit = (player, house) if chance.random() < 0.5 else (house, player)
        transfer = Transfer(debit, credit, Currency.COIN, 1)
        return posted(f"bench:{game}", Cause(CauseKind.GAME, game, "bench"), [transfer])

    return entry


async def _per_second(journal: JournalWriter, entry: Callable[[], Entry], seconds: float) -> float:
    done = 0
    stop = time.perf_counter() + seconds

    async def call() -> None:
        nonlocal done
        while time.perf_counter() < stop:
            decided = await journal.post(entry())
            assert decided.outcome is Outcome.DONE
            done += 1

    began = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(CALLERS)))
    return done / (time.perf_counter() - began)


async def _rebuild(pool: Pool) -> Ratio:
    speed = []
    transfers = await pool.fetchval("select count(*) from transfer")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        rebuilt = await projections.rebuild(pool, dry_run=False)
        speed.append(transfers / (time.perf_counter() - began))
        assert rebuilt.transfers == transfers and not rebuilt.differences, "balances are not what the transfers say"
    how = f"{transfers:,} transfers, compared with the balances and switched, {ROUNDS} times; peer: the limit"
    return more_is_better("rebuild", speed, [REBUILD_LIMIT] * ROUNDS, "transfers/s", 1.0, how)


async def _assert_adds_up(pool: Pool) -> None:
    rows = await pool.fetch("select currency, sum(posted) from balance group by currency having sum(posted) <> 0")
    assert not rows, f"currencies do not sum to zero: {rows}"
