"""Questions that are put together: what is asked while answers are under way goes into the next question."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from chassis.tasks import Background

Q = TypeVar("Q")
A = TypeVar("A")

QUESTIONS_MAX: Final = 500
# Of questions about whole tables, which make messages of some hundred bytes each: a message has 64 KB at most.
TABLES_MAX: Final = 50
# A call about whole tables takes as long as the slowest of them: others need not wait for that.
CALLS_MAX: Final = 4
# Where several have asked at once, more gather while the next question waits for so long; who asks alone never waits.
BREATH_SECONDS: Final = 0.01


class Batches(Generic[Q, A]):
    """Answers many questions with one call.

    A call that fails fails for all of its questions; an answer that is an error fails for its own.
    """

    def __init__(
        self,
        name: str,
        answer: Callable[[Sequence[Q]], Awaitable[Sequence[A | Exception]]],
        at_once_max: int = QUESTIONS_MAX,
        calls_max: int = 1,
    ) -> None:
        """Up to `at_once_max` questions go into a call, and up to `calls_max` calls are under way at once; those are in
        no order."""
        self._name = name
        self._answer = answer
        self._at_once_max = at_once_max
        self._calls_max = calls_max
        self._calls = 0
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._work = Background()

    async def ask(self, question: Q) -> A:
        """The answer to one question."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._calls < self._calls_max:
            self._calls += 1
            self._work.spawn(self._name, self._answer_all())
        return await future

    async def stop(self) -> None:
        """Answer no more."""
        await self._work.stop()
        for _, future in self._waiting:
            future.cancel()

    async def _answer_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._at_once_max], self._waiting[self._at_once_max :]
                await self._answer_batch(batch)
                if len(batch) > 1 and len(self._waiting) < self._at_once_max:
                    await asyncio.sleep(BREATH_SECONDS)
        finally:
            self._calls -= 1

    async def _answer_batch(self, batch: list[tuple[Q, asyncio.Future[A]]]) -> None:
        try:
            answers = await self._answer([question for question, _ in batch])
            answered = list(zip(batch, answers, strict=True))
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        for (_, future), answer in answered:
            # Who asked may have left.
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
