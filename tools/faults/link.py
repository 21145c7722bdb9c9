"""A way from one process to another over TCP, on which things go wrong when they are told to.

What is sent arrives in order or not at all: a link cuts, stops, slows and forgets, as networks do, and never garbles.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from chassis.settings import Address
from tools.embedded.process import free_port

CHUNK_BYTES: Final = 64 * 1024
# What is shorter asks for nothing: acknowledgements and pings of the protocols above.
REQUEST_BYTES_MIN: Final = 40
# From a request that goes through to the cut: time enough for its effect, and for an answer that nobody hears.
ANSWER_LOST_SECONDS: Final = 0.3


class Link:
    """Listens on `port` and passes everything on to `target`, which may be away."""

    def __init__(self, name: str, target: Address) -> None:
        self.name = name
        self.address = Address("127.0.0.1", free_port())
        self.target = target
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._open = True
        self._delay_seconds = 0.0
        self._flows = asyncio.Event()
        self._flows.set()
        # Of the next requests; it counts down.
        self.answers_to_lose = 0

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._serve, *self.address)

    async def stop(self) -> None:
        """Listen no more and cut all."""
        if self._server is not None:
            self._server.close()
        # Whoever was let in just now and is served only after this is reset, too.
        self.close()
        while self._connections:
            await asyncio.sleep(0)

    def url(self, direct: str) -> str:
        """The target's URL, with the way over this link."""
        parts = urlsplit(direct)
        user, _, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user}@{self.address}"))

    # What can go wrong

    def cut(self, chosen: Callable[[], bool] = lambda: True) -> None:
        """Reset the connections that are chosen; new ones may be made at once."""
        for connection in list(self._connections):
            if chosen():
                connection.cut()

    def close(self) -> None:
        """Reset all connections and every new one."""
        self._open = False
        self.cut()

    def hold(self) -> None:
        """Let nothing through, and say nothing about it."""
        self._flows.clear()

    def slow_down(self, delay_seconds: float) -> None:
        """Let every piece wait so long, in both directions."""
        self._delay_seconds = delay_seconds

    def lose_answers(self, count: int) -> None:
        """Let the next `count` requests through, swallow what is answered, and cut their connections."""
        self.answers_to_lose = count

    def mend(self) -> None:
        """All is well from now on."""
        self._open = True
        self._flows.set()
        self._delay_seconds = 0.0
        self.answers_to_lose = 0

    # What goes through

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open:
            writer.transport.abort()
            return
        connection = _Connection(self, reader, writer)
        self._connections.add(connection)
        try:
            await connection.run(self.target)
        finally:
            self._connections.discard(connection)

    async def let_pass(self) -> None:
        """Returns when a piece that has come may go on."""
        await self._flows.wait()
        if self._delay_seconds:
            await asyncio.sleep(self._delay_seconds)

    def takes_answer(self) -> bool:
        """Whether the answer to a request that goes through now is lost."""
        if not self.answers_to_lose:
            return False
        self.answers_to_lose -= 1
        return True


class _Connection:
    """One connection through a link."""

    def __init__(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._link = link
        self._reader = reader
        self._writers = [writer]
        self._pumps: asyncio.Task[None] | None = None
        self._answers_are_lost = False

    async def run(self, target: Address) -> None:
        """Pass on until one side ends or the link cuts."""
        self._pumps = asyncio.create_task(self._pass_on(target))
        with suppress(asyncio.CancelledError, OSError):
            await self._pumps
        for writer in self._writers:
            writer.transport.abort()

    def cut(self) -> None:
        """Reset both sides."""
        if self._pumps is not None:
            self._pumps.cancel()

    async def _pass_on(self, target: Address) -> None:
        reader, writer = await asyncio.open_connection(*target)
        self._writers.append(writer)
        pumps = (
            asyncio.create_task(self._pass_requests(writer)),
            asyncio.create_task(self._pass_answers(reader, self._writers[0])),
        )
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pass_requests(self, to: asyncio.StreamWriter) -> None:
        while chunk := await self._reader.read(CHUNK_BYTES):
            await self._link.let_pass()
            if not self._answers_are_lost and len(chunk) >= REQUEST_BYTES_MIN and self._link.takes_answer():
                self._answers_are_lost = True
                asyncio.get_running_loop().call_later(ANSWER_LOST_SECONDS, self.cut)
            to.write(chunk)
            await to.drain()

    async def _pass_answers(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            await self._link.let_pass()
            if not self._answers_are_lost:
                to.write(chunk)
                await to.drain()
