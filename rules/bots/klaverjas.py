"""The steady bot of klaverjas: weighs its cards to name trump, and then each card by what the trick should bring.

No sampling, no chance. It knows its view and the deck, and never looks at the game's state.
"""

from typing import Final

from rules.cards import (
    ACE,
    BIT,
    EIGHT,
    JACK,
    KING,
    NINE,
    QUEEN,
    SAME_SUIT,
    SEVEN,
    SUIT_CARDS,
    SUIT_OF,
    TEN,
    Card,
    Cards,
    Suit,
    mask,
    members,
)
from rules.game import Phase, Seat, View
from rules.klaverjas_cards import BEATS, DECK_CARDS, POINTS, trick_points, trick_roem
from rules.moves import NAME_TRUMP, PASS, Move
from rules.partners import LEFT_OF, SIDE_OF, winning

VERSION: Final = 1

# By how many points a maker's side may expect to be ahead, fitted to deals that this bot played in all four seats:
# whatever the cards, by trumps held, for each plain ace, for the ten beside it, and for a void.
WHATEVER_THE_CARDS: Final = -87
OF_TRUMPS: Final = {JACK: 62, NINE: 46, ACE: 33, TEN: 30, KING: 20, QUEEN: 17, EIGHT: 21, SEVEN: 21}
OF_ACE: Final = 25
OF_TEN_BESIDE_ACE: Final = 10
OF_VOID: Final = 9
ENOUGH_TO_NAME: Final = 15

# What a card is worth in the hand, over its points: a trump, and one that no unseen card of its suit beats.
_TRUMP_KEPT: Final = 14.0
_TOP_KEPT: Final = 6.0
_POINTS_KEPT: Final = 0.5
# What a seat that is still to play brings to the trick on average.
_POINTS_TO_COME: Final = 4.0
_LAST_TRICK: Final = 10


def _chance_of_none(held: int, total: int, wanted: int) -> float:
    # As if a card could be held twice, which is near enough. Multiplied out: a power is not the same on every machine.
    chance = 1.0
    for _ in range(held):
        chance *= 1 - wanted / total
    return chance


# By the cards that a hand holds, of how many, and how many of these are wanted.
_CHANCE_OF_NONE: Final = tuple(
    tuple(tuple(_chance_of_none(held, max(total, 1), wanted) for wanted in range(total + 1)) for total in range(33))
    for held in range(9)
)


def steady(view: View, _chance: bytes) -> Move:
    """The move of the seat whose turn it is."""
    legal = view.legal
    assert legal
    if not legal & (legal - 1):
        return legal.bit_length() - 1
    return _call(view) if view.phase is Phase.BIDDING else _card(view)


def _call(view: View) -> Move:
    ahead, suit = max((_ahead(view.hand, suit), suit) for suit in range(4))
    is_forced = not view.legal >> PASS & 1
    return NAME_TRUMP + suit if is_forced or ahead >= ENOUGH_TO_NAME else PASS


def _ahead(hand: Cards, trump: Suit) -> int:
    """By how many points the side of a maker with this hand should be ahead."""
    ahead = WHATEVER_THE_CARDS
    for suit in range(4):
        ranks = {card - 13 * suit for card in members(hand & SUIT_CARDS[suit])}
        if suit == trump:
            ahead += sum([OF_TRUMPS[rank] for rank in ranks])
        elif not ranks:
            ahead += OF_VOID
        elif ACE in ranks:
            ahead += OF_ACE + (OF_TEN_BESIDE_ACE if TEN in ranks else 0)
    return ahead


def _card(view: View) -> Card:
    assert view.seat is not None
    assert view.trump is not None
    trump, played = view.trump, view.trick.cards
    beats, points = BEATS[trump], POINTS[trump]
    unseen, voids = _unseen(view)
    to_come = len(LEFT_OF) - 1 - len(played)
    extra = to_come * _POINTS_TO_COME + (_LAST_TRICK if view.hand_counts[view.seat] == 1 else 0)
    # The others' cards that may still fall on the trick, in playing order.
    behind: list[tuple[bool, Cards, int]] = []
    seat: Seat = view.seat
    for _ in range(to_come):
        seat = LEFT_OF[seat]
        behind.append((SIDE_OF[seat] == SIDE_OF[view.seat], unseen & ~voids[seat], view.hand_counts[seat]))

    def gain(card: Card) -> float:
        trick = (*played, card)
        place = winning(trick, beats)
        # The viewer and the partner play to places of the same parity.
        chance = 1.0 if (place - len(played)) % 2 == 0 else 0.0
        for is_ours, possible, held in behind:
            beaten = _chance_to_beat(possible, held, trick[0], trick[place], trump)
            chance += (1 - chance) * beaten if is_ours else -chance * beaten
        # A lead alone holds no roem.
        stake = extra + trick_points(trick, trump) + (trick_roem(mask(trick), trump) if played else 0)
        kept = _POINTS_KEPT * points[card]
        if SUIT_OF[card] == trump:
            kept += _TRUMP_KEPT
        if not beats[card] & SAME_SUIT[card] & unseen:
            kept += _TOP_KEPT
        return stake * (2 * chance - 1) - kept

    return max(members(view.legal), key=gain)


def _chance_to_beat(possible: Cards, held: int, led: Card, best: Card, trump: Suit) -> float:
    """The chance that a hand of so many of the possible cards beats the best one, by following suit or by a ruff."""
    none_of = _CHANCE_OF_NONE[held][possible.bit_count()]
    beating = BEATS[trump][best] & possible
    follows = 1 - none_of[(beating & SAME_SUIT[led]).bit_count()]
    ruffs = beating & ~SAME_SUIT[led]
    if not ruffs:
        return follows
    return follows + none_of[(possible & SAME_SUIT[led]).bit_count()] * (1 - none_of[ruffs.bit_count()])


def _unseen(view: View) -> tuple[Cards, list[Cards]]:
    """The cards in other hands; and by seat, those of the suits in which it was seen to be void."""
    seen = view.hand
    voids = [0, 0, 0, 0]
    for trick in (*view.tricks, view.trick):
        for seat, card in zip(trick.seats, trick.cards, strict=True):
            seen |= BIT[card]
            led = SAME_SUIT[trick.cards[0]]
            if not BIT[card] & led:
                voids[seat] |= led
    return DECK_CARDS & ~seen, voids
