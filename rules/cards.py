"""Cards as ints and hands as bit masks.

A card is `suit * 13 + rank` with suits C D H S = 0..3 and ranks 2..A = 0..12; a set of cards is an int with bit `card`
set. Everything here is a table or arithmetic, built when the module loads.
"""

from collections.abc import Callable, Iterable, Iterator

Card = int
Cards = int
Suit = int

SUITS = "CDHS"
RANKS = "23456789TJQKA"
CLUBS, DIAMONDS, HEARTS, SPADES = range(4)
TWO, THREE, FOUR, FIVE, SIX, SEVEN, EIGHT, NINE, TEN, JACK, QUEEN, KING, ACE = range(13)

SUIT_OF: tuple[Suit, ...] = tuple(card // 13 for card in range(52))
RANK_OF: tuple[int, ...] = tuple(card % 13 for card in range(52))
BIT: tuple[Cards, ...] = tuple(1 << card for card in range(52))
# The same to map with: a list's method takes a third of the time of a tuple's.
bit_of: Callable[[Card], Cards] = list(BIT).__getitem__
SUIT_CARDS: tuple[Cards, ...] = tuple(0x1FFF << (13 * suit) for suit in range(4))
# All cards of the suit that a card belongs to, by card.
SAME_SUIT: tuple[Cards, ...] = tuple(SUIT_CARDS[suit] for suit in SUIT_OF)
NAME: tuple[str, ...] = tuple(RANKS[RANK_OF[card]] + SUITS[SUIT_OF[card]] for card in range(52))
CODE: dict[str, Card] = {name: card for card, name in enumerate(NAME)}


def card(name: str) -> Card:
    """`card("TS")` is the ten of spades; KeyError for what is no card."""
    return CODE[name]


def cards(names: str) -> Cards:
    """The set of the cards named, blank-separated."""
    return mask(CODE[name] for name in names.split())


def mask(members: Iterable[Card]) -> Cards:
    """The set of these cards."""
    held = 0
    for member in members:
        held |= 1 << member
    return held


def members(held: int) -> Iterator[int]:
    """The set's members, lowest code first. Serves sets of moves (`rules.moves`) too."""
    while held:
        low = held & -held
        yield low.bit_length() - 1
        held ^= low


def deck(lowest_rank: int) -> tuple[Card, ...]:
    """A deck in canonical order: suits C D H S, in each the ranks from `lowest_rank` to the ace."""
    return tuple(suit * 13 + rank for suit in range(4) for rank in range(lowest_rank, 13))
