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
LONG_DELAY_SECONDS = 300


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


async def closed(stream: Any) -> str:
    """Why the server ended a stream."""
    return str((await read_kind(stream, "closing")).reason)


async def test_who_leaves_a_seat_loses_the_players_chat_and_the_present(
    database: Database, keys: KeyFiles, nats: EmbeddedNats
) -> None:
    async with running_replicas(database, keys, nats) as (host, other):
        game_id = await create_game(host, people=4, clock=PATIENT, spectator_delay_seconds=LONG_DELAY_SECONDS)
        ann, bob = SEAT_ACCOUNTS[:2]
        devices = [watch(host, ann, game_id), watch(other, ann, game_id)]
        listener = watch(other, bob, game_id)
        for stream in (*devices, listener):
            await read_kind(stream, "snapshot")
        await say(other, bob, game_id, "between us")
        for stream in devices:
            assert (await read_kind(stream, "chat")).text == "between us"
        left = await host.table(ann).Leave(table_pb2.LeaveRequest(game_id=game_id, request_id=str(uuid4())))
        assert [await closed(stream) for stream in devices] == ["SEAT_CHANGED"] * 2
        for service in (host, other):
            # What she knows already helps her to nothing more.
            resumed = watch(service, ann, game_id, left.version)
            future = Refusal("FUTURE_VERSION", grpc.StatusCode.OUT_OF_RANGE)
            assert await refused(resumed) == future
        spectator = watch(other, ann, game_id)
        assert (await spectator.read()).heartbeat == table_pb2.Heartbeat(version=0)
        await say(host, bob, game_id, "about her")
        assert await say(host, ann, game_id, "to the spectators") == 1
        # The first line that she is sent is her own.
        assert (await read_kind(spectator, "chat")).text == "to the spectators"
        # And that one the players are not.
        await say(host, bob, game_id, "the end")
        heard = [(await read_kind(listener, "chat")).text for _ in range(3)]
        assert heard == ["between us", "about her", "the end"]
        for stream in (spectator, listener):
            stream.cancel()


async def test_who_takes_a_seat_is_no_spectator_on_any_device(
    database: Database, keys: KeyFiles, nats: EmbeddedNats
) -> None:
    async with running_replicas(database, keys, nats) as (host, other):
        game_id = await create_game(host, people=4, clock=PATIENT, spectator_delay_seconds=LONG_DELAY_SECONDS)
        ann, bob = SEAT_ACCOUNTS[:2]
        player = watch(host, bob, game_id)
        late = [watch(service, STRANGER, game_id) for service in (host, other)]
        for stream in late:
            assert (await stream.read()).heartbeat == table_pb2.Heartbeat(version=0)
        assert (await read_kind(player, "watching")).spectators == 1
        await host.table(ann).Leave(table_pb2.LeaveRequest(game_id=game_id, request_id=str(uuid4())))
        request = table_pb2.TakeSeatRequest(game_id=game_id, seat=0, request_id=str(uuid4()))
        taken = await other.table(STRANGER).TakeSeat(request)
        assert [await closed(stream) for stream in late] == ["SEAT_CHANGED"] * 2
        assert (await read_kind(player, "watching")).spectators == 0
        own = watch(other, STRANGER, game_id)
        snapshot = await read_kind(own, "snapshot")
        assert snapshot.version == taken.version
        assert snapshot.view.seat == 0
        assert len(snapshot.view.hand) == snapshot.view.hand_counts[0] > 0
        for stream in (own, player):
            stream.cancel()
