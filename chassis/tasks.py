"""Background tasks: none is forgotten, and each can be ended for sure."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, TypeVar

import structlog

log = structlog.get_logger(__name__)

T = TypeVar("T")

CANCEL_AGAIN_SECONDS: Final = 0.5


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task until it has ended.

    Once is not enough: until Python 3.12 `asyncio.wait_for`, on which nats-py stands, may lose a cancellation that
    comes at the moment of its answer (seen: a consumer that went on for ever after it was stopped).
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=CANCEL_AGAIN_SECONDS)


class Background:
    """Tasks beside everything else, kept until they end: asyncio itself holds them only weakly."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`; a failure is logged, and cancels nothing."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, name))

    async def to_its_end(self, name: str, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which goes on to its end when its caller is cancelled."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def stop(self) -> None:
        """Cancel what still runs, and wait for it; also for what that begins meanwhile."""
        while self._tasks:
            await asyncio.gather(*(end(task) for task in self._tasks))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("background work failed", work=name, exc_info=task.exception())
