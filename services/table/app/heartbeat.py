"""This replica's sign of life, and what follows from it: how sure it is of its games, and how far to trust its clocks.

Others take the games of a replica that has not been seen for a while. So this one is sure of its games for just as long
from when it sent a heartbeat that succeeded. (Who may take whose games, the database says, by its own clock.)

Players are heard only where the log can be written and the other replicas can be reached: both are tried all the time,
and what took too long may have taken that time from a player.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, Protocol
from uuid import UUID

import structlog

from chassis.clock import Clock
from services.table.app.ports import Store
from services.table.app.replicas import Replicas
from services.table.domain import HOST_SILENT_SECONDS

log = structlog.get_logger(__name__)

# The next heartbeat does not wait for the one before: slow ones, too, add up to being seen all the time.
BEAT_SECONDS: Final = 0.5
# A heartbeat that takes longer has failed.
BEAT_TIMEOUT_SECONDS: Final = 2.5
REACH_SECONDS: Final = 1.0
# What was late by so much cannot tell whether a player's move arrived in time: our loop, the database, the others.
LATE_SECONDS: Final = 0.5
_WINDOW_US: Final = HOST_SILENT_SECONDS * 1_000_000


class Owner(Protocol):
    """Who has the games."""

    async def compare(self) -> None:
        """Find out which games are still ours; called when this was not sure any more and we have been seen again."""
        ...

    def go_on(self) -> None:
        """It is known now."""
        ...


class Heartbeat:
    """One row that says: this replica is alive."""

    def __init__(self, store: Store, clock: Clock, replicas: Replicas, host_id: UUID, owner: Owner) -> None:
        self._store = store
        self._replicas = replicas
        self._clock = clock
        self._host_id = host_id
        self._owner = owner
        self._address = ""
        self._under_way = 0
        self._regaining = asyncio.Lock()
        # Clock time at which the last heartbeat that succeeded was sent.
        self.beat_at_us = 0
        # Until then no game of this replica can have become another's.
        self.sure_until_us = 0
        # The last time at which our clocks could not be trusted: a decision that was open then gets all its time anew.
        self.troubled_at_us = 0

    async def start(self, address: str) -> None:
        """Be seen for the first time, at this address."""
        self._address = address
        await self._beat()

    async def run(self) -> None:
        """Be seen again and again, and find out whether the others can be reached."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reach_others(), name="reach other replicas")
            while True:
                await asyncio.sleep(BEAT_SECONDS)
                if self._under_way:
                    # Late by now, whatever becomes of it.
                    self.trouble()
                tasks.create_task(self._beat_in_time(), name="a heartbeat")

    async def _reach_others(self) -> None:
        while True:
            await asyncio.sleep(REACH_SECONDS)
            await self._try("other replicas", self._replicas.reach(), LATE_SECONDS)

    async def _beat_in_time(self) -> None:
        self._under_way += 1
        try:
            await self._try("database", self._beat(), BEAT_TIMEOUT_SECONDS)
        finally:
            self._under_way -= 1

    async def _try(self, part: str, work: Awaitable[None], seconds: float) -> None:
        sent_at_us = self._clock.now_us()
        try:
            async with asyncio.timeout(seconds):
                await work
        except Exception as error:
            self.trouble()
            log.warning("heartbeat failed", part=part, error=repr(error))
        else:
            if self._clock.now_us() - sent_at_us > LATE_SECONDS * 1_000_000:
                self.trouble()

    async def _beat(self) -> None:
        sent_at_us = self._clock.now_us()
        await self._store.heartbeat(self._host_id, self._address)
        if not self.is_sure:
            async with self._regaining:
                await self._regain(sent_at_us)
        self._seen(sent_at_us)

    async def _regain(self, sent_at_us: int) -> None:
        """Others may have taken games meanwhile, and players could not be heard. Now that we are seen nobody takes any
        more: it is time to find out which are left."""
        if self.is_sure:
            # By another heartbeat.
            return
        self.trouble()
        await self._owner.compare()
        self._seen(sent_at_us)
        self._owner.go_on()

    def _seen(self, sent_at_us: int) -> None:
        if sent_at_us > self.beat_at_us:
            self.beat_at_us = sent_at_us
            self.sure_until_us = sent_at_us + _WINDOW_US

    def trouble(self) -> None:
        """Players may not have been heard in time, until now."""
        self.troubled_at_us = self._clock.now_us()

    @property
    def is_sure(self) -> bool:
        """Whether no game of this replica can have become another's."""
        return self._clock.now_us() < self.sure_until_us
