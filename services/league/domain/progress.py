"""What an account has reached by playing: XP and its level, and the streak."""

from collections.abc import Iterable
from enum import Enum
from math import isqrt

from rules.values import value
from services.league.domain.terms import Terms


class Streak(Enum):
    """What two games in a row make of a player's picture."""

    NONE = "none"
    FIRE = "fire"
    ICE = "ice"


@value
class Outcome:
    """A quick-play game that counts for the streak, by the number of its fact."""

    fact: int
    podium: bool


@value
class Progress:
    """All that a player's games have brought."""

    xp: int = 0
    # The last two in quick play, the later one first: what was before them does not matter any more.
    outcomes: tuple[Outcome, ...] = ()

    def level(self, terms: Terms) -> int:
        """The highest level whose XP have been reached."""
        return level_of(self.xp, terms)

    @property
    def streak(self) -> Streak:
        """Two alike make one, and one the other way ends it."""
        match self.outcomes:
            case (last, before) if last.podium == before.podium:
                return Streak.FIRE if last.podium else Streak.ICE
            case _:
                return Streak.NONE


def add(progress: Progress, xp: int, outcomes: Iterable[Outcome] = ()) -> Progress:
    """More games were played, heard of in any order."""
    # Who left a game and held a seat at its end has two of one fact: what is off the podium is the later one.
    latest = sorted({*progress.outcomes, *outcomes}, key=lambda outcome: (-outcome.fact, outcome.podium))
    return Progress(progress.xp + xp, tuple(latest[:2]))


def level_of(xp: int, terms: Terms) -> int:
    """The greatest L with `level_xp`·L·(L-1) ≤ xp."""
    return (1 + isqrt(1 + 4 * (xp // terms.level_xp))) // 2


def xp_of(level: int, terms: Terms) -> int:
    """What a level needs in all."""
    return terms.level_xp * level * (level - 1)
