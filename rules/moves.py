"""Moves as ints, so that a set of legal moves is one bit mask and a move costs nothing to make.

    0..51     play the card of that code
    52        pass
    53, 54    order up; order up and go alone
    56..59    name this suit as trump (suit + 56)
    60..63    name it and go alone (suit + 60)
    64..77    bid so many tricks (tricks + 64)
    80..131   discard the card (card + 80)

The codes are stored in game logs: they never change their meaning.
"""

from typing import Final

from rules.cards import NAME, SUITS, Card, Suit

Move = int
Moves = int

CARD_END: Final = 52
PASS: Final = 52
ORDER_UP: Final = 53
ORDER_UP_ALONE: Final = 54
NAME_TRUMP: Final = 56
NAME_TRUMP_ALONE: Final = 60
BID: Final = 64
BID_END: Final = 78
DISCARD: Final = 80
MOVE_END: Final = 132

ALL_CARDS: Final[Moves] = (1 << CARD_END) - 1
ALL_BIDS: Final[Moves] = ((1 << BID_END) - 1) ^ ((1 << BID) - 1)


def play(card: Card) -> Move:
    """Play this card."""
    return card


def bid(tricks: int) -> Move:
    """Bid so many tricks, 0..13."""
    return BID + tricks


def discard(card: Card) -> Move:
    """Lay this card away."""
    return DISCARD + card


def name_trump(suit: Suit, alone: bool = False) -> Move:
    """Name a suit as trump."""
    return (NAME_TRUMP_ALONE if alone else NAME_TRUMP) + suit


def is_card(move: Move) -> bool:
    """Whether the move is a card (played or discarded) rather than a bid or a call."""
    return move < CARD_END or move >= DISCARD


def text(move: Move) -> str:
    """The move as the worked cases and the tools write it: `TS`, `bid 3`, `pass`, `call:H`, `discard 9C`."""
    if move < CARD_END:
        return NAME[move]
    if move >= DISCARD:
        return f"discard {NAME[move - DISCARD]}"
    if move >= BID:
        return f"bid {move - BID}"
    if move >= NAME_TRUMP_ALONE:
        return f"call_alone:{SUITS[move - NAME_TRUMP_ALONE]}"
    if move >= NAME_TRUMP:
        return f"call:{SUITS[move - NAME_TRUMP]}"
    return {PASS: "pass", ORDER_UP: "order_up", ORDER_UP_ALONE: "order_up_alone"}[move]
