"""A process that consumes facts until it is killed, and prints each number in the middle of its effect."""

import asyncio
import os
import sys

from chassis.bus import connect
from chassis.database import Session, open_pool
from chassis.facts import GAMES, Consumer, Fact, FactLog
from tests.facts import keep


async def keep_and_print(session: Session, fact: Fact) -> None:
    """The effect."""
    await keep(session, fact)
    os.write(1, f"{fact.number}\n".encode())


async def main(owner_dsn: str, dsn: str, nats_url: str, name: str) -> None:
    """Consume for ever."""
    owner = FactLog(await open_pool(owner_dsn, "test"))
    consumer = Consumer(
        name, GAMES, owner, await open_pool(dsn, "test"), await connect(nats_url, "test"), keep_and_print
    )
    await consumer.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
