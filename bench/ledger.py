"""`./levata bench ledger`: transfers against Postgres' own bench and against a bare server, reading, and rebuilding.

At its end the books must be right: all currencies sum to zero, and balances are what their transfers say.
"""

import asyncio
import itertools
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID, uuid4

import grpc
import uvloop
from levata.ledger.v1 import ledger_pb2

from bench.load import Tally, connections
from bench.pgbench import SCALE, Pgbench
from bench.report import Ratio, less_is_better, more_is_better
from bench.servers import Backend, backend, bare_server
from chassis.auth import Signer
from chassis.database import Pool, open_pool
from services.ledger import projections
from services.ledger.domain.journal import Cause, CauseKind, Currency, House, Outcome, Transfer, posted
from services.ledger.store.balances import PostgresBalances
from services.ledger.store.journal import JournalWriter

ACCOUNTS: Final = 100_000
CALLERS: Final = 64
BUYERS: Final = 256
ROUNDS, SECONDS, WARM_SECONDS = 3, 5.0, 2.0
TRANSFERS_FLOOR, ONE_HOUSE_FLOOR = 2.0, 1.0
OVER_GRPC_FLOOR = 0.5
READERS, READ_FLOOR = 8, 1 / 3
REBUILD_LIMIT = 50_000.0
# What everybody begins with, of which one is paid or gained at a time.
_START: Final = 1_000_000
# As many at once as make full transactions, and no more than may wait.
_GIVEN_AT_ONCE: Final = 4_096
_GIFT: Final = Cause(CauseKind.GRANT, "bench", "grant")
_HOUSES: Final = tuple(house.value for house in House)
# As the repository's catalogue has it.
_COFFEE, _COFFEE_GOLD = Currency.COFFEE_1_5, 5
_BUY_COFFEE: Final = "/levata.ledger.v1.Ledger/BuyCoffee"
_ECHO: Final = "/bare.Table/Act"
CALL_SECONDS: Final = 10.0
_BARE_SELECT: Final = "select posted, held from balance where account = $1 and currency = $2"


def measure() -> list[Ratio]:
    """All figures of the ledger."""
    with backend() as running:
        accounts = [UUID(bytes=os.urandom(16), version=4) for _ in range(ACCOUNTS)]
        return [
            *uvloop.run(_in_process(running.dsn("ledger"), accounts, Pgbench(running.postgres))),
            *_over_grpc(running, accounts[:BUYERS]),
            *uvloop.run(_at_the_end(running.dsn("ledger"))),
        ]


async def _in_process(dsn: str, accounts: Sequence[UUID], pgbench: Pgbench) -> list[Ratio]:
    async with await open_pool(dsn, "levata bench") as pool, JournalWriter(pool) as journal:
        await _give(journal, Currency.COIN, accounts)
        await _give(journal, Currency.GOLD, accounts[:BUYERS])
        return [*await _transfers(journal, accounts, pgbench), await _reads(pool, accounts)]


async def _give(journal: JournalWriter, currency: Currency, accounts: Sequence[UUID]) -> None:
    """What everybody begins with."""
    for first in range(0, len(accounts), _GIVEN_AT_ONCE):
        some = accounts[first : first + _GIVEN_AT_ONCE]
        gifts = [Transfer(House.GRANTS.value, account, currency, _START) for account in some]
        entries = [posted(f"bench:{currency}:{gift.player}", _GIFT, [gift]) for gift in gifts]
        await asyncio.gather(*map(journal.post, entries))


async def _transfers(journal: JournalWriter, accounts: Sequence[UUID], pgbench: Pgbench) -> list[Ratio]:
    """Over all house accounts, and over one."""
    loads = {"any": _transferring(journal, accounts, _HOUSES), "one": _transferring(journal, accounts, _HOUSES[:1])}
    speed: dict[str, list[float]] = {"any": [], "one": [], "pgbench": []}
    for number in range(ROUNDS + 1):
        seconds = SECONDS if number else WARM_SECONDS
        found = {name: await _per_second(load, seconds) for name, load in loads.items()}
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


def _transferring(
    journal: JournalWriter, accounts: Sequence[UUID], houses: Sequence[UUID]
) -> Callable[[], Awaitable[None]]:
    """Somebody pays a coin, or is paid one."""
    chance = random.Random(7)

    async def call() -> None:
        game, player, house = str(uuid4()), chance.choice(accounts), chance.choice(houses)
        debit, credit = (player, house) if chance.random() < 0.5 else (house, player)
        transfer = Transfer(debit, credit, Currency.COIN, 1)
        decided = await journal.post(posted(f"bench:{game}", Cause(CauseKind.GAME, game, "bench"), [transfer]))
        assert decided.outcome is Outcome.DONE

    return call


async def _per_second(call: Callable[[], Awaitable[None]], seconds: float) -> float:
    """What so many callers reach, each of whom waits for the answer."""
    done = 0
    began = time.perf_counter()

    async def go_on() -> None:
        nonlocal done
        while time.perf_counter() < began + seconds:
            await call()
            done += 1

    await asyncio.gather(*(go_on() for _ in range(CALLERS)))
    return done / (time.perf_counter() - began)


