"""The links of `levata faults` do to a connection what they say, and nothing else."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from chassis.settings import Address
from tools.faults.link import REQUEST_BYTES_MIN, Link
from tools.patience import within

T = TypeVar("T")

REQUEST = b"request " * (REQUEST_BYTES_MIN // 8) + b"\n"
ANSWER = REQUEST.upper()


@pytest.fixture
async def heard() -> list[bytes]:
    """What came to the server."""
    return []


@pytest.fixture
async def link(heard: list[bytes]) -> AsyncIterator[Link]:
    """A link to a server that answers each line with the same in capitals."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                heard.append(line)
                writer.write(line.upper())
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    made = Link("test", Address("127.0.0.1", server.sockets[0].getsockname()[1]))
    await made.start()
    yield made
    await made.stop()
    server.close()


class Connection:
    """A client's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self) -> bytes:
        """Send a request; its answer, or nothing when the connection ends."""
        self._writer.write(REQUEST)
        return await self.read()

    async def read(self) -> bytes:
        """A line, or nothing when the connection ends."""
        try:
            return await soon(self._reader.readline())
        except ConnectionError:
            return b""


async def soon(what: Awaitable[T]) -> T:
    """Fails instead of waiting for ever."""
    return await within(10, what)


@asynccontextmanager
async def connected(link: Link) -> AsyncIterator[Connection]:
    """A connection over the link."""
    reader, writer = await asyncio.open_connection(*link.address)
    try:
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()


async def test_passes_everything_on(link: Link, heard: list[bytes]) -> None:
    async with connected(link) as connection:
        assert [await connection.ask() for _ in range(3)] == [ANSWER] * 3
    assert heard == [REQUEST] * 3


async def test_cut_resets_those_that_are_chosen(link: Link) -> None:
    async with connected(link) as first, connected(link) as second:
        assert await first.ask() == await second.ask() == ANSWER
        choices = iter([True, False])
        link.cut(lambda: next(choices))
        assert sorted([await first.ask(), await second.ask()]) == [b"", ANSWER]
    async with connected(link) as third:
        assert await third.ask() == ANSWER


async def test_closed_link_refuses_until_it_is_mended(link: Link, heard: list[bytes]) -> None:
    async with connected(link) as connection:
        assert await connection.ask() == ANSWER
        link.close()
        assert await connection.ask() == b""
    async with connected(link) as connection:
        assert await connection.ask() == b""
    assert heard == [REQUEST]
    link.mend()
    async with connected(link) as connection:
        assert await connection.ask() == ANSWER


async def test_held_link_says_nothing_and_loses_nothing(link: Link, heard: list[bytes]) -> None:
    async with connected(link) as connection:
        assert await connection.ask() == ANSWER
        link.hold()
        asking = asyncio.create_task(connection.ask())
        await asyncio.sleep(0.1)
        assert not asking.done()
        assert heard == [REQUEST]
        link.mend()
        assert await soon(asking) == ANSWER


async def test_lost_answer(link: Link, heard: list[bytes]) -> None:
    """The request has its effect, and whoever sent it never hears so."""
    async with connected(link) as first, connected(link) as second:
        assert await first.ask() == ANSWER
        link.lose_answers(1)
        assert await first.ask() == b""
        assert heard == [REQUEST] * 2
        # The others, and whoever comes again, are answered.
        assert await second.ask() == ANSWER
    async with connected(link) as third:
        assert await third.ask() == ANSWER


async def test_target_that_is_away(link: Link) -> None:
    nobody = Link("nobody", Address("127.0.0.1", 1))
    await nobody.start()
    async with connected(nobody) as connection:
        assert await connection.read() == b""
    await nobody.stop()


@pytest.mark.parametrize("turns", range(8))
async def test_it_stops_while_somebody_connects(link: Link, turns: int) -> None:
    with socket.create_connection(link.address):
        # Let in or not, served or not: at each turn of the loop it is another one.
        for _ in range(turns):
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await link.stop()
