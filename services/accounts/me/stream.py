"""One client's stream of Me.Watch.

What waits for a slow client does not queue up: of each part only the newest state is kept, so that a stream never holds
more than one message a part, and a client that comes back from a long silence gets the present, not the past.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from chassis.errors import Refused

HEARTBEAT_SECONDS: Final = 3.0
# Between two looks at the silent streams.
LOOK_SECONDS: Final = 0.1


class Stream:
    """What is to be sent to one client. `put` and `end` are for the feed, `pump` is for the call."""

    __slots__ = ("_ended", "_refused", "_waiting", "_woken", "awaits", "opened_at")

    def __init__(self, opened_at: float, awaits: set[str]) -> None:
        # Loop time; nothing is sent before each of the sources in `awaits` has been asked since then.
        self.opened_at = opened_at
        self.awaits = awaits
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

    def put_into_silence(self, slot: int, message: bytes) -> None:
        """Send this if nothing else is about to be sent: behind the last message nothing may come."""
        if not self._woken.is_set():
            self.put(slot, message)

    def end(self, slot: int, last: bytes) -> None:
        """End the stream in order, with this message."""
        self.put(slot, last, last=True)
        self._ended = True

    def refuse(self, refused: Refused) -> None:
        """End the stream with an error."""
        self._refused = refused
        self._woken.set()

    async def pump(self, write: Callable[[bytes], Awaitable[None]], heartbeats: "Heartbeats") -> None:
        """Write messages until the stream ends."""
        while True:
            with heartbeats.during_silence_of(self):
                await self._woken.wait()
            self._woken.clear()
            if self._refused is not None:
                raise self._refused
            while self._waiting:
                await write(self._waiting.pop(next(iter(self._waiting))))
            if self._ended:
                return


class Heartbeats:
    """What is sent into the silence of streams.

    One look finds all streams that need it. With a timer for each, the process woke up for every single heartbeat, and
    needed twice the time.
    """

    def __init__(self, slot: int, message: bytes) -> None:
        self._slot = slot
        self._message = message
        # Streams to which nothing is to be sent, with the loop time since when; the longest silence comes first.
        self._silent: dict[Stream, float] = {}

    @contextmanager
    def during_silence_of(self, stream: Stream) -> Iterator[None]:
        """From now on nothing is to be sent to this stream, and then something is."""
        self._silent[stream] = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            del self._silent[stream]

    async def run(self) -> None:
        """Look after the streams until this is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            # Before the next look these would be silent for too long.
            for stream in self._silent_since(loop.time() + LOOK_SECONDS - HEARTBEAT_SECONDS):
                stream.put_into_silence(self._slot, self._message)

    def _silent_since(self, time: float) -> Iterator[Stream]:
        for stream, since in self._silent.items():
            if since > time:
                return
            yield stream
