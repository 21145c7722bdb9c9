"""The cards of klaverjas by trump: what beats what, what a card is worth, and the roem that lies in a trick."""

from collections.abc import Iterable
from typing import Final

from rules.cards import (
    ACE,
    BIT,
    EIGHT,
    JACK,
    KING,
    NINE,
    QUEEN,
    RANK_OF,
    SEVEN,
    SUIT_CARDS,
    SUIT_OF,
    TEN,
    Card,
    Cards,
    Suit,
    deck,
    mask,
)
from rules.partners import beating

DECK: Final = deck(SEVEN)
DECK_CARDS: Final[Cards] = mask(DECK)

_TRUMP_RANKING = (SEVEN, EIGHT, QUEEN, KING, TEN, ACE, NINE, JACK)
_PLAIN_RANKING = (SEVEN, EIGHT, NINE, JACK, QUEEN, KING, TEN, ACE)
_TRUMP_POINTS = {JACK: 20, NINE: 14, ACE: 11, TEN: 10, KING: 4, QUEEN: 3}
_PLAIN_POINTS = {ACE: 11, TEN: 10, KING: 4, QUEEN: 3, JACK: 2}


def _rankings(trump: Suit) -> tuple[tuple[Card, ...], ...]:
    """The cards of each suit from low to high."""
    return tuple(
        tuple(suit * 13 + rank for rank in (_TRUMP_RANKING if suit == trump else _PLAIN_RANKING)) for suit in range(4)
    )


# By trump and card: the cards that take the trick from it while it is winning.
BEATS: Final = tuple(beating(_rankings(trump), trump) for trump in range(4))

# By trump and card: the trumps among those.
OVER: Final[tuple[tuple[Cards, ...], ...]] = tuple(
    tuple(beats & SUIT_CARDS[trump] for beats in BEATS[trump]) for trump in range(4)
)

# By trump and card.
POINTS: Final[tuple[tuple[int, ...], ...]] = tuple(
    tuple((_TRUMP_POINTS if SUIT_OF[card] == trump else _PLAIN_POINTS).get(RANK_OF[card], 0) for card in range(52))
    for trump in range(4)
)
assert all(sum(points[card] for card in DECK) == 152 for points in POINTS)

# By trump: its king and queen.
STUK: Final[tuple[Cards, ...]] = tuple(BIT[suit * 13 + KING] | BIT[suit * 13 + QUEEN] for suit in range(4))

_FOURS: Final[dict[Cards, int]] = {
    mask(suit * 13 + rank for suit in range(4)): 200 if rank == JACK else 100 for rank in (TEN, JACK, QUEEN, KING, ACE)
}


def trick_points(trick: Iterable[Card], trump: Suit) -> int:
    """The points of these cards, without the ten for the last trick."""
    points = POINTS[trump]
    return sum([points[card] for card in trick])


def trick_roem(trick: Cards, trump: Suit) -> int:
    """The roem that lies in the cards of one trick, in whatever order they were played."""
    # Codes run by the order of roem, and between the ace of a suit and the seven of the next there is a gap.
    threes = trick & trick >> 1 & trick >> 2
    run = (50 if threes & threes >> 1 else 20) if threes else 0
    stuk = 20 if trick & STUK[trump] == STUK[trump] else 0
    return run + stuk + _FOURS.get(trick, 0)
