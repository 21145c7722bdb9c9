"""Players who keep at it: they come back after every break, resume, and repeat what was not answered.

They note what the server acknowledged and what it showed them; `assert_kept` holds that against the log.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

import grpc
from levata.table.v1 import play_pb2, table_pb2

from chassis.errors import reason_in, reason_of
from chassis.log import first_broken
from services.table import domain
from services.table.app.requests import PlayerCommand
from services.table.domain import Decider, Moved
from services.table.rpc.messages import CommitMessages, move_code
from tests.table_client import GameLog, Player, Service, act_request
from tools.patience import within

# Longer than heartbeats are apart: a stream that is silent for so long is dead.
SILENCE_SECONDS: Final = 8.0
CALL_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.2
# With the first message that comes so long after the last time they say that they are there.
HERE_SECONDS: Final = 3.0

AGAIN: Final = {"TEMPORARILY_UNAVAILABLE", "GAME_BUSY", "RATE_LIMITED"}
# What grpc itself reports of a lost connection; on a stream that one writes to it may be its INTERNAL.
BROKEN: Final = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
}


class Command(NamedTuple):
    """A move that was sent."""

    command_id: str
    at_version: int
    move: play_pb2.Move


class Again(Exception):
    """The stream is over, but the game is not."""


class PersistentPlayer(Player, ABC):
    """Plays the first legal move whenever it may, until the game is over."""

    def __init__(self, service: Service, account: str, game_id: str) -> None:
        super().__init__(service, account, game_id)
        self.account = account
        # What was sent last and is not answered yet.
        self.open: Command | None = None
        # By version.
        self.acknowledged: dict[int, Command] = {}
        self.breaks: list[str] = []
        # Loop time.
        self._said_here_at = 0.0

    async def play_out(self) -> None:
        """Play to the end of the game; an error that no repetition would mend is raised."""
        while not self.over:
            try:
                await self._follow()
                why = "the stream ended" if self.closing is None else self.closing.reason
            except grpc.aio.AioRpcError as error:
                reason = reason_of(error)
                if reason not in AGAIN and not (reason is None and error.code() in BROKEN):
                    raise
                why = reason or error.code().name
            except (Again, TimeoutError, asyncio.InvalidStateError) as error:
                why = repr(error)
            if not self.over:
                self.breaks.append(why)
                await asyncio.sleep(PAUSE_SECONDS)

    @abstractmethod
    async def _follow(self) -> None:
        """Resume and play until the stream ends."""

    @property
    def may_move(self) -> bool:
        """Whether it is this player's turn and nothing is sent for it yet."""
        return self.my_turn and self.open is None and self.version >= max(self.acknowledged, default=0)

    def choose(self) -> Command:
        """A new move for the open decision."""
        assert self.decision is not None
        self.open = Command(str(uuid4()), self.version, self.decision.legal_moves[0])
        return self.open

    def acknowledge(self, version: int) -> None:
        """The open command is in the log at this version, says the server."""
        assert self.open is not None
        self.acknowledged[version] = self.open
        self.open = None

    async def say_here(self) -> None:
        """Tell now and then that one is there, whatever there is to do, and not on a stream: see `tools.patience`."""
        now = asyncio.get_running_loop().time()
        if not self.over and now - self._said_here_at >= HERE_SECONDS:
            self._said_here_at = now
            await self.table.Here(table_pb2.HereRequest(game_id=self.game_id), timeout=CALL_SECONDS)

    def where(self) -> table_pb2.WatchRequest:
        """From where to go on."""
        return table_pb2.WatchRequest(game_id=self.game_id, after_version=self.version)


class WatchingPlayer(PersistentPlayer):
    """Over Watch and Act."""

    async def _follow(self) -> None:
        stream = self.table.Watch(self.where())
        try:
            while True:
                if self.open is not None or self.may_move:
                    await self._act(self.open or self.choose())
                message = await within(SILENCE_SECONDS, stream.read())
                if message is grpc.aio.EOF:
                    return
                self.take(message)
                await self.say_here()
        finally:
            stream.cancel()

    async def _act(self, command: Command) -> None:
        request = act_request(self.game_id, command.move, command.at_version, command.command_id)
        self.acknowledge((await self.table.Act(request, timeout=CALL_SECONDS)).version)


class StreamingPlayer(PersistentPlayer):
    """Over Play."""

    async def _follow(self) -> None:
        stream = self.table.Play()
        try:
            await stream.write(table_pb2.PlayRequest(open=self.where()))
            if self.open is not None:
                await self._send(stream, self.open)
            while True:
                if self.may_move:
                    await self._send(stream, self.choose())
                message = await within(SILENCE_SECONDS, stream.read())
                if message is grpc.aio.EOF:
                    return
                self.hear(message)
                await self.say_here()
        finally:
            stream.cancel()

    async def _send(self, stream: Any, command: Command) -> None:
        act = table_pb2.PlayMove(command_id=command.command_id, at_version=command.at_version, move=command.move)
        await stream.write(table_pb2.PlayRequest(act=act))

    def hear(self, message: table_pb2.PlayResponse) -> None:
        """Fold a message in, and note what it answers."""
        match message.WhichOneof("kind"):
            case "commit" if message.commit.command_id:
                assert self.open is not None and message.commit.command_id == self.open.command_id
                self.acknowledge(message.commit.version)
                message.commit.command_id = ""
            case "repeated_command":
                assert self.open is not None and message.repeated_command.command_id == self.open.command_id
                self.acknowledge(message.repeated_command.version)
            case "refusal":
                reason = reason_in(message.refusal.status)
                assert reason in AGAIN, reason
                raise Again(reason)
        self.take(message)


async def assert_kept(log: GameLog, players: Sequence[PersistentPlayer]) -> None:
    """The game is finished and sound, has all that was acknowledged, once, and the players saw what is in it."""
    await log.refresh()
    assert log.table.finished is not None
    assert first_broken(log.game_id, await log.read_all()) is None
    keys = [row.command_id for row in log.rows if row.command_id is not None and row.version > 1]
    assert len(keys) == len(set(keys))
    for player in players:
        # What was sent last may be in the log without an answer, when the game ended with it.
        assert len(player.acknowledged) <= sum(key in _keys(player) for key in keys)
        for version, command in player.acknowledged.items():
            assert log.rows[version - 1].command_id == _key(player, command)
            assert Moved(player.seat, _code(command), Decider.PERSON) in log.commit(version).events
        for commit in player.commits:
            assert commit == _as_seen(log, commit.version, player.seat)
        assert player.version == log.version


def _keys(player: PersistentPlayer) -> set[UUID]:
    sent = [*player.acknowledged.values(), *([] if player.open is None else [player.open])]
    return {_key(player, command) for command in sent}


def _key(player: PersistentPlayer, command: Command) -> UUID:
    return PlayerCommand.of(player.account, command.command_id, command.at_version, _code(command)).name.key


def _code(command: Command) -> int:
    code = move_code(command.move)
    assert code is not None
    return code


def _as_seen(log: GameLog, version: int, viewer: domain.Viewer) -> table_pb2.Commit:
    messages = CommitMessages(log.tables[version - 2], log.commit(version), log.tables[version - 1])
    return table_pb2.Commit.FromString(messages.body(viewer))
