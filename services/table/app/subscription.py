"""One viewer's stream: a bounded queue between the game, which never waits, and the network, which may."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import UUID

from services.table.domain import Table, Viewer

# A viewer with so many unsent messages is cut off and may resume; a deal of six is some 60 messages.
QUEUE_MAX: Final = 256
BYTES_MAX: Final = 256 * 1024
# A client that is told the end of its stream, and does not read it, is not waited for longer than this.
LINGER_SECONDS: Final = 10.0
# Commands of one stream that wait for their commits.
EXPECTED_MAX: Final = 64


class Subscription:
    """Messages for one stream, in order. `push` is for the game, `pump` for the stream's handler."""

    __slots__ = (
        "_abandoned",
        "_bytes",
        "_cut_off",
        "_done",
        "_messages",
        "_pump",
        "_waiter",
        "account",
        "expected",
        "pushed_at",
        "version",
        "viewer",
    )

    def __init__(self, viewer: Viewer, account: str, version: int, cut_off: bytes) -> None:
        """`cut_off` is the last message to a viewer that lags too far."""
        self.viewer = viewer
        # Whose stream it is.
        self.account = account
        self._cut_off = cut_off
        # The version that the viewer will have seen once the queue is sent.
        self.version = version
        # Commands that came on this stream, by their keys in the log: their commits are to carry their ids.
        self.expected: dict[UUID, str] = {}
        # Loop time of the last push; heartbeats fill silences.
        self.pushed_at = 0.0
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._pump: asyncio.Task[Any] | None = None
        self._done = False
        self._abandoned = False

    def is_still_of(self, table: Table) -> bool:
        """Whether the account has this view of the table yet: not once it has left the seat, or taken one."""
        if self.viewer >= 0:
            return table.occupants[self.viewer].account == self.account
        return table.seat_of(self.account) is None

    def expect(self, key: UUID, command_id: str) -> bool:
        """The commit of this command is to carry its id on this stream; False when too many are awaited."""
        if len(self.expected) >= EXPECTED_MAX:
            return False
        self.expected[key] = command_id
        return True

    def is_answered(self, key: UUID, version: int) -> bool:
        """Whether the commit of this version has brought its command's id, or will: it need not be told otherwise."""
        if version > self.version:
            return True
        return self.expected.pop(key, None) is None

    def push(self, message: bytes, now: float) -> None:
        """Send this after what waits already; a viewer who lags too far is cut off."""
        if self._done:
            return
        self._bytes += len(message)
        if len(self._messages) >= QUEUE_MAX or self._bytes > BYTES_MAX:
            self._messages.clear()
            self.end(self._cut_off)
            return
        self.pushed_at = now
        self._messages.append(message)
        self._wake()

    def end(self, last: bytes | None = None) -> None:
        """End the stream once what waits is sent."""
        if self._done:
            return
        if last is not None:
            self._messages.append(last)
        self._done = True
        self._wake()
        if self._pump is not None:
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._abandon)

    def _abandon(self) -> None:
        if self._pump is not None:
            self._abandoned = True
            self._pump.cancel()

    async def pump(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Write messages until the stream ends; leaves with the writer's error when the client is gone."""
        self._pump = asyncio.current_task()
        try:
            await self._write_all(write)
        except asyncio.CancelledError:
            if not self._abandoned:
                raise
            assert self._pump is not None
            self._pump.uncancel()
        finally:
            self._pump = None

    async def _write_all(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        messages = self._messages
        while True:
            while messages:
                message = messages.popleft()
                await write(message)
                self._bytes -= len(message)
            if self._done:
                return
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
