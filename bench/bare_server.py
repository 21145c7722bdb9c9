"""The floor of `bench table`: a bare grpc.aio server that passes each move on to all streams of its game.

No rules, no log, no tokens, no checks, no messages: the bytes that come in go out. A game is named by the first
sixteen bytes of what a client sends. A stream of `Idle` gets the same few bytes every three seconds, as a watcher does
while nothing happens.
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from typing import Any

import grpc
import uvloop

GAME_BYTES = 16
HEARTBEAT_SECONDS = 3.0
HEARTBEAT = bytes(4)
CALLS = 10_000


def identity(raw: bytes) -> bytes:
    """No serialisation at all."""
    return raw


async def run(services: Mapping[str, dict[str, Any]], beside: Coroutine[Any, Any, None]) -> None:
    """Serve these methods by service on a free port, print it, and do this beside it, until killed."""
    # By default it ends some at random when more than a thousand come at once.
    room = [("grpc.server.max_pending_requests", CALLS), ("grpc.server.max_pending_requests_hard_limit", CALLS)]
    server = grpc.aio.server(options=room)
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(name, methods) for name, methods in services.items()]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    task = asyncio.create_task(beside)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await server.wait_for_termination()
    task.cancel()


async def serve() -> None:
    """All of the floor."""
    games: defaultdict[bytes, list[asyncio.Queue[bytes]]] = defaultdict(list)
    idle: list[asyncio.Queue[bytes]] = []

    async def beat() -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            for queue in idle:
                queue.put_nowait(HEARTBEAT)

    def pass_on(move: bytes) -> None:
        for queue in games[move[:GAME_BYTES]]:
            queue.put_nowait(move)

    async def act(move: bytes, _: Any) -> bytes:
        pass_on(move)
        return move

    async def watch(first: bytes, context: Any) -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        games[first[:GAME_BYTES]].append(queue)
        await context.write(first)
        while True:
            await context.write(await queue.get())

    async def watch_idly(first: bytes, context: Any) -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        idle.append(queue)
        await context.write(first)
        while True:
            await context.write(await queue.get())

    async def play(_: Any, context: Any) -> None:
        first = await context.read()
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        games[first[:GAME_BYTES]].append(queue)

        async def take_moves() -> None:
            while (move := await context.read()) is not grpc.aio.EOF:
                pass_on(move)

        taking = asyncio.create_task(take_moves())
        await context.write(first)
        try:
            while True:
                await context.write(await queue.get())
        finally:
            taking.cancel()

    handlers = {
        "Act": grpc.unary_unary_rpc_method_handler(act, identity, identity),
        "Watch": grpc.unary_stream_rpc_method_handler(watch, identity, identity),
        "Idle": grpc.unary_stream_rpc_method_handler(watch_idly, identity, identity),
        "Play": grpc.stream_stream_rpc_method_handler(play, identity, identity),
    }
    await run({"bare.Table": handlers}, beat())


if __name__ == "__main__":
    uvloop.run(serve())
