"""Several replicas: a client may call any of them, and sees the same as at the game's host."""

import asyncio
import random
from collections.abc import AsyncIterator
from uuid import uuid4

import grpc
import pytest
from levata.table.v1 import games_pb2, table_pb2

from chassis.auth import KeyFiles
from chassis.log import LogReader
from rules.cards import members
from services.table.app.following import FollowedGame
from services.table.rpc.messages import move_message
from tests.conftest import Database
from tests.persistent_players import StreamingPlayer, WatchingPlayer, assert_kept
from tests.table_client import (
    SEAT_ACCOUNTS,
    STRANGER,
    GameLog,
    PlayStream,
    Refusal,
    Script,
    Service,
    act_request,
    create_game,
    log_reader,
    prepare_game,
    refusal_in,
    refused,
    running_replicas,
)
from tools.embedded.nats import EmbeddedNats

PATIENT = games_pb2.ClockOptions(bid_seconds=3600, card_seconds=3600)
GAMES = 10
JOINS = 100


@pytest.fixture
async def replicas(module_database: Database, keys: KeyFiles, nats: EmbeddedNats) -> AsyncIterator[list[Service]]:
    """Two table services; the first hosts what a test creates there."""
    async with running_replicas(module_database, keys, nats) as started:
        yield started


@pytest.fixture
async def reader(module_database: Database) -> AsyncIterator[LogReader]:
    """The services' log."""
    async with log_reader(module_database) as opened:
        yield opened


async def test_games_are_played_at_any_replica(replicas: list[Service], reader: LogReader) -> None:
    """Of each game one person plays at the host and the other one elsewhere, over both roads."""
    host, other = replicas
    games = {}
    for number in range(4):
        at = (host, other) if number % 2 else (other, host)
        game_id = await create_game(host, people=2, variant="1-8-1", clock=PATIENT)
        games[game_id] = (
            WatchingPlayer(at[0], SEAT_ACCOUNTS[0], game_id),
            StreamingPlayer(at[1], SEAT_ACCOUNTS[1], game_id),
        )
    await asyncio.gather(*(player.play_out() for players in games.values() for player in players))
    for game_id, players in games.items():
        assert [player.breaks for player in players] == [[], []]
        await assert_kept(GameLog(reader, game_id), players)


async def test_play_elsewhere_answers_as_at_the_host(replicas: list[Service], reader: LogReader) -> None:
    host, other = replicas
    game_id = await create_game(host, people=4, variant="1-8-1", clock=PATIENT)
    script = Script(host, GameLog(reader, game_id))
    table = await script.log.refresh()
    account, move = script.account, move_message(next(members(table.legal)))
    async with PlayStream(other, account, game_id) as stream, PlayStream(other, account, game_id) as second:
        assert (await stream.read_until(lambda message: message.HasField("snapshot"))).snapshot.version == 1
        assert (await second.read_until(lambda message: message.HasField("snapshot"))).snapshot.version == 1
        command_id = str(uuid4())
        answer = await stream.act(move, 1, command_id)
        assert (answer.commit.version, answer.commit.command_id) == (2, command_id)
        # The other stream has it without the id.
        copy = await second.read_until(lambda message: message.HasField("commit"))
        answer.commit.command_id = ""
        assert copy == answer
        # Again, on any stream at any replica: the first answer.
        for repeating in (stream, second):
            again = await repeating.act(move, 1, command_id)
            assert again.repeated_command == table_pb2.Repeated(command_id=command_id, version=2)
        async with PlayStream(host, account, game_id) as at_host:
            again = await at_host.act(move, 1, command_id)
            assert again.repeated_command == table_pb2.Repeated(command_id=command_id, version=2)
        # Other content under the same id, a decision that is closed, and a version that never was.
        reused, stale, future = (
            Refusal("COMMAND_ID_REUSED", grpc.StatusCode.ALREADY_EXISTS),
            Refusal("STALE", grpc.StatusCode.ABORTED),
            Refusal("FUTURE_VERSION", grpc.StatusCode.OUT_OF_RANGE),
        )
        assert refusal_in(await stream.act(move, 2, command_id)) == Refusal(
            "NOT_YOUR_TURN", grpc.StatusCode.FAILED_PRECONDITION
        )
        assert refusal_in(await stream.act(move, 1)) == stale
        assert refusal_in(await stream.act(move, 99)) == future
        await script.log.refresh()
        following = script.account
        async with PlayStream(other, following, game_id, 2) as third:
            other_move = move_message(next(members(script.table.legal)))
            assert (await third.act(other_move, 2)).commit.version == 3
        assert refusal_in(await stream.act(move, 0, command_id)) == reused
    act = host.table(account).Act(act_request(game_id, move, 1, command_id))
    assert (await act).version == 2
    act = other.table(account).Act(act_request(game_id, move, 1, command_id))
    assert (await act).version == 2
    assert await refused(other.table(STRANGER).Act(act_request(game_id, move, 1))) == Refusal(
        "NOT_YOUR_SEAT", grpc.StatusCode.PERMISSION_DENIED
    )


