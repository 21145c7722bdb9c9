"""Spectators: the view without hands, whatever they ask and whoever they say they are, and no sooner than allowed."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import grpc
import pytest
from google.rpc import error_details_pb2
from levata.table.v1 import games_pb2, play_pb2, table_pb2

from chassis.auth import KeyFiles
from chassis.errors import status_of
from chassis.log import LogReader
from tests.conftest import Database
from tests.table_client import (
    CALL_SECONDS,
    SEAT_ACCOUNTS,
    STRANGER,
    GameLog,
    Script,
    Service,
    act_request,
    create_game,
    log_reader,
    refused,
    running,
)

ANOTHER = str(UUID(int=98, version=4))
PATIENT = games_pb2.ClockOptions(bid_seconds=3600, card_seconds=3600)
DELAY_SECONDS = 2
LONG_DELAY_SECONDS = 300
# What a message to a spectator may never hold, by the names of the fields.
SECRETS = {"hand", "hands", "legal_moves", "hook_forbids", "discarded", "command_id", "chain"}


@pytest.fixture
async def service(module_database: Database, keys: KeyFiles) -> AsyncIterator[Service]:
    """A table service."""
    async with running(module_database, keys) as started:
        yield started


@pytest.fixture
async def reader(module_database: Database) -> AsyncIterator[LogReader]:
    """The service's log."""
    async with log_reader(module_database) as opened:
        yield opened


def fields_in(message: Any) -> set[str]:
    """The names of all fields that are set in a message and in those within it."""
    found = set()
    for descriptor, content in message.ListFields():
        found.add(descriptor.name)
        if descriptor.message_type is not None:
            for each in content if descriptor.is_repeated else [content]:
                found |= fields_in(each)
    return found


async def read_kind(stream: Any, kind: str) -> Any:
    """The next message of a kind."""
    async with asyncio.timeout(CALL_SECONDS):
        while (message := await stream.read()) is not grpc.aio.EOF:
            if message.WhichOneof("kind") == kind:
                return getattr(message, kind)
    raise AssertionError(f"the stream ended before a {kind}")


def callers(service: Service) -> dict[str, Any]:
    """Everybody with a token but those seated."""
    return {
        "a player": service.table(STRANGER),
        "a guest": service.with_token(service.signer.player_token(str(uuid4()), True, 60)),
        "a service": service.with_service_token(),
    }


async def test_spectators_are_sent_no_hand_whatever_they_call(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=4, seats=4, variant="1-8-1", clock=PATIENT)
    script = Script(service, GameLog(reader, game_id))
    await script.log.refresh()
    opening = table_pb2.WatchRequest(game_id=game_id)
    streams = [api.Watch(opening) for api in callers(service).values()]
    for api in (service.table(STRANGER), service.table(ANOTHER)):
        streams.append(api.Play())
        await streams[-1].write(table_pb2.PlayRequest(open=opening))
    for stream in streams:
        snapshot = (await stream.read()).snapshot
        assert snapshot.version == 1
        assert not snapshot.view.HasField("seat")
        assert not fields_in(snapshot) & SECRETS
    for _ in range(40):
        await script.act()
    for stream in streams:
        for version in range(2, script.log.version + 1):
            commit = await read_kind(stream, "commit")
            assert commit.version == version
            assert not fields_in(commit) & SECRETS
        stream.cancel()
    # The names are right: a seat is sent such things.
    own = service.table(SEAT_ACCOUNTS[script.table.turn]).Watch(opening)
    assert {"hand", "legal_moves"} <= fields_in(await own.read())
    own.cancel()


@pytest.mark.parametrize("mode", [table_pb2.MODE_QUICK_PLAY, table_pb2.MODE_SOLO, table_pb2.MODE_DAILY])
async def test_only_those_seated_watch_other_games(service: Service, mode: table_pb2.Mode.ValueType) -> None:
    variant, seats = ("8-1-8", 4) if mode == table_pb2.MODE_SOLO else ("quick", 6)
    game_id = await create_game(service, people=1, seats=seats, variant=variant, mode=mode, clock=PATIENT)
    for name, api in callers(service).items():
        if name == "a service":
            continue
        for after in (0, 1, 1_000):
            # Not even how far the game has come.
            watch = api.Watch(table_pb2.WatchRequest(game_id=game_id, after_version=after))
            assert (await refused(watch)).reason == "NOT_YOUR_SEAT"
            play = api.Play()
            await play.write(table_pb2.PlayRequest(open=table_pb2.WatchRequest(game_id=game_id, after_version=after)))
            assert (await refused(play)).reason == "NOT_YOUR_SEAT"


# Delayed


