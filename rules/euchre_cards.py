"""The cards of euchre by trump: what beats what, and which suit a card belongs to.

The left bower belongs to the trumps in every respect, so nothing here goes by the suit that is printed on it.
"""

from typing import Final

from rules.cards import ACE, BIT, JACK, KING, NINE, QUEEN, TEN, Card, Cards, Suit, deck, mask
from rules.partners import beating

DECK: Final = deck(NINE)
DECK_CARDS: Final[Cards] = mask(DECK)

# Clubs and spades, diamonds and hearts share a colour.
SAME_COLOUR: Final[tuple[Suit, ...]] = (3, 2, 1, 0)
LEFT_BOWER: Final[tuple[Card, ...]] = tuple(suit * 13 + JACK for suit in SAME_COLOUR)
RIGHT_BOWER: Final[tuple[Card, ...]] = tuple(suit * 13 + JACK for suit in range(4))


def _rankings(trump: Suit) -> tuple[tuple[Card, ...], ...]:
    """The cards of each suit from low to high."""
    suits = [[suit * 13 + rank for rank in (NINE, TEN, JACK, QUEEN, KING, ACE)] for suit in range(4)]
    suits[SAME_COLOUR[trump]].remove(LEFT_BOWER[trump])
    suits[trump].remove(RIGHT_BOWER[trump])
    suits[trump] += (LEFT_BOWER[trump], RIGHT_BOWER[trump])
    return tuple(map(tuple, suits))


RANKINGS: Final = tuple(_rankings(trump) for trump in range(4))

# By trump and card: the cards that take the trick from it while it is winning.
BEATS: Final = tuple(beating(RANKINGS[trump], trump) for trump in range(4))


def _same_suit(trump: Suit, card: Card) -> Cards:
    return next((mask(suit) for suit in RANKINGS[trump] if card in suit), 0)


# By trump and card: the cards of the suit that it belongs to.
SAME_SUIT: Final[tuple[tuple[Cards, ...], ...]] = tuple(
    tuple(_same_suit(trump, card) for card in range(len(BIT))) for trump in range(4)
)

# By trump: all seven trumps.
TRUMPS: Final[tuple[Cards, ...]] = tuple(mask(RANKINGS[trump][trump]) for trump in range(4))
assert all(trumps.bit_count() == 7 for trumps in TRUMPS)