async def test_who_has_seen_more_than_a_replica_has_heard_of_is_told_the_rest_there(
    replicas: list[Service], reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A phone that moves from the host to a replica which is behind for a moment."""
    host, other = replicas
    game_id = await create_game(host, people=4, variant="1-8-1", clock=PATIENT)
    script = Script(host, GameLog(reader, game_id))
    await script.log.refresh()
    before = other.table(STRANGER).Watch(table_pb2.WatchRequest(game_id=game_id))
    assert (await before.read()).snapshot.version == 1
    monkeypatch.setattr(FollowedGame, "hear", lambda *_: None)
    move = move_message(next(members(script.table.legal)))
    assert (await host.table(script.account).Act(act_request(game_id, move, 1))).version == 2
    watch = other.table(script.account).Watch(table_pb2.WatchRequest(game_id=game_id, after_version=2))
    await script.log.refresh()
    move = move_message(next(members(script.table.legal)))
    waiting = asyncio.create_task(watch.read())
    assert (await host.table(script.account).Act(act_request(game_id, move, 2))).version == 3
    # The replica compares what it follows with the log now and then.
    while not (message := await waiting).HasField("commit"):
        waiting = asyncio.create_task(watch.read())
    assert message.commit.version == 3
    future = other.table(STRANGER).Watch(table_pb2.WatchRequest(game_id=game_id, after_version=99))
    assert await refused(future) == Refusal("FUTURE_VERSION", grpc.StatusCode.OUT_OF_RANGE)
    before.cancel()
    watch.cancel()


async def test_a_game_that_is_nowhere(replicas: list[Service]) -> None:
    host, other = replicas
    prepared = await prepare_game(host)
    not_found = Refusal("GAME_NOT_FOUND", grpc.StatusCode.NOT_FOUND)
    for game_id in (prepared, str(uuid4())):
        for service in replicas:
            table = service.table(SEAT_ACCOUNTS[0])
            assert await refused(table.Watch(table_pb2.WatchRequest(game_id=game_id))) == not_found
            assert await refused(table.Here(table_pb2.HereRequest(game_id=game_id))) == not_found
            assert await refused(table.Act(act_request(game_id, move_message(0), 1))) == not_found
    del other


class Inviting(WatchingPlayer):
    """A player at whose commits others begin to watch at another replica, from nothing or from a version before."""

    def __init__(self, service: Service, account: str, game_id: str, elsewhere: Service, chance: random.Random) -> None:
        super().__init__(service, account, game_id)
        self._elsewhere = elsewhere
        self._chance = chance
        self.joined: list[tuple[str, int, asyncio.Task[list[table_pb2.WatchResponse]]]] = []

    def take(self, message: table_pb2.WatchResponse | table_pb2.PlayResponse) -> None:
        super().take(message)
        for _ in range(self._chance.choice((0, 1, 2))):
            if len(self.joined) < JOINS:
                viewer = self._chance.choice((*SEAT_ACCOUNTS[:2], STRANGER))
                after = self._chance.choice((0, max(self.version - self._chance.randrange(20), 1)))
                watching = asyncio.create_task(watched(self._elsewhere, viewer, self.game_id, after, self._stay()))
                self.joined.append((viewer, after, watching))

    def _stay(self) -> int | None:
        """Most leave soon, so that the replica follows the game no more and begins anew with the next."""
        return None if self._chance.random() < 0.1 else 5


async def watched(
    service: Service, viewer: str, game_id: str, after: int, most: int | None = None
) -> list[table_pb2.WatchResponse]:
    """Snapshot and commits of a game to its end, or so many of them."""
    request = table_pb2.WatchRequest(game_id=game_id, after_version=after)
    stream = service.table(viewer).Watch(request)
    messages = []
    async for message in stream:
        if message.WhichOneof("kind") in ("snapshot", "commit"):
            messages.append(message)
            if len(messages) == most:
                stream.cancel()
                break
    return messages


async def test_a_thousand_joins_elsewhere_lose_and_double_nothing(replicas: list[Service]) -> None:
    """Games are played as fast as they can be, at their host, while watchers come and go at the other replica."""
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201 - pytest shows it when the test fails
    host, other = replicas
    chance = random.Random(seed)
    inviting = []
    for _ in range(GAMES):
        game_id = await create_game(host, people=2, variant="1-8-1", clock=PATIENT)
        inviting.append(Inviting(host, SEAT_ACCOUNTS[0], game_id, other, chance))
    await asyncio.gather(
        *(player.play_out() for player in inviting),
        *(WatchingPlayer(host, SEAT_ACCOUNTS[1], player.game_id).play_out() for player in inviting),
    )
    assert sum(len(player.joined) for player in inviting) == GAMES * JOINS
    for player in inviting:
        whole = {viewer: await watched(host, viewer, player.game_id, 1) for viewer in (*SEAT_ACCOUNTS[:2], STRANGER)}
        for viewer, after, watching in player.joined:
            messages = await watching
            begin = after or messages.pop(0).snapshot.version
            expected = whole[viewer][begin - 1 :]
            # To the end, or as far as the watcher stayed.
            assert messages == (expected if len(messages) > 5 else expected[: len(messages)])
            assert len(messages) in (4, 5, len(expected))
