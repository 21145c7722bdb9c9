"""Two table replicas, and one of them stalled, killed or stopped, or what both stand on away.

Play goes on at the other, what waited in a beaten host is not played, nobody steals games, and nobody loses on time.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import grpc
import pytest
import pytest_asyncio
from levata.table.v1 import games_pb2, table_pb2

from chassis.database import open_pool
from chassis.log import LogReader
from rules.cards import members
from services.table.app.requests import PlayerCommand
from services.table.domain import ClockResumed
from services.table.rpc.messages import move_message
from tests.persistent_players import StreamingPlayer, WatchingPlayer, assert_kept
from tests.table_client import (
    SEAT_ACCOUNTS,
    STRANGER,
    GameLog,
    PlayStream,
    Script,
    Service,
    act_request,
    create_game,
    refused,
)
from tools.faults.world import World
from tools.migrate import SCHEMAS

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

PATIENT = games_pb2.ClockOptions(bid_seconds=3600, card_seconds=3600)
# Time enough to bring the trouble about before it runs out.
SHORT = games_pb2.ClockOptions(bid_seconds=8, card_seconds=8)
# Longer than a host may be silent.
STALL_SECONDS = 5.0
PATIENCE_SECONDS = 60


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """All services as processes, two of them tables."""
    folder: Path = tmp_path_factory.mktemp("world")
    async with World(folder, tables=2) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def world(shared_world: World) -> AsyncIterator[World]:
    """The world in good order, before and after."""
    yield shared_world
    await shared_world.mend()


@pytest_asyncio.fixture(loop_scope="module")
async def services(world: World) -> AsyncIterator[list[Service]]:
    """The way to each of the replicas."""
    started = [Service(str(world.services[name].address), world.signer) for name in ("table-1", "table-2")]
    for service in started:
        await until_serving(service)
    yield started
    for service in started:
        await service.close()


@pytest_asyncio.fixture(loop_scope="module")
async def reader(world: World) -> AsyncIterator[LogReader]:
    """The services' log."""
    async with await open_pool(dsn(world), "test", connections_max=2) as pool:
        yield LogReader(pool)


@asynccontextmanager
async def connected(world: World) -> AsyncIterator[Any]:
    """A connection of the table service's role."""
    connection = await asyncpg.connect(dsn(world))
    yield connection
    await connection.close()


def dsn(world: World) -> str:
    """The table service's own."""
    return world.postgres.dsn(SCHEMAS["table"].role)


async def until_serving(service: Service) -> None:
    """A replica that was away can make a game again."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                await create_game(service, people=4, clock=PATIENT)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                await asyncio.sleep(0.1)
            else:
                return


async def epoch_of(world: World, game_id: str) -> int:
    """How often a game has had a host."""
    async with connected(world) as connection:
        return int(await connection.fetchval("select epoch from game_hosts where game_id = $1", UUID(game_id)))


async def begun(service: Service, reader: LogReader, clock: games_pb2.ClockOptions = PATIENT) -> Script:
    """A game of four persons with a few moves made."""
    game_id = await create_game(service, people=4, variant="1-8-1", clock=clock)
    script = Script(service, GameLog(reader, game_id))
    await script.log.refresh()
    return script


async def persistently(script: Script) -> int:
    """The next move, repeated under its id for as long as it takes."""
    request = script.request(next(members(script.table.legal)))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                answer = await script.service.table(script.account).Act(request, timeout=10)
            except grpc.aio.AioRpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    raise
                await asyncio.sleep(0.1)
            else:
                await script.log.refresh()
                return int(answer.version)


class Waiting:
    """A move that is sent to a replica which stands still: it waits in that process until it is woken."""

    def __init__(self, script: Script, service: Service) -> None:
        *_, move = members(script.table.legal)
        self._account = script.account
        self._request = act_request(str(script.log.game_id), move_message(move), script.table.version)
        self.key = PlayerCommand.of(self._account, self._request.command_id, script.table.version, move).name.key
        self.answer = asyncio.create_task(refused(service.table(self._account).Act(self._request)))


async def resumed(log: GameLog, epoch: int) -> None:
    """A new host has begun."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not any(ClockResumed(epoch, event.host) == event for event in resumptions(log)):
            await asyncio.sleep(0.1)
            await log.refresh()


def resumptions(log: GameLog) -> list[ClockResumed]:
    """When clocks began afresh."""
    commits = [log.commit(version) for version in range(1, log.version + 1)]
    return [event for commit in commits for event in commit.events if isinstance(event, ClockResumed)]


async def test_a_host_that_stood_still_is_beaten_and_plays_nothing_that_waited(
    world: World, services: list[Service], reader: LogReader
) -> None:
    first, second = services
    script = await begun(first, reader)
    for _ in range(3):
        await script.act()
    watch = asyncio.create_task(watched(second, str(script.log.game_id), 1))
    stream = PlayStream(first, SEAT_ACCOUNTS[0], str(script.log.game_id))
    async with stream:
        await stream.read_until(lambda message: message.HasField("snapshot"))
        world.stall("table-1")
        waiting = Waiting(script, first)
        await resumed(script.log, 2)
        script.service = second
        await persistently(script)
        world.wake("table-1")
        refusal = await waiting.answer
        assert refusal.reason in ("TEMPORARILY_UNAVAILABLE", "STALE")
        # Its own streams are told to come again.
        end = await stream.read_until(lambda message: message.HasField("closing"))
        assert end.closing.reason == "MOVED"
    # Whoever calls the beaten one is served by it all the same.
    script.service = first
    for _ in range(5):
        await persistently(script)
    await script.play_out()
    assert await epoch_of(world, str(script.log.game_id)) == 2
    assert waiting.key not in {row.command_id for row in script.log.rows}
    await script.log.assert_sound()
    assert [message.commit.version for message in await watch] == list(range(2, script.log.version + 1))