async def version_of_refusal(call: Any) -> str:
    """The version that a FUTURE_VERSION tells."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call.read()
    status, info = status_of(error.value), error_details_pb2.ErrorInfo()
    assert status is not None and status.details[0].Unpack(info)
    assert info.reason == "FUTURE_VERSION"
    return str(info.metadata["version"])


async def test_delayed_spectators_see_everything_and_nothing_too_early(service: Service, reader: LogReader) -> None:
    game_id = await create_game(
        service, people=4, seats=4, variant="1-8-1", clock=PATIENT, spectator_delay_seconds=DELAY_SECONDS
    )
    script = Script(service, GameLog(reader, game_id))
    await script.log.refresh()
    early = service.table(STRANGER).Watch(table_pb2.WatchRequest(game_id=game_id))
    assert (await early.read()).heartbeat == table_pb2.Heartbeat(version=0)

    async def play() -> None:
        for _ in range(20):
            await script.act()
            await asyncio.sleep(0.1)

    playing = asyncio.create_task(play())
    snapshot = await read_kind(early, "snapshot")
    assert snapshot.version == 1
    assert snapshot.spectator_delay_seconds == DELAY_SECONDS
    commits: list[table_pb2.Commit] = []
    while len(commits) < 20:
        commit = await read_kind(early, "commit")
        # By one clock: the servers and this test are on one machine.
        assert time.time() * 1000 - commit.decided_at_ms >= DELAY_SECONDS * 1000 - 1
        commits.append(commit)
    await playing
    assert [commit.version for commit in commits] == list(range(2, 22))
    resumed = service.table(STRANGER).Watch(table_pb2.WatchRequest(game_id=game_id, after_version=7))
    assert [await read_kind(resumed, "commit") for _ in commits[6:]] == commits[6:]
    for stream in (early, resumed):
        stream.cancel()


async def test_nothing_tells_a_delayed_spectator_how_far_the_game_is(service: Service, reader: LogReader) -> None:
    game_id = await create_game(
        service, people=4, seats=4, variant="1-8-1", clock=PATIENT, spectator_delay_seconds=LONG_DELAY_SECONDS
    )
    script = Script(service, GameLog(reader, game_id))
    await script.log.refresh()
    await script.act()
    table = await script.log.refresh()
    for api in callers(service).values():
        for after in (1, table.version, table.version + 1, 1_000_000):
            request = table_pb2.WatchRequest(game_id=game_id, after_version=after)
            assert await version_of_refusal(api.Watch(request)) == "0"
        stream = api.Watch(table_pb2.WatchRequest(game_id=game_id))
        assert (await stream.read()).heartbeat == table_pb2.Heartbeat(version=0)
        stream.cancel()
    stranger = service.table(STRANGER)
    move = play_pb2.Move(place_bid=0)
    for version in (0, 1, table.version, 1_000_000):
        assert (await refused(stranger.Act(act_request(game_id, move, version)))).reason == "NOT_YOUR_SEAT"
    assert (await refused(stranger.Here(table_pb2.HereRequest(game_id=game_id)))).reason == "NOT_YOUR_SEAT"
    assert (await refused(stranger.Replay(table_pb2.ReplayRequest(game_id=game_id)))).reason == "GAME_RUNNING"
    # The seats' own streams are not delayed.
    own = service.table(SEAT_ACCOUNTS[0]).Watch(table_pb2.WatchRequest(game_id=game_id))
    assert (await own.read()).snapshot.version == table.version
    # Nor is what they are told of who watches. Spectators hear of it as late as of all else.
    spectator = stranger.Watch(table_pb2.WatchRequest(game_id=game_id))
    assert (await read_kind(own, "watching")).spectators == 1
    for _ in range(2):
        assert (await spectator.read()).heartbeat == table_pb2.Heartbeat(version=0)
    for stream in (own, spectator):
        stream.cancel()


async def test_a_delayed_game_plays_out_in_its_own_time(service: Service, reader: LogReader) -> None:
    game_id = await create_game(
        service, people=4, seats=4, variant="1-8-1", clock=PATIENT, spectator_delay_seconds=DELAY_SECONDS
    )
    script = Script(service, GameLog(reader, game_id))
    stream = service.table(STRANGER).Watch(table_pb2.WatchRequest(game_id=game_id))
    await stream.read()
    await script.play_out()
    # Who begins to watch now sees no more than who has watched all the time.
    late = service.table(STRANGER).Watch(table_pb2.WatchRequest(game_id=game_id))
    last = await late.read()
    # All at once to who wants the replay.
    replayed = [r async for r in service.table(STRANGER).Replay(table_pb2.ReplayRequest(game_id=game_id))]
    assert replayed[-1].commit.version == script.log.version
    kinds = []
    async with asyncio.timeout(CALL_SECONDS + DELAY_SECONDS):
        while (message := await stream.read()) is not grpc.aio.EOF:
            kinds.append(message)
    # By one clock, to some milliseconds.
    assert time.time() - script.log.commit(script.log.version).decided_at_us / 1e6 >= DELAY_SECONDS - 0.05
    versions = [message.commit.version for message in kinds if message.HasField("commit")]
    assert versions == list(range(2, script.log.version + 1))
    assert kinds[-1].commit.events[-1].HasField("finished")
    while (message := await late.read()) is not grpc.aio.EOF:
        last = message
    assert last == kinds[-1]
    again = service.table(STRANGER).Watch(table_pb2.WatchRequest(game_id=game_id))
    assert [message.snapshot.version async for message in again] == [script.log.version]
