"""A replica of accounts is killed or stalled while people sign in and refresh: all get one session, and stay in it."""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import pytest

from chassis.auth import KeyFiles, Verifier
from tests.accounts import Phone, World, accounts_settings
from tests.conftest import Database
from tools.up.service import ServiceProcess

PHONES = 24
REFRESHES = 4
CALL_SECONDS = 3.0
PAUSE_SECONDS = 0.1
# Longer than Postgres lets a stopped process keep its locks.
STALL_SECONDS = 7.0


async def answered(phone: Phone, replicas: list[str], call: Callable[[], Awaitable[Any]]) -> None:
    """Make a call, with the same ids, until a replica answers it."""
    while True:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await call()
                return
        except TimeoutError:
            pass
        except grpc.aio.AioRpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                raise
        phone.at = replicas[(replicas.index(phone.at) + 1) % len(replicas)]
        await asyncio.sleep(PAUSE_SECONDS)


async def lives(phone: Phone, replicas: list[str], address: str, code: str) -> None:
    """Sign in as the guest that one is, and refresh again and again."""
    await answered(phone, replicas, partial(phone.verify, address, code, uuid4()))
    for _ in range(REFRESHES):
        await answered(phone, replicas, partial(phone.refresh, uuid4(), phone.got.refresh_token))


@pytest.mark.faults
@pytest.mark.parametrize("deed", ["kill", "stall"])
async def test_signing_in_through_a_replica_that_is_cut_off(
    database: Database,
    keys: KeyFiles,
    tmp_path: Path,
    start_service: Callable[..., ServiceProcess],
    deed: str,
) -> None:
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print(f"SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    chance = random.Random(seed)
    victim, survivor = (start_service("accounts", name=name) for name in ("victim", "survivor"))
    replicas = [str(victim.address), str(survivor.address)]
    settings = accounts_settings(database, keys, tmp_path)
    world = World(settings, database, Verifier.from_file(keys.jwks), replicas[0])
    phones = {f"{number}@example.org": world.phone() for number in range(PHONES)}
    for address, phone in phones.items():
        await phone.guest()
        await phone.request_code(address)
    codes = {address: await world.code(address) for address in phones}
    guests = {phone.got.account.account_id for phone in phones.values()}

    living = [asyncio.create_task(lives(phone, replicas, at, codes[at])) for at, phone in phones.items()]
    await until_rotated(world, chance.randrange(PHONES * REFRESHES))
    if deed == "kill":
        os.killpg(victim.child.pid, signal.SIGKILL)
    else:
        os.killpg(victim.child.pid, signal.SIGSTOP)
        asyncio.get_running_loop().call_later(STALL_SECONDS, os.killpg, victim.child.pid, signal.SIGCONT)
    await asyncio.gather(*living)
    if deed == "stall":
        # By the time it answers again it has done what it still had in hand.
        phone = next(iter(phones.values()))
        phone.at = replicas[0]
        await answered(phone, replicas[:1], partial(phone.refresh, uuid4(), phone.got.refresh_token))

    # Each guest has become the account of its address, in one session, and nobody was taken for a thief.
    accounts = await world.rows("select account_id::text, address from account where not guest")
    assert {account_id for account_id, _ in accounts} == guests
    assert {address for _, address in accounts} == set(phones)
    live = await world.rows("select session_id::text from session where ended_at is null")
    assert {session_id for (session_id,) in live} == {phone.got.session_id for phone in phones.values()}
    for account_id in guests:
        assert await world.kinds(account_id) == ["created", "registered"]


async def until_rotated(world: World, count: int) -> None:
    """Wait until so many sessions have been opened or refreshed, about."""
    before = "select count(*) from session where rotated_by is not null"
    while (await world.rows(before))[0][0] < min(count // REFRESHES, PHONES - 1):
        await asyncio.sleep(0.02)
