"""Readings that many ask for at the same time, done together. Knows nothing of what is read."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Generic, TypeVar

KEYS_AT_ONCE: Final = 256

K = TypeVar("K")
V = TypeVar("V")


class Gathered(Generic[K, V]):
    """One reading at a time. Who asks while one is under way is answered by the next, never by what was read before.

    There is no timer, and a lone one goes at once.
    """

    def __init__(self, read: Callable[[list[K]], Awaitable[Mapping[K, V]]]) -> None:
        """`read` is called with different keys, and answers all of them; what it raises goes to all who asked."""
        self._read = read
        self._asked: list[tuple[K, asyncio.Future[V]]] = []
        self._reading: asyncio.Task[None] | None = None

    async def of(self, key: K) -> V:
        """What is read for a key."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[V] = loop.create_future()
        self._asked.append((key, answer))
        if self._reading is None:
            self._reading = loop.create_task(self._read_all(), name="gathered reading")
        return await answer

    async def _read_all(self) -> None:
        try:
            while self._asked:
                asked, self._asked = self._asked[:KEYS_AT_ONCE], self._asked[KEYS_AT_ONCE:]
                await self._answer(asked)
        finally:
            self._reading = None

    async def _answer(self, asked: list[tuple[K, "asyncio.Future[V]"]]) -> None:
        try:
            found = await self._read(list({key: None for key, _ in asked}))
            for key, answer in asked:
                # Who asked may have left.
                if not answer.done():
                    answer.set_result(found[key])
        except Exception as error:
            for _, answer in asked:
                if not answer.done():
                    answer.set_exception(error)
        finally:
            # Only where the reading itself was cancelled.
            for _, answer in asked:
                answer.cancel()
