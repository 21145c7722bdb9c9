"""The close of a week: due when the week is over, and made when everything that it brought has been counted.

No timer closes anything: each step asks a log, and the answer is the same whenever and by whomever it is asked. What
makes a close happen once is the row that it is.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date, tzinfo
from typing import Final, NamedTuple, Protocol
from uuid import UUID

import structlog

from chassis.errors import in_a_line
from chassis.facts import Head, Page
from chassis.tasks import end
from rules.calendar import day_begins_us, day_of, week_of
from services.league.domain.weeks import week_after

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 1.0


class GamesLog(Protocol):
    """The games' log, asked of the table service."""

    async def read(self, after: int, limit: int) -> Page:
        """Facts after a number."""
        ...

    async def before(self, at_us: int) -> Head:
        """The last number with a time before `at_us`, for good. Fails until that time has come."""
        ...


class Settled(NamedTuple):
    """The ledger's log once a number of games' facts have had their effects."""

    incarnation: UUID
    last: int
    # Facts of games up to the number that it could not follow.
    unpaid_facts: tuple[int, ...]


class Ledger(Protocol):
    """The ledger service."""

    async def settled(self, games: Head) -> Settled:
        """Where its log stands, once it has followed the games' to there. Fails until it has."""
        ...


class DueWeek(NamedTuple):
    """A week that is over, and what there is to count for it."""

    week: date
    games: Head
    ledger: Settled


class Now(NamedTuple):
    """How things stand, by the database: no replica's clock closes a week."""

    at_us: int
    # None before the first close.
    last_closed: date | None


class Weeks(Protocol):
    """Closed weeks."""

    async def now(self) -> Now:
        """How things stand."""
        ...

    async def close(self, due: DueWeek) -> bool:
        """Close a week once all of it has been counted here; whether it is closed now, by whomever."""
        ...


class Closing:
    """Closes weeks that are over, one after another, if nobody else has."""

    def __init__(self, games: GamesLog, ledger: Ledger, weeks: Weeks, zone: tzinfo) -> None:
        self._games = games
        self._ledger = ledger
        self._weeks = weeks
        self._zone = zone

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Close what is due for as long as the context lasts."""
        task = asyncio.create_task(self._work(), name="closing of weeks")
        try:
            yield
        finally:
            await end(task)

    async def _work(self) -> None:
        told = ""
        while True:
            try:
                while await self.close_next():
                    told = ""
            except Exception as error:
                # Mostly somebody who is not as far yet: said once.
                if in_a_line(error) != told:
                    told = in_a_line(error)
                    log.info("a week cannot be closed yet", error=told)
            await asyncio.sleep(LOOK_SECONDS)

    async def close_next(self) -> bool:
        """Close the next week if it is due; whether it was. Fails while somebody is not as far yet."""
        due = await self._due()
        return due is not None and await self._weeks.close(due)

    async def _due(self) -> DueWeek | None:
        now = await self._weeks.now()
        week = await self._first_week() if now.last_closed is None else week_after(now.last_closed)
        if week is None:
            return None
        ends_us = day_begins_us(week_after(week), self._zone)
        if now.at_us < ends_us:
            return None
        games = await self._games.before(ends_us)
        return DueWeek(week, games, await self._ledger.settled(games))

    async def _first_week(self) -> date | None:
        """The week of the first fact of all."""
        first = (await self._games.read(0, 1)).facts
        return week_of(day_of(first[0].at_us, self._zone)) if first else None
