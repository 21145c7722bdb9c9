"""Watches that are held for minutes through the edge, while their games go on: nothing may be lost on them.

Every seat of every game has a stream of its own, says every five seconds that it is there, and follows the versions.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

import grpc
from levata.table.v1 import play_pb2, table_pb2

from bench.load import Metadata, Tables, aio_channels

SEATS: Final = 6
CONNECTIONS: Final = 12
EVERY_SECONDS: Final = 5.0
# What was sent has arrived by then.
SETTLE_SECONDS: Final = 5.0
# A watch that has no snapshot by then will have none.
OPEN_SECONDS_MAX: Final = 120.0
# Streams through a stopped server end by then, or are taken for hanging.
RESET_SECONDS_MAX: Final = 30.0


class Held:
    """One watch, from its snapshot on."""

    def __init__(self) -> None:
        self.version = 0
        self.decision: play_pb2.Decision | None = None
        # Messages out of order: something before them was lost.
        self.gaps = 0
        self.end = ""
        self.ended_at: float | None = None

    async def follow(self, stream: Any) -> None:
        """Read until the stream ends, which it should not."""
        try:
            while (raw := await stream.read()) is not grpc.aio.EOF:
                self._take(table_pb2.WatchResponse.FromString(raw))
            self.end = "in order"
        except grpc.aio.AioRpcError as error:
            self.end = f"{error.code().name}: {error.details()}"
        self.ended_at = time.perf_counter()

    def _take(self, response: table_pb2.WatchResponse) -> None:
        match response.WhichOneof("kind"):
            case "snapshot":
                self.version, self.decision = response.snapshot.version, response.snapshot.decision
            case "commit":
                self.gaps += response.commit.version != self.version + 1
                self.version, self.decision = response.commit.version, response.commit.decision
            case "heartbeat":
                self.gaps += response.heartbeat.version != self.version


class HeldGame:
    """A game whose seats all watch, and move now and then."""

    def __init__(self, channel: grpc.aio.Channel, tokens: Sequence[Metadata], game_id: str) -> None:
        self.watches = [Held() for _ in tokens]
        self._metadata = [(*token, ("x-game-id", game_id)) for token in tokens]
        self._channel = channel
        self._game_id = game_id
        self._act = channel.unary_unary(
            "/levata.table.v1.Table/Act",
            table_pb2.ActRequest.SerializeToString,
            table_pb2.ActResponse.FromString,
        )
        self._here: Any = channel.unary_unary("/levata.table.v1.Table/Here", table_pb2.HereRequest.SerializeToString)
        # As the answers to moves tell it.
        self.version = 0
        self.tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Start all its streams."""
        watch: Any = self._channel.unary_stream(
            "/levata.table.v1.Table/Watch", table_pb2.WatchRequest.SerializeToString
        )
        request = table_pb2.WatchRequest(game_id=self._game_id)
        for held, metadata in zip(self.watches, self._metadata, strict=True):
            self.tasks.append(asyncio.create_task(held.follow(watch(request, metadata=metadata))))

    async def play(self, until: float, offset: float) -> None:
        """Move every few seconds, and have all seats say that they are there until what was sent has arrived."""
        await asyncio.sleep(offset)
        while (now := time.perf_counter()) < until + SETTLE_SECONDS:
            if now < until:
                await self._move()
            await asyncio.gather(*(self._say_here(metadata) for metadata in self._metadata))
            await asyncio.sleep(max(0, now + EVERY_SECONDS - time.perf_counter()))

    @property
    def complete(self) -> int:
        """Watches on which everything arrived, and which are still open."""
        last = max(self.version, *(held.version for held in self.watches))
        return sum(held.version == last and not held.gaps and held.ended_at is None for held in self.watches)

    async def _move(self) -> None:
        seen = self.watches[0].decision
        if seen is None or not (legal := self._legal(seen.seat)):
            return
        request = table_pb2.ActRequest(
            game_id=self._game_id,
            command_id=str(uuid4()),
            at_version=self.watches[seen.seat].version,
            move=legal[0],
        )
        # One that fails is made again at the next turn: it is the watches that are measured.
        with suppress(grpc.aio.AioRpcError):
            answer = await self._act(request, metadata=self._metadata[seen.seat], timeout=10)
            self.version = answer.version

    def _legal(self, seat: int) -> Sequence[play_pb2.Move]:
        decision = self.watches[seat].decision
        return () if decision is None else decision.legal_moves

    async def _say_here(self, metadata: Metadata) -> None:
        with suppress(grpc.aio.AioRpcError):
            await self._here(table_pb2.HereRequest(game_id=self._game_id), metadata=metadata, timeout=10)


class Holding:
    """Many games at once."""

    def __init__(self, games: Sequence[HeldGame]) -> None:
        self._games = games

    @property
    def watches(self) -> list[Held]:
        """All watches of all games."""
        return [held for game in self._games for held in game.watches]

    async def hold(self, seconds: float) -> int:
        """Open all, play on for so long; answers with the number of watches on which nothing was lost."""
        for game in self._games:
            game.open()
        async with asyncio.timeout(OPEN_SECONDS_MAX):
            while not all(held.version for held in self.watches):
                ends = {held.end for held in self.watches if held.end}
                assert not ends, f"watches that were not to end did: {ends}"
                await asyncio.sleep(0.1)
        until = time.perf_counter() + seconds
        spread = EVERY_SECONDS / len(self._games)
        await asyncio.gather(*(game.play(until, number * spread) for number, game in enumerate(self._games)))
        return sum(game.complete for game in self._games)

    async def reset_seconds(self, stopped_at: float) -> float:
        """How long after the server was stopped the last stream ended."""
        tasks = [task for game in self._games for task in game.tasks]
        _, hanging = await asyncio.wait(tasks, timeout=RESET_SECONDS_MAX)
        if hanging:
            return RESET_SECONDS_MAX
        return max(held.ended_at - stopped_at for held in self.watches if held.ended_at is not None)


async def open_holding(edge: str, internal: grpc.aio.Channel, tables: Tables, watches: int) -> Holding:
    """Games for so many watches, made over the internal connection and watched through the edge."""
    channels = aio_channels(edge, CONNECTIONS)
    games = []
    for number in range(watches // SEATS):
        game_id = await tables.create(internal)
        games.append(HeldGame(channels[number % CONNECTIONS], tables.tokens, game_id))
    return Holding(games)
