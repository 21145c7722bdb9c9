"""Weeks, and which of them a fact counts in once weeks have been closed."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from rules.values import value

WEEK: Final = timedelta(days=7)


@value
class HeardUpTo:
    """How far a log counted when a week was closed."""

    fact: int
    # Facts up to it that had failed, or waited behind one that did: they had not been counted.
    missing: frozenset[int] = frozenset()

    def has(self, fact: int) -> bool:
        """Whether a fact was counted by then."""
        return fact <= self.fact and fact not in self.missing


@value
class Close:
    """A week's close: what it counted of the games' and of the ledger's facts."""

    week: date
    games: HeardUpTo
    ledger: HeardUpTo


# Of a fact that is heard only now: no closed week was closed with it.
NOTHING: Final = HeardUpTo(0)


def week_after(week: date) -> date:
    """The next one."""
    return week + WEEK


def counted_week(week: date, fact: int, closes: Sequence[tuple[date, HeardUpTo]]) -> date:
    """The week that a fact of a week counts in: the first, from its own on, that was not closed without it.

    `closes` are those of the fact's log, earlier weeks first and none left out between them.
    """
    if not closes or week > closes[-1][0]:
        return week
    earlier = (week - closes[0][0]) // WEEK
    for closed, heard in closes[max(0, earlier) :]:
        if heard.has(fact):
            return closed
        week = week_after(closed)
    return week
