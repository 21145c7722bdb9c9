"""Chat and spectators through the API: who may say what where, and what streams bring besides commits."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

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
    PlayStream,
    Refusal,
    Script,
    Service,
    create_game,
    log_reader,
    refused,
    running,
)

PATIENT = games_pb2.ClockOptions(bid_seconds=3600, card_seconds=3600)
BAD, LATER, EXHAUSTED = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)


@pytest.fixture
async def service(database: Database, keys: KeyFiles) -> AsyncIterator[Service]:
    """A table service."""
    async with running(database, keys) as started:
        yield started


@pytest.fixture
async def reader(database: Database) -> AsyncIterator[LogReader]:
    """The service's log."""
    async with log_reader(database) as opened:
        yield opened


def say(service: Service, account: str, game_id: str, text: str, request_id: str | None = None) -> Any:
    """A line."""
    request = table_pb2.SayRequest(game_id=game_id, request_id=request_id or str(uuid4()), text=text)
    return service.table(account).Say(request)


def mute(service: Service, account: str, game_id: str, other: str, muted: bool = True) -> Any:
    """No lines of somebody's."""
    return service.table(account).Mute(table_pb2.MuteRequest(game_id=game_id, account_id=other, muted=muted))


async def next_line(stream: Any) -> table_pb2.ChatLine:
    """The next line of chat on a stream."""
    async with asyncio.timeout(CALL_SECONDS):
        while (message := await stream.read()) is not None:
            if message.HasField("chat"):
                line: table_pb2.ChatLine = message.chat
                return line
    raise AssertionError("the stream has ended")


def watch(service: Service, account: str, game_id: str) -> Any:
    """A stream from the beginning."""
    return service.table(account).Watch(table_pb2.WatchRequest(game_id=game_id))


async def test_players_and_spectators_talk_apart(service: Service) -> None:
    game_id = await create_game(service, people=2, clock=PATIENT)
    guest = service.with_token(service.signer.player_token(str(UUID(int=77, version=4)), True, 60))
    spectator = guest.Watch(table_pb2.WatchRequest(game_id=game_id))
    async with PlayStream(service, SEAT_ACCOUNTS[0], game_id) as player:
        text = "<script>alert(1)</script> שלום 👨‍👩‍👧‍👦"
        assert (await say(service, SEAT_ACCOUNTS[1], game_id, f"\u202e{text}\n")).line_no == 1
        line = await next_line(player)
        assert (line.line_no, line.account_id, line.text) == (1, SEAT_ACCOUNTS[1], text)
        assert line.at_ms > 0
        said = await guest.Say(table_pb2.SayRequest(game_id=game_id, request_id=str(uuid4()), text="guests may"))
        assert said.line_no == 1
        assert (await next_line(spectator)).text == "guests may"
        await say(service, SEAT_ACCOUNTS[0], game_id, "bye")
        assert (await next_line(player)).text == "bye"
    spectator.cancel()


async def test_a_stream_that_begins_anew_brings_the_last_lines(service: Service) -> None:
    game_id = await create_game(service, people=2, clock=PATIENT)
    for text in ("one", "two"):
        await say(service, SEAT_ACCOUNTS[0], game_id, text)
    stream = watch(service, SEAT_ACCOUNTS[1], game_id)
    assert [(await next_line(stream)).line_no for _ in range(2)] == [1, 2]
    await mute(service, SEAT_ACCOUNTS[1], game_id, SEAT_ACCOUNTS[0])
    await say(service, SEAT_ACCOUNTS[0], game_id, "three")
    await say(service, SEAT_ACCOUNTS[1], game_id, "four")
    assert (await next_line(stream)).text == "four"
    stream.cancel()
    again = watch(service, SEAT_ACCOUNTS[1], game_id)
    assert (await next_line(again)).text == "four"
    again.cancel()


async def test_how_many_watch_is_told_to_the_table(service: Service) -> None:
    game_id = await create_game(service, people=2, clock=PATIENT)
    async with PlayStream(service, SEAT_ACCOUNTS[0], game_id) as player:
        # The own second device, another player, and a service are no spectators.
        others = [watch(service, account, game_id) for account in SEAT_ACCOUNTS[:2]]
        others.append(service.with_service_token().Watch(table_pb2.WatchRequest(game_id=game_id)))
        spectators = [watch(service, STRANGER, game_id) for _ in range(2)]
        for stream in (*others, *spectators):
            await stream.read()
        counted = await player.read_until(lambda message: message.HasField("watching"))
        assert counted.watching.spectators == 1
        for stream in spectators:
            stream.cancel()
        counted = await player.read_until(lambda message: message.HasField("watching"))
        assert counted.watching.spectators == 0
        for stream in others:
            stream.cancel()


