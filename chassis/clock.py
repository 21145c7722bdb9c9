"""The one clock: database time by a measured offset.

All services of a deployment share the database's time, so that deadlines and days mean the same on every machine. SQL
has the same time from `levata_now()`, which also adds the offset that only tests and demonstrations set; measuring
that function brings the offset in here too. Knows nothing of time zones, days or weeks.
"""

import time
from typing import Protocol

# Of so many round trips the shortest one counts: half of it bounds the error.
MEASUREMENTS = 5

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

    async def measure(self, database: Database) -> None:
        """Set the clock to the database's time; call it again now and then, as machines drift apart."""
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
