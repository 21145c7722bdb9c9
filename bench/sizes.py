"""What one replica bears: many hosted games, many idle watchers, and many that come and go."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final
from uuid import uuid4

import grpc
import uvloop
from levata.table.v1 import games_pb2, table_pb2

from bench.load import Metadata, Tables, aio_channels, connections, load, seated
from bench.moves import GAMES, ROUNDS, SECONDS, open_bare
from bench.processes import cpu_seconds, memory_bytes, metric
from bench.report import Ratio, less_is_better, more_is_better
from bench.servers import Backend, Service, backend, bare_server
from chassis.auth import Signer
from chassis.settings import Address
from tools.embedded.process import free_port
from tools.faults.link import Link

FEW_GAMES, MANY_GAMES = 100, 10_000
SLOWER_FLOOR, GAME_LIMIT_KB = 0.9, 40.0
MAKERS = 32
WATCHERS, WATCHERS_A_GAME, WATCHED_SECONDS = 5_000, 5, 15.0
WATCHER_MEMORY_FLOOR, WATCHER_CPU_FLOOR = 1 / 1.5, 1 / 2
WATCHES_A_WAY, AT_ONCE = 3_334, 500
# A peer that fell silent is found by a ping after fifteen seconds that is not answered in five more.
SILENT_PEER_SECONDS = 40.0
BACK_AT_BASE_FLOOR, MEMORY_AT_BASE_FLOOR = 1.0, 0.9

_WATCH: Final = "/levata.table.v1.Table/Watch"

# How watches come to their end.
End = Callable[[Sequence[Any]], Awaitable[None]]


class SoloGames:
    """Games of one person among bots: they wait for that person, for as long as it takes."""

    def __init__(self, channel: grpc.aio.Channel, signer: Signer) -> None:
        self._internal = (("authorization", f"Bearer {signer.service_token('tools', 36_000)}"),)
        self.account = str(uuid4())
        self.metadata: Metadata = (("authorization", f"Bearer {signer.player_token(self.account, False, 36_000)}"),)
        self._prepare = channel.unary_unary(
            "/levata.table.v1.Games/Prepare",
            games_pb2.PrepareRequest.SerializeToString,
            games_pb2.PrepareResponse.FromString,
        )
        self._create = channel.unary_unary(
            "/levata.table.v1.Games/Create",
            games_pb2.CreateRequest.SerializeToString,
            games_pb2.CreateResponse.FromString,
        )

    async def make(self, count: int) -> list[str]:
        """So many games, hosted by the replica that is asked."""
        gate = asyncio.Semaphore(MAKERS)

        async def make_one() -> str:
            async with gate:
                return await self._make_one()

        return await asyncio.gather(*(make_one() for _ in range(count)))

    async def _make_one(self) -> str:
        prepared = await self._prepare(
            games_pb2.PrepareRequest(
                request_id=str(uuid4()),
                game_type="romanian_whist",
                variant="8-1-8",
                seats=4,
                mode=table_pb2.MODE_SOLO,
            ),
            metadata=self._internal,
        )
        seats = [games_pb2.SeatSetup(account=games_pb2.AccountSeat(account_id=self.account))]
        seats += [games_pb2.SeatSetup(bot=games_pb2.BotSeat()) for _ in range(3)]
        await self._create(games_pb2.CreateRequest(game_id=prepared.game_id, seats=seats), metadata=self._internal)
        return str(prepared.game_id)


def hosted_games() -> list[Ratio]:
    """The same load beside a hundred waiting games and beside ten thousand."""
    with backend() as running, running.table_service() as table, bare_server() as bare:
        return uvloop.run(_hosted_games(running.signer, table, bare))


async def _hosted_games(signer: Signer, table: Service, bare: Service) -> list[Ratio]:
    async with (
        connections(table.address) as ours,
        connections(bare.address) as theirs,
        seated(Tables(ours, signer, 4, over_play=True).open, GAMES) as games,
        seated(partial(open_bare, theirs, 4, True), GAMES) as bare_games,
    ):
        solo = SoloGames(ours[0], signer)

        async def against_bare() -> list[float]:
            ratios = []
            for _ in range(ROUNDS):
                moves = (await load(games, SECONDS)).moves
                floor = (await load(bare_games, SECONDS)).moves
                ratios.append(moves / floor)
            return ratios

        await solo.make(FEW_GAMES)
        few = await against_bare()
        before = memory_bytes(table.process.pid)
        await solo.make(MANY_GAMES - FEW_GAMES)
        # Their bots have played, and the last garbage of their making is gone.
        await asyncio.sleep(5)
        each_kb = (memory_bytes(table.process.pid) - before) / (MANY_GAMES - FEW_GAMES) / 1024
        many = await against_bare()
    how = (
        f"one replica, {GAMES} games over Play beside {MANY_GAMES:,} waiting ones; peer: beside {FEW_GAMES}; each as a "
        f"ratio to the bare server, {ROUNDS} x {SECONDS:g} s alternating"
    )
    memory = f"resident memory for {MANY_GAMES - FEW_GAMES:,} more waiting games of four seats; peer: the limit"
    return [
        more_is_better("moves_with_many_games", sorted(many), sorted(few), "of bare", SLOWER_FLOOR, how),
        less_is_better("memory_a_hosted_game", [each_kb], [GAME_LIMIT_KB], "KB", 1.0, memory),
    ]


def idle_watchers() -> list[Ratio]:
    """Streams on which nothing happens but heartbeats, against the same on a bare server."""
    with backend() as running, running.table_service() as table, bare_server() as bare:
        return uvloop.run(_idle_watchers(running.signer, table, bare))


async def _idle_watchers(signer: Signer, table: Service, bare: Service) -> list[Ratio]:
    async with connections(table.address) as ours, connections(bare.address) as theirs:
        solo = SoloGames(ours[0], signer)
        games = await solo.make(WATCHERS // WATCHERS_A_GAME)
        await asyncio.sleep(3)

        def watch(number: int) -> Any:
            start: Any = ours[number % len(ours)].unary_stream(_WATCH, table_pb2.WatchRequest.SerializeToString)
            return start(table_pb2.WatchRequest(game_id=games[number % len(games)]), metadata=solo.metadata)

        def idle(number: int) -> Any:
            start: Any = theirs[number % len(theirs)].unary_stream("/bare.Table/Idle")
            return start(bytes(16))

        our_memory, our_cpu = await _cost_of_streams(table.process.pid, watch)
        their_memory, their_cpu = await _cost_of_streams(bare.process.pid, idle)
    how = f"{WATCHERS:,} idle streams on one replica; peer: as many on a bare server with the same heartbeat"
    return [
        less_is_better("memory_a_watcher", [our_memory], [their_memory], "KB", WATCHER_MEMORY_FLOOR, how),
        less_is_better(
            "cpu_of_watchers", [our_cpu], [their_cpu], "cores", WATCHER_CPU_FLOOR, f"{how}, {WATCHED_SECONDS:g} s"
        ),
    ]


async def _cost_of_streams(pid: int, open_stream: Callable[[int], Any]) -> tuple[float, float]:
    """KB a stream, and cores while nothing happens."""
    before = memory_bytes(pid)
    streams = [open_stream(number) for number in range(WATCHERS)]
    for stream in streams:
        await stream.read()
    readers = [asyncio.create_task(_read_on(stream)) for stream in streams]
    await asyncio.sleep(5)
    began, used = time.perf_counter(), cpu_seconds(pid)
    await asyncio.sleep(WATCHED_SECONDS)
    cores = (cpu_seconds(pid) - used) / (time.perf_counter() - began)
    each_kb = (memory_bytes(pid) - before) / WATCHERS / 1024
    for stream, reader in zip(streams, readers, strict=True):
        stream.cancel()
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    return each_kb, cores


async def _read_on(stream: Any) -> None:
    with suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
        while await stream.read() is not grpc.aio.EOF:
            pass


def passing_watchers() -> list[Ratio]:
    """Ten thousand watches that end in three ways, and what is left of them."""
    metrics = Address("127.0.0.1", free_port())
    with backend() as running, running.table_service(metrics) as table:
        return uvloop.run(_passing_watchers(running, table, metrics))


async def _passing_watchers(running: Backend, table: Service, metrics: Address) -> list[Ratio]:
    host, _, port = table.address.rpartition(":")
    link = Link("watchers", Address(host, int(port)))
    await link.start()
    async with connections(table.address) as channels:
        solo = SoloGames(channels[0], running.signer)
        games = await solo.make(20)

        async def storm(watches: int, end: End) -> None:
            for start in range(0, watches, AT_ONCE):
                through = aio_channels(str(link.address), 4)
                streams = []
                for number in range(start, min(start + AT_ONCE, watches)):
                    watch: Any = through[number % 4].unary_stream(_WATCH, table_pb2.WatchRequest.SerializeToString)
                    request = table_pb2.WatchRequest(game_id=games[number % len(games)])
                    streams.append(watch(request, metadata=solo.metadata))
                for stream in streams:
                    await stream.read()
                await end(streams)
                for channel in through:
                    await channel.close()

        async def cancel(streams: Sequence[Any]) -> None:
            for stream in streams:
                stream.cancel()

        async def reset(_: Sequence[Any]) -> None:
            link.cut()

        async def fall_silent(_: Sequence[Any]) -> None:
            # What the clients say when they close does not come through any more.
            link.hold()

        async def settled() -> dict[str, float]:
            await asyncio.sleep(2)
            return {
                "streams": metric(metrics, "levata_rpc_open_calls"),
                "tasks": metric(metrics, "levata_tasks"),
                "connections": metric(metrics, "levata_pool_connections", 'state="used"'),
                "memory": memory_bytes(table.process.pid) / 1024 / 1024,
            }

        # Memory that a process once had it keeps: its base is what it has after the first of them.
        await storm(AT_ONCE, cancel)
        base = await settled()
        await storm(WATCHES_A_WAY, cancel)
        await storm(WATCHES_A_WAY, reset)
        for start in range(0, WATCHES_A_WAY, AT_ONCE):
            await storm(min(AT_ONCE, WATCHES_A_WAY - start), fall_silent)
            await _until_gone(metrics)
            link.mend()
            link.cut()
        after = await settled()
    await link.stop()
    how = f"{3 * WATCHES_A_WAY:,} watches: cancelled, reset and silently dropped in equal parts; peer: before them"
    ratios = [
        # Of which there may be none before and after.
        less_is_better(f"{what}_after_watches", [after[what] + 1], [base[what] + 1], "1 +", BACK_AT_BASE_FLOOR, how)
        for what in ("streams", "tasks", "connections")
    ]
    memory = less_is_better(
        "memory_after_watches", [after["memory"]], [base["memory"]], "MB", MEMORY_AT_BASE_FLOOR, how
    )
    return [*ratios, memory]


async def _until_gone(metrics: Address) -> None:
    """Until the server has found out that nobody is there any more, or should have."""
    stop = time.perf_counter() + SILENT_PEER_SECONDS
    while metric(metrics, "levata_rpc_open_calls") and time.perf_counter() < stop:
        await asyncio.sleep(0.5)
