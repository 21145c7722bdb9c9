"""How soon the games of a host that was killed accept moves at another replica."""

import asyncio
import time
from statistics import median
from typing import Any, Final
from uuid import uuid4

import grpc
import uvloop
from levata.table.v1 import play_pb2, table_pb2

from bench.load import connections
from bench.report import Ratio, less_is_better
from bench.servers import Service, backend
from bench.sizes import SoloGames
from chassis.auth import Signer

GAMES = 500
ALL_LIMIT_SECONDS, MEDIAN_LIMIT_SECONDS = 10.0, 4.0
RETRY_SECONDS = 0.1
GIVE_UP_SECONDS = 60.0
_ACT: Final = "/levata.table.v1.Table/Act"
_WATCH: Final = "/levata.table.v1.Table/Watch"


def take_over() -> list[Ratio]:
    """kill -9 of a host of five hundred games; their players go on at the other replica."""
    with backend() as running, running.table_service() as host, running.table_service() as other:
        return uvloop.run(_take_over(running.signer, host, other))


async def _take_over(signer: Signer, host: Service, other: Service) -> list[Ratio]:
    async with connections(host.address) as at_host, connections(other.address) as at_other:
        solo = SoloGames(at_host[0], signer)
        games = await solo.make(GAMES)
        # A replica judges others only when its own heartbeats have held for a while.
        await asyncio.sleep(5)
        moves = [await _open_move(at_host[0], solo, game) for game in games]
        host.process.kill()
        killed_at = time.perf_counter()

        async def accepted(number: int) -> float:
            act: Any = at_other[number % len(at_other)].unary_unary(
                _ACT, table_pb2.ActRequest.SerializeToString, table_pb2.ActResponse.FromString
            )
            while time.perf_counter() - killed_at < GIVE_UP_SECONDS:
                try:
                    await act(moves[number], metadata=solo.metadata, timeout=10)
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(RETRY_SECONDS)
                else:
                    break
            return time.perf_counter() - killed_at

        times = await asyncio.gather(*map(accepted, range(GAMES)))
    how = f"kill -9 of the host of {GAMES} games, all players asking the other replica; peer: the limit"
    return [
        less_is_better("takeover_of_all", [max(times)], [ALL_LIMIT_SECONDS], "s", 1.0, how),
        less_is_better("takeover_median", [median(times)], [MEDIAN_LIMIT_SECONDS], "s", 1.0, how),
    ]


async def _open_move(channel: grpc.aio.Channel, solo: SoloGames, game_id: str) -> table_pb2.ActRequest:
    """The first legal move of the person whose turn it is, once it is."""
    watch: Any = channel.unary_stream(
        _WATCH, table_pb2.WatchRequest.SerializeToString, table_pb2.WatchResponse.FromString
    )
    stream = watch(table_pb2.WatchRequest(game_id=game_id), metadata=solo.metadata)
    version, decision = 0, play_pb2.Decision()
    while not decision.legal_moves:
        message = await stream.read()
        seen = message.snapshot if message.WhichOneof("kind") == "snapshot" else message.commit
        if seen.version:
            version, decision = seen.version, seen.decision
    stream.cancel()
    return table_pb2.ActRequest(
        game_id=game_id, command_id=str(uuid4()), at_version=version, move=decision.legal_moves[0]
    )
