"""What the league tells others of what came of facts."""

from collections.abc import Sequence
from typing import Final

from levata.league.v1 import facts_pb2

from chassis.log import NewFact
from services.league.domain.progress import Streak
from services.league.domain.terms import Terms
from services.league.projections.games import Advance

STREAKS: Final = {
    Streak.NONE: facts_pb2.STREAK_NONE,
    Streak.FIRE: facts_pb2.STREAK_FIRE,
    Streak.ICE: facts_pb2.STREAK_ICE,
}


def advances(changes: Sequence[Advance], terms: Terms) -> list[NewFact]:
    """Levels that were reached, each of them, and streaks that changed."""
    told = []
    for account, before, after in changes:
        for level in range(before.level(terms) + 1, after.level(terms) + 1):
            fact = facts_pb2.LeagueFact(account_id=str(account))
            fact.level_reached.level = level
            told.append(NewFact(f"levata.league.level_reached.{account}", fact.SerializeToString()))
        if after.streak is not before.streak:
            fact = facts_pb2.LeagueFact(account_id=str(account))
            fact.streak_changed.streak = STREAKS[after.streak]
            told.append(NewFact(f"levata.league.streak_changed.{account}", fact.SerializeToString()))
    return told
