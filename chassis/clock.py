"""The one clock: database time by a measured offset.

All services of a deployment share the database's time, so that deadlines and days mean the same on every machine. SQL
has the same time from `levata_now()`, which also adds the offset that only tests and demonstrations set; measuring
that function brings the offset in here too. Knows nothing of time zones, days or weeks.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol
from uuid import UUID

import structlog
import uuid_utils

log = structlog.get_logger(__name__)

# Of so many round trips the shortest one counts: half of it bounds the error.
MEASUREMENTS = 5

# Machines' clocks drift apart by some milliseconds in this time.
MEASURE_EVERY_SECONDS = 60

_DATABASE_NOW_US = "select (extract(epoch from levata_now()) * 1000000)::bigint"


class Database(Protocol):
    """What a measurement needs: an asyncpg pool or connection."""

    async def fetchval(self, query: str) -> int:
        """Run `query` and return its single value."""


class Clock:
    """Microseconds since 1970; the process's own time until measured, monotonic between measurements."""

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    @classmethod
    async def measured(cls, database: Database) -> "Clock":
        """A clock that has been set to the database's time."""
        clock = cls()
        await clock.measure(database)
        return clock

    @classmethod
    @asynccontextmanager
    async def following(cls, database: Database) -> AsyncIterator["Clock"]:
        """A clock that is set to the database's time again and again; it runs on by itself while that is away."""
        clock = await cls.measured(database)
        following = asyncio.create_task(clock._follow(database))
        try:
            yield clock
        finally:
            following.cancel()

    async def _follow(self, database: Database) -> None:
        while True:
            await asyncio.sleep(MEASURE_EVERY_SECONDS)
            try:
                await self.measure(database)
            except Exception as error:
                log.warning("the clock could not be compared with the database's", error=repr(error))

    async def measure(self, database: Database) -> None:
        """Set the clock to the database's time."""
        shortest_ns: int | None = None
        for _ in range(MEASUREMENTS):
            sent_ns = time.monotonic_ns()
            database_us = await database.fetchval(_DATABASE_NOW_US)
            trip_ns = time.monotonic_ns() - sent_ns
            if shortest_ns is None or trip_ns < shortest_ns:
                shortest_ns = trip_ns
                self._offset_ns = database_us * 1000 - (sent_ns + trip_ns // 2)

    def now_us(self) -> int:
        """Microseconds since 1970."""
        return (time.monotonic_ns() + self._offset_ns) // 1000

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    def now_s(self) -> int:
        """Whole seconds since 1970."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000_000

    def new_id(self) -> UUID:
        """A new UUIDv7 with this clock's time."""
        return UUID(int=uuid_utils.uuid7(nanoseconds=time.monotonic_ns() + self._offset_ns).int)
