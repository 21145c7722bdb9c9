"""The four classes, and who moves between them when a week closes."""

from enum import IntEnum
from typing import Final

from rules.values import value
from services.league.domain.terms import Amounts, Terms


class LeagueClass(IntEnum):
    """A class; everyone begins as jack."""

    JACK = 0
    QUEEN = 1
    KING = 2
    ACE = 3

    @property
    def label(self) -> str:
        """As it is called outside."""
        return self.name.lower()


LOWEST: Final = LeagueClass.JACK
HIGHEST: Final = LeagueClass.ACE


@value
class Movers:
    """How many of a class go up, from the first, and how many go down, from the last."""

    up: int
    down: int


def movers(league_class: LeagueClass, counted: int, amounts: Amounts) -> Movers:
    """Who moves, of so many who counted in a class. Who would go both ways goes up."""
    some = counted // amounts.movers_one_in
    up = 0 if league_class is HIGHEST else min(counted, max(amounts.promoted_min, some))
    down = 0 if league_class is LOWEST else min(some, counted - up)
    return Movers(up, down)


def standing(league_class: LeagueClass, place: int, players: int, xp: int, terms: Terms) -> float:
    """Where an account is among all: from 0, the first ace, to 1, a beginner.

    By class; in a class those who count in the week, by place, before those who do not, by XP.
    """
    span = 1 / len(LeagueClass)
    better_classes = (HIGHEST - league_class) * span
    if place:
        return better_classes + span / 2 * (place - 1) / players
    # Each further so many XP tell less of a player than those before.
    first_level_xp = 2 * terms.level_xp
    return better_classes + span / 2 * (1 + first_level_xp / (first_level_xp + xp))
