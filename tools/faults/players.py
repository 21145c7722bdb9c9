"""Clients that know no rules and keep at it: they come back after every break, and repeat what was not answered.

Everything that they send and are told goes into the history; whether it was right is the checker's business.
"""

import asyncio
import itertools
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple
from uuid import uuid4

import grpc
from levata.table.v1 import play_pb2, table_pb2

from chassis import rpc
from chassis.errors import reason_in, reason_of
from chassis.settings import Address
from services.table.rpc.messages import move_code
from tools.faults.history import (
    Acknowledged,
    Broke,
    Client,
    Complained,
    Heard,
    History,
    Refused,
    Sent,
    StreamOpened,
    Told,
)
from tools.faults.schedule import Habit
from tools.faults.world import now_us
from tools.patience import within

# The server is heard every three seconds: a stream that is silent for so long is dead.
SILENCE_SECONDS: Final = 4.5
CALL_SECONDS: Final = 5.0
HERE_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.2
# Who waits for a deadline means to be in time by so much.
MARGIN_SECONDS: Final = 0.3
WAIT_SECONDS_MAX: Final = 4.0
_TABLE: Final = table_pb2.DESCRIPTOR.services_by_name["Table"]

# Refusals that say: the same again, a little later.
_AGAIN: Final = frozenset({"TEMPORARILY_UNAVAILABLE", "GAME_BUSY", "RATE_LIMITED", "TOO_MANY_CALLS"})
# Refusals of a move that are an answer: the decision is closed.
_TOO_LATE: Final = frozenset({"STALE", "GAME_FINISHED"})
# What grpc itself reports of a lost connection; on a stream that one writes to it may be its INTERNAL.
_BROKEN: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
    }
)


class Command(NamedTuple):
    """A move that was sent."""

    command_id: str
    at_version: int
    move: play_pb2.Move


class _Again(Exception):
    """This stream is of no more use, but the game goes on."""


