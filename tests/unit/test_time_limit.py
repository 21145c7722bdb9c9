"""Tests that hang are ended, and nothing else is in their place."""

import asyncio
from types import CoroutineType

import pytest

from tests.time_limit import in_time


async def test_a_test_that_takes_too_long_fails_where_it_waits() -> None:
    """Also while other tasks keep the loop busy: they are not what ends."""
    rounds = 0

    async def work() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    working = asyncio.create_task(work())

    async def hangs(name: str, *, forever: asyncio.Event) -> None:
        assert name == "given"
        await forever.wait()

    with pytest.raises(TimeoutError):
        await in_time(hangs, 0.05)("given", forever=asyncio.Event())
    assert not working.done()
    assert rounds > 0
    working.cancel()


async def test_a_test_in_time_ends_as_it_would() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        await in_time(fails, 3600)()


async def test_every_asynchronous_test_is_limited() -> None:
    task = asyncio.current_task()
    assert task is not None
    # This test's own coroutine is called by it.
    coroutine = task.get_coro()
    assert isinstance(coroutine, CoroutineType)
    assert coroutine.cr_code.co_name == "limited"
