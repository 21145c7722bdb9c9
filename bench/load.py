"""Players for `bench table`: whole games over raw gRPC, the same work a message against ours and against the floor."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias
from uuid import UUID, uuid4

import grpc
from levata.table.v1 import games_pb2, play_pb2, table_pb2

from chassis.auth import Signer

CONNECTIONS = 4
# A player who is not heard of for ten seconds is away.
STAY_SECONDS = 3.0
Metadata: TypeAlias = tuple[tuple[str, str], ...]
# What the floor passes on: as many bytes as a move of ours has.
_SAMPLE = table_pb2.WatchResponse(
    commit=table_pb2.Commit(
        version=500,
        decided_at_ms=1_700_000_000_000,
        events=[table_pb2.Event(moved=table_pb2.Moved(seat=3, move=play_pb2.Move(play_card=play_pb2.CARD_9H)))],
        decision=play_pb2.Decision(seat=2, phase=play_pb2.PHASE_PLAYING, deadline_ms=1_700_000_015_000),
    )
).SerializeToString()


_COMMIT_TAG = _SAMPLE[0]


@dataclass
class Tally:
    """Moves and how long each took until all streams had it, in seconds."""

    moves: int = 0
    latencies: list[float] = field(default_factory=list)

    @property
    def p99_ms(self) -> float:
        """The 99th percentile in milliseconds."""
        ordered = sorted(self.latencies)
        return ordered[int(len(ordered) * 0.99)] * 1000


class Game(Protocol):
    """One game with all its streams open."""

    async def move(self) -> None:
        """Make one move and wait until every stream has it."""
        ...

    async def stay(self) -> None:
        """Say that the players are still there."""
        ...

    async def close(self) -> None:
        """End the streams."""
        ...


Opener = Callable[[int], Awaitable[Game]]


@asynccontextmanager
async def seated(open_game: Opener, games: int) -> AsyncIterator[list[Game]]:
    """So many games with all their players, who stay: bots would play games out that people have left, at full speed,
    while something else is measured."""
    running = await asyncio.gather(*(open_game(number) for number in range(games)))
    staying = asyncio.create_task(_stay(running))
    try:
        yield running
    finally:
        staying.cancel()
        await asyncio.gather(*(game.close() for game in running))


async def _stay(games: Sequence[Game]) -> None:
    due = time.perf_counter()
    while True:
        for game in games:
            due += STAY_SECONDS / len(games)
            # A round that falls behind, while a server is kept busy, goes on without pauses: its players stay in time.
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await game.stay()
        due = max(due, time.perf_counter() - STAY_SECONDS)


async def load(running: Sequence[Game], seconds: float, rate: float | None = None) -> Tally:
    """Play these games for `seconds` after a second of warm-up, as fast as it goes or at `rate` moves a second."""
    tally = Tally()
    start = time.perf_counter() + 1
    stop = start + seconds
    pause = None if rate is None else len(running) / rate

    async def play(game: Game, offset: float) -> None:
        due = time.perf_counter() + offset
        while True:
            if pause is not None:
                # Open loop: a late move is late from when it was due.
                await asyncio.sleep(due - time.perf_counter())
            began = time.perf_counter() if pause is None else due
            if began >= stop:
                return
            await game.move()
            now = time.perf_counter()
            if start <= began and now < stop:
                tally.moves += 1
                tally.latencies.append(now - began)
            if pause is not None:
                due += pause

    await asyncio.gather(
        *(play(game, 0 if pause is None else pause * n / len(running)) for n, game in enumerate(running))
    )
    return tally


def _identity(raw: bytes) -> bytes:
    return raw


def aio_channels(address: str, count: int) -> list[grpc.aio.Channel]:
    """Channels that do not share connections."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    return [grpc.aio.insecure_channel(address, options=options) for _ in range(count)]


@asynccontextmanager
async def connections(address: str) -> AsyncIterator[list[grpc.aio.Channel]]:
    """Some connections of their own to one server."""
    channels = aio_channels(address, CONNECTIONS)
    yield channels
    for channel in channels:
        await channel.close()


async def _next_commit(stream: Any) -> bytes:
    """The next message that is a commit: in a lull heartbeats come between."""
    while True:
        message = await stream.read()
        assert message is not grpc.aio.EOF, "the stream ended before the game"
        if message[0] == _COMMIT_TAG:
            return bytes(message)


class BareGame:
    """A game of the floor: the client parses as many messages a move as with ours."""

    def __init__(self, channel: grpc.aio.Channel, number: int, seats: int, over_play: bool) -> None:
        self._id = number.to_bytes(16, "big")
        self._move = self._id + b"." * (len(_SAMPLE) - 16)
        self._over_play = over_play
        self._act = channel.unary_unary("/bare.Table/Act", _identity, _identity)
        if over_play:
            self._streams: list[Any] = [
                channel.stream_stream("/bare.Table/Play", _identity, _identity)() for _ in range(seats)
            ]
        else:
            watch = channel.unary_stream("/bare.Table/Watch", _identity, _identity)
            self._streams = [watch(self._move) for _ in range(seats)]
        self._turns = itertools.cycle(range(seats))

    async def open(self) -> "BareGame":
        """Wait for the first message of every stream."""
        if self._over_play:
            for stream in self._streams:
                await stream.write(self._move)
        for stream in self._streams:
            await stream.read()
        return self

    async def move(self) -> None:
        if self._over_play:
            await self._streams[next(self._turns)].write(self._move)
        else:
            await self._act(self._move)
        for stream in self._streams:
            await stream.read()
        table_pb2.WatchResponse.FromString(_SAMPLE)
        table_pb2.WatchResponse.FromString(_SAMPLE)

    async def stay(self) -> None:
        pass

    async def close(self) -> None:
        for stream in self._streams:
            stream.cancel()