class Road:
    """One client's way to the service: a connection of its own to one replica, after a break to another one."""

    def __init__(self, replicas: Sequence[Address], token: str, first: int) -> None:
        self._replicas = replicas
        self._token = token
        self._next = first
        self._channel: grpc.aio.Channel | None = None
        self.table: Any = None

    async def take(self) -> None:
        """Connect, to the next replica than before."""
        await self.leave()
        address = self._replicas[self._next % len(self._replicas)]
        self._next += 1
        self._channel = rpc.channel(str(address), self._token, own_connection=True)
        self.table = rpc.stub(self._channel, _TABLE)

    async def leave(self) -> None:
        """Hang up."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None


class Follower:
    """Looks on, and does nothing."""

    def __init__(self, client: Client, road: Road, history: History) -> None:
        self.name = client.name
        self.game_id = client.game_id
        self.road = road
        self.version = 0
        self.seat: int | None = None
        self.decision: play_pb2.Decision | None = None
        self._history = history
        self._streams = itertools.count(1)
        self._stream = 0
        self._wants_snapshot = True
        history.add(client)

    @property
    def over(self) -> bool:
        """Whether the game is at its end, as far as this client was told: a game that goes on waits for a decision."""
        return self.version > 0 and self.decision is None

    async def follow(self) -> None:
        """Until the game is over, over as many connections as it takes."""
        try:
            while not self.over:
                await self.road.take()
                here = asyncio.create_task(self._say_here())
                try:
                    await self._follow_once()
                except grpc.aio.AioRpcError as error:
                    self._note_break(error)
                except (_Again, TimeoutError, asyncio.InvalidStateError) as error:
                    self._history.add(Broke(now_us(), self.name, repr(error)))
                finally:
                    here.cancel()
                if not self.over:
                    await asyncio.sleep(PAUSE_SECONDS)
        finally:
            await self.road.leave()

    async def _say_here(self) -> None:
        """Say so every five seconds, as everybody in a seat must; who hears nothing is found out by the stream."""
        while True:
            await asyncio.sleep(HERE_SECONDS)
            if self.seat is not None:
                with suppress(grpc.aio.AioRpcError):
                    await self.road.table.Here(table_pb2.HereRequest(game_id=self.game_id), timeout=CALL_SECONDS)
                    self._history.add(Heard(now_us(), self.name))

    def _note_break(self, error: grpc.aio.AioRpcError) -> None:
        reason = reason_of(error)
        if reason in _AGAIN or (reason is None and error.code() in _BROKEN):
            self._history.add(Broke(now_us(), self.name, reason or error.code().name))
        else:
            self.complain(f"{error.code().name} {reason}: {error.details()}")

    def complain(self, what: str) -> None:
        """Note what must not be."""
        self._history.add(Complained(now_us(), self.name, what))

    async def _follow_once(self) -> None:
        """Resume, and read until the stream ends."""
        stream = self.road.table.Watch(self._where())
        try:
            while (message := await within(SILENCE_SECONDS, stream.read())) is not grpc.aio.EOF:
                self._take(message)
        finally:
            stream.cancel()

    def _where(self) -> table_pb2.WatchRequest:
        """From where to go on."""
        self._stream = next(self._streams)
        after_version = 0 if self._wants_snapshot else self.version
        self._history.add(StreamOpened(now_us(), self.name, self._stream, after_version))
        return table_pb2.WatchRequest(game_id=self.game_id, after_version=after_version)

    def _take(self, message: table_pb2.WatchResponse | table_pb2.PlayResponse) -> None:
        """Note a message, and fold it in."""
        kind = message.WhichOneof("kind")
        match kind:
            case "snapshot":
                snapshot = message.snapshot
                self._note(kind, snapshot.version, snapshot.SerializeToString())
                self.version = snapshot.version
                self._wants_snapshot = False
                self.seat = snapshot.view.seat if snapshot.view.HasField("seat") else None
                self.decision = snapshot.decision if snapshot.HasField("decision") else None
            case "commit":
                commit = message.commit
                commit.command_id = ""
                self._note(kind, commit.version, commit.SerializeToString())
                self.version = commit.version
                self.decision = commit.decision if commit.HasField("decision") else None
            case "heartbeat":
                self._note(kind, message.heartbeat.version)
            case "closing":
                self._note(kind, message.closing.resume_after_version, message.closing.reason.encode())
                # Where nothing is to be resumed one begins anew.
                self._wants_snapshot = message.closing.resume_after_version == 0

    def _note(self, kind: str, version: int, content: bytes = b"") -> None:
        self._history.add(Told(now_us(), self.name, self._stream, kind, version, content))


class Player(Follower, ABC):
    """Plays legal moves whenever it may."""

    def __init__(
        self, client: Client, road: Road, history: History, habit: Habit, chance: random.Random, hurry: asyncio.Event
    ) -> None:
        super().__init__(client, road, history)
        self._habit = habit
        self._chance = chance
        # From then on decisions take no time.
        self._hurry = hurry
        # What was sent last and is not answered yet.
        self.open: Command | None = None
        self._acknowledged_version = 0
        # The version of a decision that is left to the clock.
        self._sleeps_at = 0

    def _may_move(self) -> bool:
        """Whether it is this player's turn and nothing was sent for it yet."""
        decision = self.decision
        return (
            self.open is None
            and decision is not None
            and decision.seat == self.seat
            and bool(decision.legal_moves)
            and self.version >= self._acknowledged_version
            and self.version != self._sleeps_at
        )

    async def _choose(self) -> Command | None:
        """A new move for the open decision, after some thought; None when it is left to the clock."""
        assert self.decision is not None
        command = Command(str(uuid4()), self.version, self._chance.choice(self.decision.legal_moves))
        if self._hurry.is_set():
            pass
        elif self.decision.deadline_ms and self._chance.random() < self._habit.sleeps:
            self._sleeps_at = self.version
            return None
        elif self.decision.deadline_ms and self._chance.random() < self._habit.dawdles:
            await self._think(self._seconds_left() - MARGIN_SECONDS)
        else:
            await self._think(self._habit.think_seconds)
        self.open = command
        return command

    def _seconds_left(self) -> float:
        """Until the open decision's deadline by the own clock, which may be wrong."""
        assert self.decision is not None
        own_now = now_us() / 1_000_000 + self._habit.clock_ahead_seconds
        return self.decision.deadline_ms / 1000 - own_now

    async def _think(self, seconds: float) -> None:
        if seconds > 0:
            with suppress(TimeoutError):
                await within(min(seconds, WAIT_SECONDS_MAX), self._hurry.wait())

    def _note_sent(self, command: Command) -> None:
        code = move_code(command.move)
        assert code is not None
        self._history.add(Sent(now_us(), self.name, command.command_id, command.at_version, code))

    def _acknowledge(self, command_id: str, version: int) -> None:
        """A command is in the log at this version, says the server."""
        if self.open is None or command_id != self.open.command_id:
            self.complain(f"answered command {command_id} with version {version}, but {self.open} was asked")
            return
        self._history.add(Acknowledged(now_us(), self.name, command_id, version))
        self._acknowledged_version = version
        self.open = None

    def _refuse(self, command_id: str, reason: str | None, details: str) -> None:
        """A command was not taken; raises _Again if it may be later."""
        if reason in _AGAIN:
            raise _Again(reason)
        if reason not in _TOO_LATE:
            self.complain(f"refused command {command_id} with {reason}: {details}")
        self._history.add(Refused(now_us(), self.name, command_id, reason or ""))
        self.open = None

    @abstractmethod
    async def _follow_once(self) -> None:
        """Resume, and play until the stream ends."""


