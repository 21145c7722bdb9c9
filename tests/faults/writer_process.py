"""A process that appends to games of its own until it is killed, and prints each row that it was told is committed."""

import asyncio
import os
import sys

from chassis.log import AppendResult, GroupWriter
from tests.streams import Stream

GAMES = 20


async def main(dsn: str) -> None:
    """Write for ever."""

    async def play(stream: Stream) -> None:
        while True:
            row = stream.next(os.urandom(50), facts=2)
            assert await writer.append(row) is AppendResult.COMMITTED
            stream.follow(row)
            os.write(1, f"{row.stream} {row.version}\n".encode())

    async with GroupWriter(dsn) as writer:
        await asyncio.gather(*(play(Stream()) for _ in range(GAMES)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
