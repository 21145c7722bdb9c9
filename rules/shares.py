"""What a place is worth: the shares of a prize, for places that may be held by several (platform.md, "Rooms").

The podium is every place whose share is not zero.
"""

from collections.abc import Sequence
from fractions import Fraction

# Percentages of the places in order, the first place first; places beyond them have none.
Percents = tuple[int, ...]


def share(percents: Percents, places: Sequence[int], place: int) -> Fraction:
    """The share of who holds `place`, `places` being those of all seats.

    Who share a place split equally the percentages of the places they cover. Bots and players who are not eligible hold
    places like others, so that nobody moves up past them.
    """
    holders = places.count(place)
    assert holders, f"nobody holds place {place}"
    covered = percents[place - 1 : place - 1 + holders]
    return Fraction(sum(covered), 100 * holders)
