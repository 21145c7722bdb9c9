"""When a week is due, and what must have been heard before it is closed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from chassis.facts import Fact, Head, Page
from services.league.app.closing import Closing, DueWeek, Now, Settled

GAMES, LEDGER = UUID(int=1), UUID(int=2)
BERLIN = ZoneInfo("Europe/Berlin")


class NotYet(Exception):
    """Somebody is not as far."""


def us(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000)


@dataclass
class Backend:
    """All that a close asks, with a clock that tests set."""

    now: datetime
    # When facts of games were.
    facts: list[datetime] = field(default_factory=list)
    ledger_has_followed: int = 1_000
    closed: list[DueWeek] = field(default_factory=list)
    asked_before: list[datetime] = field(default_factory=list)

    async def read(self, after: int, limit: int) -> Page:
        facts = [Fact(number, "", b"", us(at)) for number, at in enumerate(self.facts, start=1)]
        return Page(Head(GAMES, len(facts)), facts[after : after + limit])

    async def before(self, at_us: int) -> Head:
        self.asked_before.append(datetime.fromtimestamp(at_us / 1e6, UTC))
        if us(self.now) < at_us:
            raise NotYet
        return Head(GAMES, sum(us(at) < at_us for at in self.facts))

    async def settled(self, games: Head) -> Settled:
        if games.last > self.ledger_has_followed:
            raise NotYet
        return Settled(LEDGER, 7, ())

    def closing(self, zone: tzinfo = UTC) -> Closing:
        return Closing(self, self, Weeks(lambda: self.now, self.closed), zone)


@dataclass
class Weeks:
    """Closed weeks, in memory."""

    clock: Callable[[], datetime]
    closed: list[DueWeek]

    async def now(self) -> Now:
        return Now(us(self.clock()), self.closed[-1].week if self.closed else None)

    async def close(self, due: DueWeek) -> bool:
        self.closed.append(due)
        return True


SUNDAY = datetime(2026, 11, 15, 23, 59, 59, tzinfo=UTC)


async def test_a_week_is_due_from_its_last_moment_on_and_not_before() -> None:
    backend = Backend(SUNDAY, [SUNDAY - timedelta(days=1)])
    assert not await backend.closing().close_next()
    backend.now = SUNDAY + timedelta(seconds=1)
    assert await backend.closing().close_next()
    assert not await backend.closing().close_next()
    assert [(due.week, due.games.last) for due in backend.closed] == [(date(2026, 11, 9), 1)]


async def test_a_game_that_finishes_in_the_boundarys_second_counts_by_its_facts_time() -> None:
    midnight = SUNDAY + timedelta(seconds=1)
    backend = Backend(midnight + timedelta(seconds=5), [midnight - timedelta(microseconds=1), midnight])
    assert await backend.closing().close_next()
    assert backend.closed[0].games.last == 1


async def test_nothing_is_due_before_anything_happened() -> None:
    assert not await Backend(SUNDAY).closing().close_next()


async def test_missed_weeks_are_closed_one_after_another() -> None:
    backend = Backend(SUNDAY + timedelta(days=15), [SUNDAY, SUNDAY + timedelta(days=8)])
    closing = backend.closing()
    assert [await closing.close_next() for _ in range(4)] == [True, True, True, False]
    assert [(due.week, due.games.last) for due in backend.closed] == [
        (date(2026, 11, 9), 1),
        (date(2026, 11, 16), 1),
        (date(2026, 11, 23), 2),
    ]


async def test_it_waits_for_the_ledger() -> None:
    backend = Backend(SUNDAY + timedelta(days=1), [SUNDAY], ledger_has_followed=0)
    with pytest.raises(NotYet):
        await backend.closing().close_next()
    assert backend.closed == []
    backend.ledger_has_followed = 1
    assert await backend.closing().close_next()


@pytest.mark.parametrize(
    ("in_week", "ends"),
    [
        # Summer time ends on the Sunday: the week has an hour more.
        (datetime(2026, 10, 20, 12, tzinfo=UTC), datetime(2026, 10, 25, 23, tzinfo=UTC)),
        # It begins on the Sunday: an hour less.
        (datetime(2026, 3, 24, 12, tzinfo=UTC), datetime(2026, 3, 29, 22, tzinfo=UTC)),
        (datetime(2026, 7, 1, 12, tzinfo=UTC), datetime(2026, 7, 5, 22, tzinfo=UTC)),
    ],
)
async def test_a_week_ends_at_the_zones_midnight_summer_time_both_ways(in_week: datetime, ends: datetime) -> None:
    backend = Backend(ends - timedelta(microseconds=1), [in_week])
    assert not await backend.closing(BERLIN).close_next()
    backend.now = ends
    assert await backend.closing(BERLIN).close_next()
    assert backend.asked_before == [ends]
