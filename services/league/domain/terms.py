"""What the league counts by. Terms hold from a day on, so that a game of before counts by those of then, whenever its
facts are heard or heard again."""

from collections.abc import Mapping
from typing import Final

from rules.shares import Percents
from rules.values import value


@value
class Terms:
    """The platform's amounts (platform.md, "Levels, league, streaks")."""

    # XP: per own deal, and by place from the first.
    deal_xp: int
    place_xp: tuple[int, ...]
    # Level L needs `level_xp`·L·(L-1).
    level_xp: int
    # Points at a friendly table by place, for n seats the first n of them.
    friendly_points: tuple[int, ...]
    friendly_people_min: int
    # Of those who counted in a class one in so many moves, up at least so many.
    movers_one_in: int
    promoted_min: int
    # The podium of quick play is every place with a share: by seats where each plays alone, and where pairs play.
    alone: Mapping[int, Percents]
    partners: Percents


TERMS: Final = Terms(
    deal_xp=10,
    place_xp=(30, 20, 10),
    level_xp=50,
    friendly_points=(10, 7, 5, 3, 2, 1, 1),
    friendly_people_min=2,
    movers_one_in=5,
    promoted_min=3,
    alone={4: (100, 50), 6: (100, 70, 55)},
    partners=(75, 75),
)
