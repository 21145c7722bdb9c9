"""Chat, spectators and delay with the game's host elsewhere, and with a host that changes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

import grpc
import pytest
from levata.table.v1 import games_pb2, table_pb2

from chassis.auth import KeyFiles
from chassis.log import LogReader
from rules.chat import LINES_MAX
from tests.conftest import Database
from tests.table_client import (
    CALL_SECONDS,
    SEAT_ACCOUNTS,
    STRANGER,
    GameLog,
    Refusal,
    Script,
    Service,
    create_game,
    log_reader,
    refused,
    running,
    running_replicas,
)
from tools.embedded.nats import EmbeddedNats

PATIENT = games_pb2.ClockOptions(bid_seconds=3600, card_seconds=3600)
DELAY_SECONDS = 3


@pytest.fixture
async def reader(database: Database) -> AsyncIterator[LogReader]:
    """The services' log."""
    async with log_reader(database) as opened:
        yield opened


def watch(service: Service, account: str, game_id: str, after_version: int = 0) -> Any:
    """A stream."""
    return service.table(account).Watch(table_pb2.WatchRequest(game_id=game_id, after_version=after_version))


async def say(service: Service, account: str, game_id: str, text: str) -> int:
    """A line."""
    request = table_pb2.SayRequest(game_id=game_id, request_id=str(uuid4()), text=text)
    return int((await service.table(account).Say(request)).line_no)


async def read_kind(stream: Any, kind: str) -> Any:
    """The next message of a kind."""
    async with asyncio.timeout(CALL_SECONDS):
        while (message := await stream.read()) is not grpc.aio.EOF:
            if message.WhichOneof("kind") == kind:
                return getattr(message, kind)
    raise AssertionError(f"the stream ended before a {kind}")


async def test_people_on_two_replicas_are_at_one_table(database: Database, keys: KeyFiles, nats: EmbeddedNats) -> None:
    async with running_replicas(database, keys, nats) as (host, other):
        game_id = await create_game(host, people=4, clock=PATIENT)
        ann, bob, cat, dan = SEAT_ACCOUNTS[:4]
        streams = [watch(host, ann, game_id), watch(other, bob, game_id)]
        spectators = [watch(host, STRANGER, game_id), watch(other, STRANGER, game_id)]
        for stream in (*streams, *spectators):
            await read_kind(stream, "snapshot")
        for stream in streams:
            # One person with two devices.
            assert (await read_kind(stream, "watching")).spectators == 1
        assert await say(other, ann, game_id, "from the other side") == 1
        assert await say(host, STRANGER, game_id, "from outside") == 1
        for stream in streams:
            assert (await read_kind(stream, "chat")).text == "from the other side"
        for stream in spectators:
            assert (await read_kind(stream, "chat")).text == "from outside"
        # The limit counts what is said at any replica.
        for n in range(LINES_MAX):
            await say((host, other)[n % 2], cat, game_id, "x")
        for service in (host, other):
            request = table_pb2.SayRequest(game_id=game_id, request_id=str(uuid4()), text="x")
            too_many = Refusal("TOO_MANY_LINES", grpc.StatusCode.RESOURCE_EXHAUSTED)
            assert await refused(service.table(cat).Say(request)) == too_many
        assert await say(other, dan, game_id, "x") == LINES_MAX + 2
        for stream in (*streams, *spectators):
            stream.cancel()


async def test_a_delay_survives_a_change_of_host(
    database: Database, keys: KeyFiles, nats: EmbeddedNats, reader: LogReader
) -> None:
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(running(database, keys, nats))
        async with AsyncExitStack() as first:
            dying = await first.enter_async_context(running(database, keys, nats))
            game_id = await create_game(dying, people=4, clock=PATIENT, spectator_delay_seconds=DELAY_SECONDS)
            script = Script(dying, GameLog(reader, game_id))
            await script.log.refresh()
            late = watch(host, STRANGER, game_id)
            assert (await late.read()).heartbeat.version == 0
            for _ in range(8):
                await script.act()
            old_version = script.log.version
        # The host is gone before its spectators may have seen anything; this one takes the game.
        script.service = host
        async with asyncio.timeout(CALL_SECONDS):
            while (await script.log.refresh()).version == old_version:
                await asyncio.sleep(0.1)
        for _ in range(4):
            await script.act()
        decided = {version: script.log.commit(version).decided_at_us for version in range(1, script.log.version + 1)}
        assert (await read_kind(late, "snapshot")).version == 1
        for version in range(2, script.log.version + 1):
            commit = await read_kind(late, "commit")
            assert commit.version == version
            assert commit.decided_at_ms == decided[version] // 1000
        late.cancel()