class Tables:
    """Opens games at our table service."""

    def __init__(
        self,
        channels: list[grpc.aio.Channel],
        signer: Signer,
        seats: int,
        over_play: bool,
        *,
        behind_edge: list[grpc.aio.Channel] | None = None,
    ) -> None:
        self._channels = channels
        # Where games are made, if not over the players' own connections.
        self._internal_channels = behind_edge or channels
        self._seats = seats
        self._over_play = over_play
        self._internal = (("authorization", f"Bearer {signer.service_token('tools', 36_000)}"),)
        self._accounts = [str(UUID(int=n + 1, version=4)) for n in range(seats)]
        self.tokens: list[Metadata] = [
            (("authorization", f"Bearer {signer.player_token(account, False, 36_000)}"),) for account in self._accounts
        ]

    async def open(self, number: int) -> "TableGame":
        """A game with a person in every seat, all streams open."""
        channel = self._channels[number % len(self._channels)]
        internal = self._internal_channels[number % len(self._internal_channels)]
        game_id = await self.create(internal)
        game = TableGame(channel, self.tokens, game_id, self._over_play, lambda: self.create(internal))
        return await game.open()

    async def create(self, channel: grpc.aio.Channel) -> str:
        """A game that nobody watches yet."""
        prepare = channel.unary_unary(
            "/levata.table.v1.Games/Prepare",
            games_pb2.PrepareRequest.SerializeToString,
            games_pb2.PrepareResponse.FromString,
        )
        create = channel.unary_unary(
            "/levata.table.v1.Games/Create",
            games_pb2.CreateRequest.SerializeToString,
            games_pb2.CreateResponse.FromString,
        )
        prepared = await prepare(
            games_pb2.PrepareRequest(
                request_id=str(uuid4()),
                game_type="romanian_whist",
                variant="8-1-8",
                seats=self._seats,
                mode=table_pb2.MODE_FRIENDLY,
            ),
            metadata=self._internal,
        )
        seats = [games_pb2.SeatSetup(account=games_pb2.AccountSeat(account_id=account)) for account in self._accounts]
        clock = games_pb2.ClockOptions(bid_seconds=600, card_seconds=600)
        await create(
            games_pb2.CreateRequest(game_id=prepared.game_id, seats=seats, clock=clock), metadata=self._internal
        )
        return str(prepared.game_id)


class TableGame:
    """A game of ours, played by clients that know no rules: the first legal move, again and again."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        tokens: list[Metadata],
        game_id: str,
        over_play: bool,
        create: Callable[[], Awaitable[str]],
    ) -> None:
        self._channel = channel
        self._tokens = tokens
        self._game_id = game_id
        self._over_play = over_play
        self._create = create
        self._act = channel.unary_unary("/levata.table.v1.Table/Act", _identity, _identity)
        self._here: Any = channel.unary_unary("/levata.table.v1.Table/Here")
        self._streams: list[Any] = []
        self._moved_at = 0.0
        self._version = 0
        self._turn = 0
        self._next: play_pb2.Move | None = None

    async def open(self) -> "TableGame":
        """Open all streams and read their snapshots."""
        opening = table_pb2.WatchRequest(game_id=self._game_id)
        if self._over_play:
            play = self._channel.stream_stream("/levata.table.v1.Table/Play", _identity, _identity)
            self._streams = [play(metadata=token) for token in self._tokens]
            first = table_pb2.PlayRequest(open=opening).SerializeToString()
            for stream in self._streams:
                await stream.write(first)
        else:
            watch = self._channel.unary_stream("/levata.table.v1.Table/Watch", _identity, _identity)
            self._streams = [watch(opening.SerializeToString(), metadata=token) for token in self._tokens]
        snapshots = [table_pb2.WatchResponse.FromString(await stream.read()).snapshot for stream in self._streams]
        self._version = snapshots[0].version
        self._see([snapshot.decision for snapshot in snapshots])
        return self

    def _see(self, decisions: list[play_pb2.Decision]) -> None:
        self._turn = decisions[0].seat
        self._next = decisions[self._turn].legal_moves[0]

    async def move(self) -> None:
        self._moved_at = time.perf_counter()
        command = str(uuid4())
        if self._over_play:
            request = table_pb2.PlayRequest(
                act=table_pb2.PlayMove(command_id=command, at_version=self._version, move=self._next)
            )
            await self._streams[self._turn].write(request.SerializeToString())
        else:
            act = table_pb2.ActRequest(
                game_id=self._game_id, command_id=command, at_version=self._version, move=self._next
            )
            await self._act(act.SerializeToString(), metadata=self._tokens[self._turn])
        messages = [await _next_commit(stream) for stream in self._streams]
        commit = table_pb2.WatchResponse.FromString(messages[0]).commit
        self._version = commit.version
        if not commit.HasField("decision"):
            # Over: on with another one.
            await self.close()
            self._game_id = await self._create()
            await self.open()
            return
        self._turn = commit.decision.seat
        self._next = table_pb2.WatchResponse.FromString(messages[self._turn]).commit.decision.legal_moves[0]

    async def stay(self) -> None:
        # Whoever moves is heard of.
        if time.perf_counter() - self._moved_at < STAY_SECONDS:
            return
        here = table_pb2.HereRequest(game_id=self._game_id).SerializeToString()
        # One that fails is made up for by the next.
        await asyncio.gather(
            *(self._here(here, metadata=token, timeout=2) for token in self._tokens), return_exceptions=True
        )

    async def close(self) -> None:
        for stream in self._streams:
            stream.cancel()
