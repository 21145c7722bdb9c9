"""What the league counts by, as the operator set it. The file is read elsewhere; here is what it means."""

from collections.abc import Mapping
from datetime import date

from rules.shares import Percents
from rules.values import value


@value
class Amounts:
    """What games bring, and how many move, from a day on."""

    since: date
    # XP: per own deal, and by place from the first.
    deal_xp: int
    place_xp: tuple[int, ...]
    # Points at a friendly table by place, for n seats the first n of them.
    friendly_points: tuple[int, ...]
    friendly_people_min: int
    # Of those who counted in a class one in so many moves, up at least so many.
    movers_one_in: int
    promoted_min: int


@value
class Terms:
    """All terms of the league (platform.md, "Levels, league, streaks")."""

    # Level L needs `level_xp`·L·(L-1).
    level_xp: int
    # Later ones first; the last one holds from the first day on.
    amounts: tuple[Amounts, ...]
    # How many of a class the ledger rewards.
    rewarded: int
    # The podium of quick play is every place with a share: by seats where each plays alone, and where pairs play.
    alone: Mapping[int, Percents]
    partners: Percents

    def on(self, day: date) -> Amounts:
        """Those of a day, so that a game of before counts as it did whenever its facts are heard again."""
        return next(amounts for amounts in self.amounts if amounts.since <= day)
