"""One viewer's stream: a bounded queue between the game, which never waits, and the network, which may."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from services.table.domain import Viewer

# A viewer with so many unsent messages is cut off and may resume; a deal of six is some 60 messages.
QUEUE_MAX: Final = 256


class Subscription:
    """Messages for one stream, in order. `push` is for the game, `pump` for the stream's handler."""

    __slots__ = ("_cut_off", "_done", "_messages", "_waiter", "pushed_at", "version", "viewer")

    def __init__(self, viewer: Viewer, version: int, cut_off: bytes) -> None:
        """`cut_off` is the last message to a viewer that lags too far."""
        self.viewer = viewer
        self._cut_off = cut_off
        # The version that the viewer will have seen once the queue is sent.
        self.version = version
        # Loop time of the last push; heartbeats fill silences.
        self.pushed_at = 0.0
        self._messages: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._done = False

    def push(self, message: bytes, now: float) -> None:
        """Send this after what waits already; a viewer who lags too far is cut off."""
        if self._done:
            return
        if len(self._messages) >= QUEUE_MAX:
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

    async def pump(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Write messages until the stream ends; leaves with the writer's error when the client is gone."""
        messages = self._messages
        while True:
            while messages:
                await write(messages.popleft())
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