class WatchingPlayer(Player):
    """Over Watch and Act."""

    async def _follow_once(self) -> None:
        stream = self.road.table.Watch(self._where())
        try:
            while True:
                if self.open is not None or self._may_move():
                    command = self.open or await self._choose()
                    if command is not None:
                        await self._act(command)
                message = await within(SILENCE_SECONDS, stream.read())
                if message is grpc.aio.EOF:
                    return
                self._take(message)
        finally:
            stream.cancel()

    async def _act(self, command: Command) -> None:
        request = table_pb2.ActRequest(
            game_id=self.game_id, command_id=command.command_id, at_version=command.at_version, move=command.move
        )
        self._note_sent(command)
        try:
            answer = await self.road.table.Act(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            reason = reason_of(error)
            if reason is None:
                raise
            self._refuse(command.command_id, reason, error.details() or "")
        else:
            self._acknowledge(command.command_id, answer.version)


class StreamingPlayer(Player):
    """Over Play."""

    async def _follow_once(self) -> None:
        stream = self.road.table.Play()
        try:
            await stream.write(table_pb2.PlayRequest(open=self._where()))
            if self.open is not None:
                await self._send(stream, self.open)
            while True:
                if self._may_move():
                    command = await self._choose()
                    if command is not None:
                        await self._send(stream, command)
                message = await within(SILENCE_SECONDS, stream.read())
                if message is grpc.aio.EOF:
                    return
                self._hear(message)
        finally:
            stream.cancel()

    async def _send(self, stream: Any, command: Command) -> None:
        act = table_pb2.PlayMove(command_id=command.command_id, at_version=command.at_version, move=command.move)
        self._note_sent(command)
        await stream.write(table_pb2.PlayRequest(act=act))

    def _hear(self, message: table_pb2.PlayResponse) -> None:
        """Fold a message in, and note what it answers."""
        match message.WhichOneof("kind"):
            case "commit" if message.commit.command_id:
                self._acknowledge(message.commit.command_id, message.commit.version)
                self._take(message)
            case "repeated_command":
                self._acknowledge(message.repeated_command.command_id, message.repeated_command.version)
            case "refusal":
                status = message.refusal.status
                self._refuse(message.refusal.command_id, reason_in(status), status.message)
            case _:
                self._take(message)


def player_for(habit: Habit) -> Callable[..., Player]:
    """The kind of player that a habit makes."""
    return StreamingPlayer if habit.streams else WatchingPlayer