async def test_refusals(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=2, clock=PATIENT)
    ann, bob = SEAT_ACCOUNTS[:2]
    assert await refused(say(service, ann, str(uuid4()), "x")) == Refusal("GAME_NOT_FOUND", grpc.StatusCode.NOT_FOUND)
    assert await refused(say(service, ann, "x", "x")) == Refusal("INVALID_REQUEST", BAD)
    assert await refused(say(service, ann, game_id, "x", "y")) == Refusal("INVALID_REQUEST", BAD)
    assert await refused(say(service, ann, game_id, "x" * 8193)) == Refusal("INVALID_REQUEST", BAD)
    assert await refused(say(service, ann, game_id, "x" * 281)) == Refusal("LINE_TOO_LONG", BAD)
    assert await refused(say(service, ann, game_id, "\0\u200b")) == Refusal("LINE_EMPTY", BAD)
    assert await refused(mute(service, ann, game_id, "bob")) == Refusal("INVALID_REQUEST", BAD)
    # Not a text at all: the message cannot be decoded.
    raw = table_pb2.SayRequest(game_id=game_id, request_id=str(uuid4()), text="X").SerializeToString()
    assert await refused(service.table(ann).Say(raw.replace(b"X", b"\xff"))) == Refusal("MALFORMED", BAD)
    request_id = str(uuid4())
    for _ in range(2):
        assert (await say(service, ann, game_id, "x", request_id)).line_no == 1
    reused = Refusal("REQUEST_ID_REUSED", grpc.StatusCode.ALREADY_EXISTS)
    assert await refused(say(service, ann, game_id, "y", request_id)) == reused
    for _ in range(LINES_MAX - 1):
        await say(service, ann, game_id, "x")
    assert await refused(say(service, ann, game_id, "x")) == Refusal("TOO_MANY_LINES", EXHAUSTED)
    nobody = service.with_token(None)
    missing = Refusal("TOKEN_MISSING", grpc.StatusCode.UNAUTHENTICATED)
    role = Refusal("ROLE_REQUIRED", grpc.StatusCode.PERMISSION_DENIED)
    for call, request in (
        ("Say", table_pb2.SayRequest(game_id=game_id, request_id=str(uuid4()), text="x")),
        ("Mute", table_pb2.MuteRequest(game_id=game_id, account_id=bob, muted=True)),
    ):
        assert await refused(getattr(nobody, call)(request)) == missing
        assert await refused(getattr(service.with_service_token(), call)(request)) == role


@pytest.mark.parametrize("mode", [table_pb2.MODE_QUICK_PLAY, table_pb2.MODE_SOLO])
async def test_no_chat_but_at_friendly_tables(service: Service, mode: table_pb2.Mode.ValueType) -> None:
    variant, seats = ("quick", 6) if mode == table_pb2.MODE_QUICK_PLAY else ("8-1-8", 4)
    game_id = await create_game(service, people=1, seats=seats, variant=variant, mode=mode, clock=PATIENT)
    for account in (SEAT_ACCOUNTS[0], STRANGER):
        assert await refused(say(service, account, game_id, "x")) == Refusal("NO_CHAT_HERE", LATER)
        assert await refused(mute(service, account, game_id, STRANGER)) == Refusal("NO_CHAT_HERE", LATER)


async def test_a_chat_ends_with_its_game_and_leaves_nothing(
    service: Service, reader: LogReader, database: Database
) -> None:
    game_id = await create_game(service, people=4, seats=4, variant="1-8-1", clock=PATIENT)
    await say(service, SEAT_ACCOUNTS[0], game_id, "a secret that nobody may find")
    script = Script(service, GameLog(reader, game_id))
    await script.play_out()
    over = Refusal("GAME_FINISHED", LATER)
    assert await refused(say(service, SEAT_ACCOUNTS[0], game_id, "x")) == over
    assert await refused(mute(service, SEAT_ACCOUNTS[0], game_id, STRANGER)) == over
    assert not any(b"a secret" in row.payload for row in script.log.rows)
    async with asyncio.timeout(CALL_SECONDS):
        while await reader._pool.fetchval("select count(*) from chat_lines where text like '%secret%'"):
            await asyncio.sleep(0.05)
