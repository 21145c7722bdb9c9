"""The steady bot of klaverjas: weighs its cards to name trump, and each card by what the trick should bring.

No sampling, no chance. It knows its view and the deck, and never looks at the game's state.
"""

from typing import Final

from rules.cards import BIT, SUIT_CARDS, SUIT_OF, Card, Cards, Suit, mask, members
from rules.game import Phase, View
from rules.klaverjas_cards import BEATS, DECK_CARDS, POINTS, trick_roem
from rules.moves import NAME_TRUMP, PASS, Move
from rules.partners import SIDE_OF, winning

VERSION: Final = 1

_TRUMP_WORTH: Final = {20: 28, 14: 22, 11: 14, 10: 12, 4: 9, 3: 9, 0: 8}
_ENOUGH_TO_NAME: Final = 60


def steady(view: View, _chance: bytes) -> Move:
    """The move of the seat whose turn it is."""
    legal = view.legal
    assert legal
    if not legal & (legal - 1):
        return legal.bit_length() - 1
    if view.phase is Phase.BIDDING:
        return _call(view)
    return _card(view)


def _call(view: View) -> Move:
    worth, suit = max((_worth(view.hand, suit), suit) for suit in range(4))
    is_forced = not view.legal >> PASS & 1
    return NAME_TRUMP + suit if is_forced or worth >= _ENOUGH_TO_NAME else PASS


def _worth(hand: Cards, trump: Suit) -> float:
    worth = 0.0
    points = POINTS[trump]
    for card in members(hand):
        if SUIT_OF[card] == trump:
            worth += _TRUMP_WORTH[points[card]]
        elif points[card] == 11:
            worth += 12
        elif points[card] == 10 and hand & SUIT_CARDS[SUIT_OF[card]] & ~BIT[card]:
            worth += 4
    return worth


def _card(view: View) -> Card:
    assert view.seat is not None and view.trump is not None
    trump = view.trump
    beats, points = BEATS[trump], POINTS[trump]
    played = view.trick.cards
    seats = view.trick.seats
    unseen, voids = _seen(view)
    last_trick = 10 if len(view.tricks) == 7 else 0
    best_card, best_value = -1, -1e9
    for card in members(view.legal):
        trick = (*played, card)
        place = winning(trick, beats)
        ours = place == len(played) or SIDE_OF[seats[place]] == SIDE_OF[view.seat]
        chance = 1.0 if ours else 0.0
        seat = view.seat
        for _ in range(3 - len(played)):
            seat = (seat + 1) & 3
            q = _beats_chance(unseen & ~voids[seat], view.hand_counts[seat], trick[0], trick[place], trump)
            if SIDE_OF[seat] == SIDE_OF[view.seat]:
                chance += (1 - chance) * q
            else:
                chance *= 1 - q
        stake = last_trick + sum([points[c] for c in trick]) + 4.0 * (3 - len(played)) + trick_roem(mask(trick), trump)
        value = stake * (2 * chance - 1) - _keep(card, unseen, view, trump)
        if value > best_value:
            best_card, best_value = card, value
    return best_card


KEEP_TRUMP = 8.0
KEEP_BOSS = 6.0
KEEP_POINTS = 0.5


def _keep(card: Card, unseen: Cards, view: View, trump: Suit) -> float:
    keep = 0.0
    if SUIT_OF[card] == trump:
        keep += KEEP_TRUMP
    if not BEATS[trump][card] & unseen & SUIT_CARDS[SUIT_OF[card]]:
        keep += KEEP_BOSS
    return keep + KEEP_POINTS * POINTS[trump][card]


def _beats_chance(possible: Cards, held: int, led: Card, best: Card, trump: Suit) -> float:
    total = possible.bit_count()
    if not total or not held:
        return 0.0
    led_suit = SUIT_CARDS[SUIT_OF[led]]
    beats = BEATS[trump][best] & possible
    higher = (beats & led_suit).bit_count()
    has_higher = 1 - (1 - higher / total) ** held
    if SUIT_OF[led] == trump:
        return has_higher
    ruffs = (beats & SUIT_CARDS[trump]).bit_count()
    if not ruffs:
        return has_higher
    following = (possible & led_suit).bit_count()
    return has_higher + (1 - following / total) ** held * (1 - (1 - ruffs / total) ** held)


def _seen(view: View) -> tuple[Cards, list[Cards]]:
    seen = view.hand | mask(view.trick.cards)
    voids: list[Cards] = [0, 0, 0, 0]
    for trick in (*view.tricks, view.trick):
        if trick.cards:
            led = SUIT_OF[trick.cards[0]]
            for seat, card in zip(trick.seats, trick.cards):
                seen |= BIT[card]
                if SUIT_OF[card] != led:
                    voids[seat] |= SUIT_CARDS[led]
    return DECK_CARDS & ~seen, voids
