"""Heartbeats: into silence, and into nothing else."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from chassis.tasks import end
from services.accounts.me import stream
from services.accounts.me.stream import Heartbeats, Stream

PATIENCE_SECONDS = 60
BEAT, PART, LAST = 3, 1, 2


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


class Client:
    """What came; it reads nothing while it is stopped."""

    def __init__(self, heartbeats: Heartbeats) -> None:
        self.came: list[bytes] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.stream = Stream(0.0, set())
        self.pumping = asyncio.create_task(self.stream.pump(self._write, heartbeats))

    async def _write(self, message: bytes) -> None:
        await self.reads.wait()
        self.came.append(message)


@pytest.fixture
async def heartbeats(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Heartbeats]:
    monkeypatch.setattr(stream, "LOOK_SECONDS", 0.001)
    heartbeats = Heartbeats(BEAT, b"beat")
    running = asyncio.create_task(heartbeats.run())
    yield heartbeats
    await end(running)


async def test_silence_is_filled_for_everybody_again_and_again(
    heartbeats: Heartbeats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.002)
    clients = [Client(heartbeats) for _ in range(50)]
    await until(lambda: all(client.came[:3] == [b"beat"] * 3 for client in clients))
    for client in clients:
        client.stream.end(LAST, b"last")
    await asyncio.gather(*(client.pumping for client in clients))
    assert all(client.came[-1] == b"last" for client in clients)
    assert not heartbeats._silent


async def test_who_is_sent_something_or_was_a_moment_ago_gets_none(
    heartbeats: Heartbeats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 3600)
    slow, busy, silent = clients = [Client(heartbeats) for _ in range(3)]
    await until(lambda: list(heartbeats._silent) == [client.stream for client in clients])
    slow.reads.clear()
    slow.stream.put(PART, b"part")
    busy.stream.put(PART, b"part")
    # The longest silence comes first.
    await until(lambda: list(heartbeats._silent) == [silent.stream, busy.stream])
    since = heartbeats._silent[silent.stream]
    assert list(heartbeats._silent_since(since)) == [silent.stream]
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.002)
    await until(lambda: silent.came[:3] == busy.came[1:4] == [b"beat"] * 3)
    assert (slow.came, busy.came[0]) == ([], b"part")
    slow.reads.set()
    await until(lambda: slow.came[:2] == [b"part", b"beat"])
    for client in clients:
        await end(client.pumping)
    assert not heartbeats._silent


async def test_behind_the_last_message_there_is_no_heartbeat() -> None:
    client = Client(Heartbeats(BEAT, b"beat"))
    await asyncio.sleep(0)
    client.stream.end(LAST, b"last")
    client.stream.put_into_silence(BEAT, b"beat")
    await client.pumping
    assert client.came == [b"last"]
