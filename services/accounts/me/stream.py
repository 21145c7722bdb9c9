"""One client's stream of Me.Watch.

What waits for a slow client does not queue up: of each part only the newest state is kept, so that a stream never holds
more than one message a part, and a client that comes back from a long silence gets the present, not the past.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from chassis.errors import Refused

HEARTBEAT_SECONDS: Final = 3.0


class Stream:
    """What is to be sent to one client. `put` and `end` are for the feed, `pump` is for the call."""

    __slots__ = ("_ended", "_heartbeat", "_refused", "_waiting", "_woken", "awaits", "opened_at")

    def __init__(self, opened_at: float, awaits: set[str], heartbeat: bytes) -> None:
        # Loop time; nothing is sent before each of the sources in `awaits` has been asked since then.
        self.opened_at = opened_at
        self.awaits = awaits
        self._heartbeat = heartbeat
        self._waiting: dict[int, bytes] = {}
        self._woken = asyncio.Event()
        self._ended = False
        self._refused: Refused | None = None

    def put(self, slot: int, message: bytes, *, last: bool = False) -> None:
        """Send this where the slot's message still waits, or behind all that waits."""
        if last:
            self._waiting.pop(slot, None)
        self._waiting[slot] = message
        self._woken.set()

    def end(self, slot: int, last: bytes) -> None:
        """End the stream in order, with this message."""
        self.put(slot, last, last=True)
        self._ended = True

    def refuse(self, refused: Refused) -> None:
        """End the stream with an error."""
        self._refused = refused
        self._woken.set()

    async def pump(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Write messages until the stream ends."""
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._woken.wait()
            except TimeoutError:
                await write(self._heartbeat)
                continue
            self._woken.clear()
            if self._refused is not None:
                raise self._refused
            while self._waiting:
                await write(self._waiting.pop(next(iter(self._waiting))))
            if self._ended:
                return
