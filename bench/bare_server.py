"""The floor of `bench table`: a bare grpc.aio server that passes each move on to all streams of its game.

No rules, no log, no tokens, no checks, no messages: the bytes that come in go out. A game is named by the first
sixteen bytes of what a client sends.
"""

import asyncio
import sys
from collections import defaultdict
from typing import Any

import grpc
import uvloop

GAME_BYTES = 16


def identity(raw: bytes) -> bytes:
    """No serialisation at all."""
    return raw


async def serve() -> None:
    """Listen on a free port, print it, run until killed."""
    games: defaultdict[bytes, list[asyncio.Queue[bytes]]] = defaultdict(list)

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
        "Play": grpc.stream_stream_rpc_method_handler(play, identity, identity),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bare.Table", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(serve())