async def _reads(pool: Pool, accounts: Sequence[UUID]) -> Ratio:
    """All balances of an account, as they are answered, and one of them by its key."""
    balances = PostgresBalances(pool)

    async def ours(account: UUID) -> None:
        (owned,) = await balances.of([account])
        assert owned.balances

    async def bare(account: UUID) -> None:
        assert await pool.fetchrow(_BARE_SELECT, account, Currency.COIN.value) is not None

    late: dict[str, list[float]] = {"ours": [], "bare": []}
    for number in range(ROUNDS + 1):
        seconds = SECONDS if number else WARM_SECONDS
        found = {"ours": await _p99_ms(ours, accounts, seconds), "bare": await _p99_ms(bare, accounts, seconds)}
        for name, figure in found.items() if number else ():
            late[name].append(figure)
    how = (
        f"all balances of one of {ACCOUNTS:,} accounts, {READERS} readers in one process, {ROUNDS} x {SECONDS:g} s "
        "alternating, medians; peer: a select by primary key over the same pool"
    )
    return less_is_better("balance_read_p99", late["ours"], late["bare"], "ms", READ_FLOOR, how)


async def _p99_ms(read: Callable[[UUID], Awaitable[None]], accounts: Sequence[UUID], seconds: float) -> float:
    tally = Tally()
    stop = time.perf_counter() + seconds

    async def go_on() -> None:
        while (began := time.perf_counter()) < stop:
            await read(random.choice(accounts))
            tally.latencies.append(time.perf_counter() - began)

    await asyncio.gather(*(go_on() for _ in range(READERS)))
    return tally.p99_ms


def _over_grpc(running: Backend, buyers: Sequence[UUID]) -> list[Ratio]:
    """Coffee bought at the service, against calls that a bare server sends back."""
    with running.ledger_service() as ledger, bare_server() as bare:
        ours, echoed = uvloop.run(_calls_per_second(ledger.address, bare.address, running.signer, buyers))
    how = (
        f"coffee bought, two transfers each, by {CALLERS} callers of {BUYERS:,} accounts, {ROUNDS} x {SECONDS:g} s "
        "alternating, medians; peer: a bare grpc.aio server that sends the same call back"
    )
    return [more_is_better("purchases_over_grpc", ours, echoed, "calls/s", OVER_GRPC_FLOOR, how)]


async def _calls_per_second(
    ledger: str, bare: str, signer: Signer, buyers: Sequence[UUID]
) -> tuple[list[float], list[float]]:
    speed: dict[str, list[float]] = {"ours": [], "bare": []}
    async with connections(ledger) as at_ledger, connections(bare) as at_bare:
        calls = {
            "ours": _buying(at_ledger, [signer.player_token(str(buyer), False, 36_000) for buyer in buyers]),
            "bare": _echoing(at_bare, signer.player_token(str(buyers[0]), False, 36_000)),
        }
        for number in range(ROUNDS + 1):
            for name, call in calls.items():
                figure = await _per_second(call, SECONDS if number else WARM_SECONDS)
                # The first round is to warm up.
                if number:
                    speed[name].append(figure)
    return speed["ours"], speed["bare"]


def _buying(channels: Sequence[grpc.aio.Channel], tokens: Sequence[str]) -> Callable[[], Awaitable[None]]:
    buy = [
        channel.unary_unary(
            _BUY_COFFEE,
            request_serializer=ledger_pb2.BuyCoffeeRequest.SerializeToString,
            response_deserializer=ledger_pb2.BuyCoffeeResponse.FromString,
        )
        for channel in channels
    ]
    turns = itertools.count()
    shown = [(("authorization", f"Bearer {token}"),) for token in tokens]

    async def call() -> None:
        turn = next(turns)
        request = ledger_pb2.BuyCoffeeRequest(request_id=str(uuid4()), coffee=_COFFEE.value, gold=_COFFEE_GOLD)
        bought = await buy[turn % len(buy)](request, metadata=shown[turn % len(shown)], timeout=CALL_SECONDS)
        assert len(bought.changes) == 2

    return call


def _echoing(channels: Sequence[grpc.aio.Channel], token: str) -> Callable[[], Awaitable[None]]:
    echo: list[Callable[..., Awaitable[bytes]]] = [channel.unary_unary(_ECHO) for channel in channels]
    turns = itertools.count()
    request = ledger_pb2.BuyCoffeeRequest(request_id=str(uuid4()), coffee=_COFFEE.value, gold=_COFFEE_GOLD)
    sent, shown = request.SerializeToString(), (("authorization", f"Bearer {token}"),)

    async def call() -> None:
        assert await echo[next(turns) % len(echo)](sent, metadata=shown, timeout=CALL_SECONDS) == sent

    return call


async def _at_the_end(dsn: str) -> list[Ratio]:
    """The rebuild; and whether all is right."""
    async with await open_pool(dsn, "levata bench") as pool:
        rebuilt = await _rebuild(pool)
        wrong = await pool.fetch("select currency, sum(posted) from balance group by currency having sum(posted) <> 0")
        assert not wrong, f"currencies do not sum to zero: {wrong}"
        return [rebuilt]


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