async def test_a_game_that_is_claimed_but_not_begun_yet_is_not_played_by_who_had_it(
    world: World, services: list[Service], reader: LogReader
) -> None:
    """The log alone would let the woken host write: it must ask whose the game is before it decides anything."""
    first, _ = services
    script = await begun(first, reader)
    version = await script.act()
    world.stall("table-1")
    waiting = Waiting(script, first)
    claimer = uuid4()
    async with connected(world) as connection:
        await connection.execute("insert into hosts values ($1, 'nowhere', levata_now() + interval '1 hour')", claimer)
        claim = "update game_hosts set host_id = $1, epoch = epoch + 1 where game_id = $2"
        await connection.execute(claim, claimer, script.log.game_id)
        await asyncio.sleep(STALL_SECONDS)
        world.wake("table-1")
        # By the host itself, or with its connection, on which a ping went unanswered while it stood still.
        assert (await waiting.answer).code is grpc.StatusCode.UNAVAILABLE
        await script.log.refresh()
        assert script.log.version == version
        await connection.execute("update hosts set seen_at = '-infinity' where host_id = $1", claimer)
    await persistently(script)
    assert waiting.key not in {row.command_id for row in script.log.rows}


async def watched(service: Service, game_id: str, after: int) -> list[table_pb2.WatchResponse]:
    """Commits of a game to its end, in one stream."""
    request = table_pb2.WatchRequest(game_id=game_id, after_version=after)
    messages = [message async for message in service.table(STRANGER).Watch(request)]
    assert not any(message.HasField("closing") for message in messages), messages[-1]
    return [message for message in messages if message.HasField("commit")]


async def test_a_killed_hosts_game_goes_on_for_who_is_elsewhere(
    world: World, services: list[Service], reader: LogReader
) -> None:
    first, second = services
    game_id = await create_game(first, people=2, variant="1-8-1", clock=PATIENT)
    log = GameLog(reader, game_id)
    players = WatchingPlayer(second, SEAT_ACCOUNTS[0], game_id), StreamingPlayer(second, SEAT_ACCOUNTS[1], game_id)
    watch = asyncio.create_task(watched(second, game_id, 1))
    playing = [asyncio.create_task(player.play_out()) for player in players]
    while players[0].version < 20:
        await asyncio.sleep(0.01)
    world.kill("table-1")
    await asyncio.gather(*playing)
    await assert_kept(log, players)
    assert [event.epoch for event in resumptions(log)] == [2]
    # The same stream went on when the game came to its own replica.
    assert [message.commit.version for message in await watch] == list(range(2, log.version + 1))


async def test_a_host_that_is_stopped_leaves_its_games(
    world: World, services: list[Service], reader: LogReader
) -> None:
    first, second = services
    script = await begun(first, reader)
    await script.act()
    watch = asyncio.create_task(watched(second, str(script.log.game_id), 1))
    async with PlayStream(first, SEAT_ACCOUNTS[0], str(script.log.game_id)) as stream:
        await stream.read_until(lambda message: message.HasField("snapshot"))
        version = script.log.version
        stopping = asyncio.create_task(asyncio.to_thread(world.services["table-1"].stop))
        end = await stream.read_until(lambda message: message.HasField("closing"))
        assert end.closing == table_pb2.Closing(reason="DRAINING", resume_after_version=version)
        await stopping
    script.service = second
    await persistently(script)
    await script.play_out()
    assert [event.epoch for event in resumptions(script.log)] == [2]
    assert [message.commit.version for message in await watch] == list(range(2, script.log.version + 1))
    await world.restart("table-1")


async def test_without_nats_nobody_steals_games_and_nobody_loses_on_time(
    world: World, services: list[Service], reader: LogReader
) -> None:
    first, second = services
    script, timed = await begun(first, reader), await begun(first, reader, SHORT)
    watch = asyncio.create_task(watched(second, str(script.log.game_id), 1))
    world.kill("nats")
    for _ in range(5):
        await persistently(script)
    await asyncio.sleep(STALL_SECONDS)
    await world.restart("nats")
    # Through the other replica again, which has missed all that was announced meanwhile.
    script.service = second
    await persistently(script)
    await script.play_out()
    assert [message.commit.version for message in await watch] == list(range(2, script.log.version + 1))
    assert await epoch_of(world, str(script.log.game_id)) == 1
    await assert_time_began_anew(timed)


async def test_while_postgres_stands_still_nobody_steals_games_and_nobody_loses_on_time(
    world: World, services: list[Service], reader: LogReader
) -> None:
    first, second = services
    scripts = [await begun(first, reader), await begun(second, reader)]
    timed = await begun(first, reader, SHORT)
    world.stall("postgres")
    await asyncio.sleep(STALL_SECONDS)
    world.wake("postgres")
    # At the same time: bots would play for people who are silent while another game is played to its end.
    await asyncio.gather(*map(played_on, scripts))
    for script in scripts:
        assert await epoch_of(world, str(script.log.game_id)) == 1
    await assert_time_began_anew(timed)


async def played_on(script: Script) -> None:
    """To the end, whatever was under way."""
    await persistently(script)
    await script.play_out()


async def assert_time_began_anew(script: Script) -> None:
    """The decision that was open got all its time again, by a logged event, instead of being played by the clock."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while script.log.version == 1:
            await asyncio.sleep(0.1)
            await script.log.refresh()
    resumed = script.log.event(2)
    assert isinstance(resumed, ClockResumed)
    assert resumed.epoch == 1
