"""A game that runs while `up` is stopped with Ctrl-C goes on when `up` is started again on the same data."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import pytest
from levata.table.v1 import games_pb2, play_pb2, table_pb2

from chassis import rpc
from tests.e2e.running import LEVATA, WAIT_SECONDS, Up
from tools.client import Account, Client, sign_in_guest
from tools.patience import why_again, within
from tools.play import match_of
from tools.tables import open_table

pytestmark = pytest.mark.slow

MOVES_BEFORE = 4
PAUSE_SECONDS = 0.2


class Person:
    """Somebody who plays the first legal move, and writes down each commit that the server tells."""

    def __init__(self, account: Account, game_id: str) -> None:
        self.account = account
        self.game_id = game_id
        self.snapshot = table_pb2.Snapshot()
        self.commits: list[table_pb2.Commit] = []
        self.moves: list[play_pb2.Move] = []
        self._decision = play_pb2.Decision()

    @property
    def version(self) -> int:
        """The version at which the game was last heard of; 0 before."""
        return self.commits[-1].version if self.commits else self.snapshot.version

    async def sit_down(self, client: Client) -> Any:
        """A stream of the game from where it was last heard of, once the server has the game and says something."""
        where = table_pb2.WatchRequest(game_id=self.game_id, after_version=self.version)
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                stream = client.table.Play()
                try:
                    await stream.write(table_pb2.PlayRequest(open=where))
                    await self.listen(stream)
                    return stream
                except grpc.aio.AioRpcError as error:
                    why_again(error)
                await asyncio.sleep(PAUSE_SECONDS)

    async def listen(self, stream: Any) -> str | None:
        """Take one message in; answers with its kind, None at the end of the stream."""
        message = await within(WAIT_SECONDS, stream.read())
        if not isinstance(message, table_pb2.PlayResponse):
            return None
        kind = message.WhichOneof("kind")
        match kind:
            case "snapshot":
                assert self.version == 0, "who resumes is told commits, not the whole game again"
                self.snapshot = message.snapshot
                self._decision = message.snapshot.decision
            case "commit":
                assert message.commit.version == self.version + 1
                self.commits.append(message.commit)
                self._decision = message.commit.decision
            case "heartbeat":
                assert message.heartbeat.version == self.version
            case "closing":
                assert message.closing.resume_after_version == self.version
            case _:
                pytest.fail(f"unexpected: {message}")
        return kind

    async def play(self, stream: Any, moves: int | None = None) -> None:
        """Play on until that many own moves are made and it is one's turn again, or to the end of the game."""
        while True:
            if self._decision.legal_moves:
                if len(self.moves) == moves:
                    return
                self.moves.append(self._decision.legal_moves[0])
                act = table_pb2.PlayMove(command_id=str(uuid4()), at_version=self.version, move=self.moves[-1])
                await stream.write(table_pb2.PlayRequest(act=act))
                self._decision = play_pb2.Decision()
            kind = await self.listen(stream)
            assert kind in {"commit", "heartbeat"}, kind
            if kind == "commit" and not self.commits[-1].HasField("decision"):
                return


@contextmanager
def running(folder: Path, log: str) -> Iterator[Up]:
    """An `up` on the folder's data; it is killed if it still runs at the end."""
    command: list[str | Path] = [*LEVATA, "up", "--data", folder / "the data", "--port", "0"]
    up = Up(command, folder / "the data", folder / log, {})
    try:
        yield up
    finally:
        if up.process.poll() is None:
            up.stop(signal.SIGKILL)


async def sat_down(up: Up) -> Person:
    """A new guest in a game with clocks, with bots in the other seats."""
    endpoints = up.endpoints()
    guest = await sign_in_guest(endpoints.public)
    async with rpc.channel(endpoints.services["table"][0], up.data.tools_token()) as channel:
        games = rpc.stub(channel, games_pb2.DESCRIPTOR.services_by_name["Games"])
        match = match_of("romanian_whist", "quick", None, "steady")
        return Person(guest, (await open_table(games, match, {0: guest})).game_id)


async def test_a_running_game_goes_on_after_ctrl_c_and_a_new_start(tmp_path: Path) -> None:
    with running(tmp_path, "first.log") as up:
        person = await sat_down(up)
        async with Client(up.endpoints().public, person.account.token) as client:
            stream = await person.sit_down(client)
            await person.play(stream, MOVES_BEFORE)
            stopping = asyncio.create_task(asyncio.to_thread(up.stop, signal.SIGINT))
            # It is the person's turn: nothing more comes than the word that the server goes.
            while (kind := await person.listen(stream)) == "heartbeat":
                pass
            assert kind == "closing"
            assert await stopping == 0
    before = person.version

    with running(tmp_path, "second.log") as up:
        # The token of before is good as well.
        async with Client(up.endpoints().public, person.account.token) as client:
            await person.play(await person.sit_down(client))
            replay = [response.commit for response in await client.replay(person.game_id, seat=0)]
        assert up.stop(signal.SIGINT) == 0

    # What was told, over both streams, is the whole game without a hole, and what the log says of it.
    assert [commit.version for commit in replay] == list(range(1, person.version + 1))
    assert replay[-1].events[-1].HasField("finished")
    assert [events_of(commit) for commit in person.commits] == [
        events_of(commit) for commit in replay[person.snapshot.version :]
    ]
    # The new server began with a fresh clock for the open decision, once; nobody decided for the person.
    resumed = [commit.version for commit in replay if commit.events[0].HasField("clock_resumed")]
    assert resumed == [before + 1]
    moved = [event.moved for commit in replay for event in commit.events if event.HasField("moved")]
    own = [move for move in moved if move.seat == 0]
    assert [move.move for move in own] == person.moves
    assert {move.decider for move in own} == {play_pb2.DECIDER_PERSON}


def events_of(commit: table_pb2.Commit) -> tuple[int, list[table_pb2.Event]]:
    """What a commit did, whoever was told."""
    return commit.version, list(commit.events)
