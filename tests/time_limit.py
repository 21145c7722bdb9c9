"""Asynchronous tests that take too long are cancelled by their own loop."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

# Of the time after which pytest-timeout's alarm goes off.
SHARE: Final = 0.9


def in_time(test: Callable[..., Awaitable[None]], seconds: float) -> Callable[..., Awaitable[None]]:
    """The same test, which fails with TimeoutError where it waits when its time is over."""

    @functools.wraps(test)
    async def limited(*arguments: Any, **named: Any) -> None:
        async with asyncio.timeout(seconds):
            await test(*arguments, **named)

    return limited


def limit(item: pytest.Function) -> None:
    """Limit an asynchronous test's time a little below pytest-timeout's.

    That one's alarm raises its exception in whatever task runs at that moment, a service's for example, and ends that
    one: the test, which still waits for what the task would have done, would go on for ever.
    """
    marker = item.get_closest_marker("timeout")
    seconds = float(marker.args[0] if marker else item.config.getini("timeout"))
    item.obj = in_time(item.obj, SHARE * seconds)
