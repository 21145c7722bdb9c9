"""A replica of the ledger is killed or stalled while people buy, take back and are given: each happens once."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import grpc
import pytest
from google.protobuf.message import Message
from levata.ledger.v1 import ledger_pb2, operations_pb2

from chassis.auth import KeyFiles, Signer
from chassis.database import Pool, open_pool
from chassis.errors import reason_of
from chassis.rpc import channel, stub
from tests.conftest import NOBODY, Database
from tests.ledger import COIN, DOUBLE, GOLD, catalogue_with, give, owns, play, sums
from tools.up.service import ServiceProcess

LEDGER = ledger_pb2.DESCRIPTOR.services_by_name["Ledger"]
OPERATIONS = operations_pb2.DESCRIPTOR.services_by_name["Operations"]

ANY_DAY = "{since: 0001-01-01, games_a_day: 3, vip_days_only: false}"
PEOPLE = 16
PURCHASES = 6
CALL_SECONDS = 3.0
PAUSE_SECONDS = 0.1
# Longer than Postgres lets a stopped process keep its locks.
STALL_SECONDS = 7.0


async def answered(replicas: list[Any], method: str, request: Message) -> Any:
    """The answer to a call, which is made, with the same ids, until a replica answers it."""
    for attempt in range(1_000):
        try:
            return await getattr(replicas[attempt % len(replicas)], method)(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            # A rebuild that was given up at the deadline may still be ending.
            is_ending = reason_of(error) == "REBUILD_RUNNING"
            if not is_ending and error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise
        await asyncio.sleep(PAUSE_SECONDS)
    raise AssertionError(f"{method} was never answered")


@pytest.mark.faults
@pytest.mark.parametrize("deed", ["kill", "stall"])
async def test_money_through_a_replica_that_is_cut_off(
    database: Database,
    keys: KeyFiles,
    tmp_path: Path,
    start_service: Callable[..., ServiceProcess],
    deed: str,
) -> None:
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print(f"SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    chance = random.Random(seed)
    settings = {"LEVATA_CATALOGUE_FILE": str(catalogue_with(tmp_path, ANY_DAY))}
    peers = {"table": [NOBODY], "accounts": [NOBODY], "league": [NOBODY]}
    victim, survivor = (
        start_service("ledger", name=name, peers=peers, settings=settings) for name in ("victim", "survivor")
    )
    signer = Signer.from_file(keys.signing_key)
    people = [uuid4() for _ in range(PEOPLE)]
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(await open_pool(database.dsn("ledger"), "test"))

        async def both(service: Any, token: str) -> list[Any]:
            """The calls of a service with a token, at both replicas."""
            return [
                stub(await stack.enter_async_context(channel(str(replica.address), token)), service)
                for replica in (victim, survivor)
            ]

        async def lives(account: UUID, game_id: UUID) -> None:
            """Buys, and takes an entry back; an operator is friendly meanwhile."""
            ledger = await both(LEDGER, signer.player_token(str(account), False, 3600))
            calls = [answered(ledger, "BuyCoffee", purchase()) for _ in range(PURCHASES)]
            calls.append(answered(ledger, "ClaimRefund", refund(game_id)))
            calls.append(answered(operators, "Grant", present(account)))
            chance.shuffle(calls)
            for call in calls:
                await call

        operators = await both(OPERATIONS, signer.operator_token("olga", 3600))
        games = []
        for account in people:
            await give(pool, account, 200)
            await give(pool, account, 100, GOLD)
            games.append(await play(pool, account, at_us=time.time_ns() // 1000))
        living = [asyncio.create_task(lives(*each)) for each in zip(people, games, strict=True)]
        await until_bought(pool, chance.randrange(PEOPLE * PURCHASES // 2))
        if deed == "kill":
            os.killpg(victim.child.pid, signal.SIGKILL)
        else:
            os.killpg(victim.child.pid, signal.SIGSTOP)
            asyncio.get_running_loop().call_later(STALL_SECONDS, os.killpg, victim.child.pid, signal.SIGCONT)
        await asyncio.gather(*living)
        if deed == "stall":
            # By the time it answers again it has done what it still had in hand.
            await answered(operators[:1], "Rebuild", operations_pb2.RebuildRequest(dry_run=True))

        # Five of the gold are the day's first game's.
        expected = {COIN: 200, GOLD: 100 + 5 - 8 * PURCHASES + 7, DOUBLE: 3 * PURCHASES}
        for account in people:
            assert await owns(pool, account) == expected
        rebuilt = await answered(operators[1:], "Rebuild", operations_pb2.RebuildRequest(dry_run=True))
        assert (rebuilt.differences, await sums(pool)) == (0, {0})


def purchase() -> ledger_pb2.BuyCoffeeRequest:
    return ledger_pb2.BuyCoffeeRequest(request_id=str(uuid4()), coffee="coffee_2", gold=8)


def refund(game_id: UUID) -> ledger_pb2.ClaimRefundRequest:
    return ledger_pb2.ClaimRefundRequest(request_id=str(uuid4()), game_id=str(game_id))


def present(account: UUID) -> operations_pb2.GrantRequest:
    gifts = [operations_pb2.Gift(currency="gold", amount=7)]
    return operations_pb2.GrantRequest(
        request_id=str(uuid4()), account_id=str(account), gifts=gifts, reason="A present."
    )


async def until_bought(pool: Pool, count: int) -> None:
    """Wait until so many purchases are in the ledger."""
    while await pool.fetchval("select count(*) from entry where cause_kind = 'purchase'") < count:
        await asyncio.sleep(0.02)
