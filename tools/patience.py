"""Calls and streams that outlive lost connections: for as long as a whole server may take to be restarted."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

import grpc

from chassis.errors import reason_of

T = TypeVar("T")

# The server is heard every three seconds at least; after so much silence the connection is taken for lost.
SILENCE_SECONDS: Final = 10.0
# With the first message that comes so long after the last time one says that one is there; heartbeats are messages too.
HERE_SECONDS: Final = 3.0
# Two minutes in all.
ATTEMPTS_MAX: Final = 60
PAUSE_SECONDS_MIN: Final = 0.1
PAUSE_SECONDS_MAX: Final = 2.0

# Refusals that say: the same again, a little later.
AGAIN: Final = frozenset({"TEMPORARILY_UNAVAILABLE", "GAME_BUSY", "RATE_LIMITED", "TOO_MANY_CALLS"})
# What the network and the edge report, without a reason of ours, when a server is away.
_NETWORK: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)


class Lost(Exception):
    """The server was not reached for too long."""


class Again(Exception):
    """The stream is to be opened again; the message is the reason."""


class Disconnected(NamedTuple):
    """The stream broke; it is opened again."""

    reason: str


class Reconnected(NamedTuple):
    """The server is heard again."""


class Following(ABC, Generic[T]):
    """A server's stream, followed over as many connections as it takes."""

    async def changes(self) -> AsyncGenerator[T | Disconnected | Reconnected, None]:
        """All that is heard until it is over.

        A refusal that no repetition would mend is raised as the `grpc.aio.AioRpcError` it is; Lost, when the server is
        away for too long.
        """
        failures = 0
        while not self.over:
            stream = self._start()
            said_at = asyncio.get_running_loop().time()
            try:
                await self._open(stream)
                while (response := await self._next(stream)) is not grpc.aio.EOF:
                    if failures:
                        failures = 0
                        yield Reconnected()
                    change = self._take(response)
                    await self._answer()
                    if change is not None:
                        yield change
                    now = asyncio.get_running_loop().time()
                    if now - said_at >= HERE_SECONDS:
                        await self._say_here()
                        said_at = now
                reason = "the server ended the stream"
            except grpc.aio.AioRpcError as error:
                reason = self._why_again(error)
            except Again as again:
                reason = str(again)
            except TimeoutError:
                reason = "nothing was heard"
            except asyncio.InvalidStateError:
                reason = "the stream broke"
            finally:
                stream.cancel()
            if not self.over:
                yield Disconnected(reason)
                failures += 1
                await _pause(failures, reason)

    async def _next(self, stream: Any) -> Any:
        """The next message. Not every stream ends when there is nothing more to be heard."""
        return grpc.aio.EOF if self.over else await within(SILENCE_SECONDS, stream.read())

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether nothing will happen any more."""

    @abstractmethod
    def _start(self) -> Any:
        """Call for the stream."""

    async def _open(self, stream: Any) -> None:
        """Say what must be said first."""

    @abstractmethod
    def _take(self, response: Any) -> T | None:
        """What there is to tell of a message; Again, when only another stream helps."""

    async def _answer(self) -> None:
        """Do what the message asks for, before it is told."""

    async def _say_here(self) -> None:
        """Tell the server that one is there, where that hangs on the stream.

        Never on the stream itself: if the server has just ended it, what one writes fails with INTERNAL, and all that
        was not read yet is lost (grpc.aio, as of 1.85: grpc/grpc#36066).
        """

    def _why_again(self, error: grpc.aio.AioRpcError) -> str:
        """Why another stream may mend this error, which is raised if none would."""
        return why_again(error)


async def within(seconds: float, what: Awaitable[T]) -> T:
    """The result of `what`; TimeoutError if it takes longer.

    `asyncio.wait_for` of Python 3.11 forgets that it is cancelled when that happens in the moment of the result
    (python/cpython#86296).
    """
    async with asyncio.timeout(seconds):
        return await what


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call that may be repeated, until it is answered."""
    failures = 0
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            failures += 1
            await _pause(failures, why_again(error))


def why_again(error: grpc.aio.AioRpcError) -> str:
    """Why the same call may have an answer a little later; raises the error itself if it will not."""
    reason = reason_of(error)
    if reason is None and error.code() in _NETWORK:
        return error.details() or error.code().name
    if reason in AGAIN:
        return reason
    raise error


async def _pause(failures: int, reason: str) -> None:
    if failures >= ATTEMPTS_MAX:
        raise Lost(reason)
    await asyncio.sleep(min(PAUSE_SECONDS_MIN * 2 ** min(failures - 1, 10), PAUSE_SECONDS_MAX))
