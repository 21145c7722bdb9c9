"""A wait that has an end, and that can be cancelled at any moment."""

import asyncio

import pytest

from tools.patience import within


async def test_what_comes_in_time_is_the_result() -> None:
    assert await within(5, asyncio.sleep(0, "here")) == "here"


async def test_what_takes_longer_is_ended() -> None:
    late = asyncio.Event()
    waiting = asyncio.create_task(late.wait())
    with pytest.raises(TimeoutError):
        await within(0.01, waiting)
    assert waiting.cancelled()


async def test_a_cancellation_in_the_moment_of_the_result_is_not_forgotten() -> None:
    result: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(within(5, result))
    await asyncio.sleep(0)
    result.set_result("here")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
