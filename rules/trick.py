"""Tables about tricks that more than one game uses: who sits after whom, and which card wins in plain rank order."""

from typing import Final

from rules.cards import RANK_OF, SUIT_OF, Suit
from rules.game import SEATS_MAX, Seat

NO_TRUMP: Final = 4

# SEATS_FROM[seats][first]: all seats clockwise, beginning with `first`.
SEATS_FROM: Final[tuple[tuple[tuple[Seat, ...], ...], ...]] = tuple(
    tuple(tuple((first + i) % seats for i in range(seats)) for first in range(seats)) for seats in range(SEATS_MAX + 1)
)


def _strength(card: int, trump: Suit, led: Suit) -> int:
    if SUIT_OF[card] == trump:
        return 14 + RANK_OF[card]
    if SUIT_OF[card] == led:
        return 1 + RANK_OF[card]
    return 0


# STRENGTH[trump or NO_TRUMP][led][card], ace high: the strongest card takes the trick, and 0 never does. It serves
# games whose ranks run 2 to ace in every suit.
STRENGTH: Final[tuple[tuple[tuple[int, ...], ...], ...]] = tuple(
    tuple(tuple(_strength(card, trump, led) for card in range(52)) for led in range(4)) for trump in range(5)
)
