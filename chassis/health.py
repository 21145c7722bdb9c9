"""Whether a replica says that calls should be sent to it: not while it cannot reach its database, nor when it drains.

The edge leaves a replica alone that does not serve; its open streams go on.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog

from chassis.database import Pool
from chassis.rpc import Server
from chassis.tasks import end

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 1.0
# A database that takes longer for nothing at all is of no use to callers either.
ANSWER_SECONDS: Final = 3.0

IsWell = Callable[[], Awaitable[bool]]


def reaches(pool: Pool) -> IsWell:
    """Well while the database answers."""

    async def is_well() -> bool:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await pool.execute("select")
        except Exception:
            return False
        return True

    return is_well


@asynccontextmanager
async def kept(server: Server, is_well: IsWell) -> AsyncIterator[None]:
    """Have `server` say that it serves while all is well; at the end of the context it drains."""
    looking = asyncio.create_task(_look(server, is_well), name="health")
    try:
        yield
    finally:
        await end(looking)
        await server.drain()


async def _look(server: Server, is_well: IsWell) -> None:
    told = True
    while True:
        # Not at once: at its start a replica has still to reach all that it needs.
        await asyncio.sleep(LOOK_SECONDS)
        well = await is_well()
        if well is not told:
            told = well
            await server.set_serving(well)
            if well:
                log.info("serves again")
            else:
                log.error("does not serve: what it needs is away")
