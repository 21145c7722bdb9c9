"""The steady bot of euchre: counts the tricks that its cards should take to call, then plays by rules of thumb.

No sampling, no chance. It knows its view and the deck, and never looks at the game's state.
"""

from typing import Final

from rules.cards import BIT, SUIT_OF, Card, Cards, Suit, mask, members
from rules.euchre_cards import BEATS, DECK_CARDS, RANKINGS, SAME_SUIT, TRUMPS
from rules.game import Phase, View
from rules.moves import DISCARD, NAME_TRUMP, NAME_TRUMP_ALONE, ORDER_UP, ORDER_UP_ALONE, PASS, Move
from rules.partners import PARTNER, SIDE_OF, winning
from rules.values import value

VERSION: Final = 1


@value
class Weights:
    """Hundredths of tricks that a maker may expect, fitted to deals that this bot played in all four seats.

    Whole numbers, so that the bot decides the same on every Python.
    """

    whatever_the_cards: int
    # By the rank of a trump: 9 T Q K A left right.
    trumps: tuple[int, ...]
    # Of a plain ace, of a plain king that another card guards, and of a void beside a trump.
    ace: int
    king: int
    void: int


WITH_PARTNER: Final = Weights(135, (35, 40, 40, 45, 60, 80, 95), ace=33, king=14, void=16)
ALONE: Final = Weights(-15, (50, 60, 65, 75, 85, 110, 130), ace=50, king=18, void=23)

# What it adds that the upcard goes to the partner, or to an opponent.
UPCARD_TO_PARTNER: Final = 30
UPCARD_TO_OPPONENT: Final = -35

ENOUGH_TO_CALL: Final = 295
ENOUGH_ALONE: Final = 350


def steady(view: View, _chance: bytes) -> Move:
    """The move of the seat whose turn it is."""
    legal = view.legal
    assert legal
    if not legal & (legal - 1):
        return legal.bit_length() - 1
    if view.phase is Phase.BIDDING:
        return _call(view)
    if view.phase is Phase.DISCARDING:
        assert view.trump is not None
        return DISCARD + _least(view.hand, view.trump)
    return _card(view)


# Calls


def _call(view: View) -> Move:
    assert view.seat is not None
    assert view.turned is not None
    upcard_suit = SUIT_OF[view.turned]
    if len(view.calls) >= view.seats:
        tricks, suit = max((_tricks(view.hand, suit, WITH_PARTNER), suit) for suit in range(4) if suit != upcard_suit)
        if _tricks(view.hand, suit, ALONE) >= ENOUGH_ALONE:
            return NAME_TRUMP_ALONE + suit
        is_stuck = not view.legal >> PASS & 1
        return NAME_TRUMP + suit if is_stuck or tricks >= ENOUGH_TO_CALL else PASS

    hand = view.hand
    gain = 0
    if view.seat == view.dealer:
        hand |= BIT[view.turned]
        hand ^= BIT[_least(hand, upcard_suit)]
    elif view.seat == PARTNER[view.dealer]:
        gain = UPCARD_TO_PARTNER
    else:
        gain = UPCARD_TO_OPPONENT
    if _tricks(hand, upcard_suit, ALONE) >= ENOUGH_ALONE:
        return ORDER_UP_ALONE
    return ORDER_UP if _tricks(hand, upcard_suit, WITH_PARTNER) + gain >= ENOUGH_TO_CALL else PASS


def _tricks(hand: Cards, trump: Suit, weights: Weights) -> int:
    """How many hundredths of tricks a maker with these five cards should take."""
    tricks = weights.whatever_the_cards
    for suit, ranking in enumerate(RANKINGS[trump]):
        held = [rank for rank, card in enumerate(ranking) if hand & BIT[card]]
        if suit == trump:
            tricks += sum([weights.trumps[rank] for rank in held])
        elif not held:
            tricks += weights.void if hand & TRUMPS[trump] else 0
        elif held[-1] == len(ranking) - 1:
            tricks += weights.ace
        elif held[-1] == len(ranking) - 2 and len(held) > 1:
            tricks += weights.king
    return tricks


# Cards


def _least(choice: Cards, trump: Suit) -> Card:
    """The card that is missed least: plain before trump, low before high, and of two alike the lone one of its suit."""
    return min(members(choice), key=lambda card: _worth(card, choice, trump))


def _worth(card: Card, choice: Cards, trump: Suit) -> int:
    suit = SAME_SUIT[trump][card]
    above = (BEATS[trump][card] & suit).bit_count()
    if TRUMPS[trump] & BIT[card]:
        return 200 - 10 * above
    return 100 - 10 * above + 6 * (choice & suit).bit_count()


def _greatest(choice: Cards, trump: Suit) -> Card:
    return max(members(choice), key=lambda card: _worth(card, choice, trump))


def _card(view: View) -> Card:
    trump, legal, played = view.trump, view.legal, view.trick.cards
    assert view.seat is not None
    assert trump is not None
    unseen = _unseen(view)
    if not played:
        return _lead(view, trump, unseen)
    beats = BEATS[trump]
    place = winning(played, beats)
    best = played[place]
    is_last = len(played) == view.seats - (1 if view.sitting_out is None else 2)
    if view.trick.seats[place] == PARTNER[view.seat] and (is_last or _tops(BIT[best], trump, unseen)):
        return _least(legal, trump)
    winners = legal & beats[best]
    if not winners:
        return _least(legal, trump)
    tops = _tops(winners, trump, unseen)
    if is_last or tops:
        return _least(winners if is_last else tops, trump)
    # Second to play a low ruff will do; the third has to make it dear.
    ruffs = winners & TRUMPS[trump]
    return _least(ruffs, trump) if ruffs and len(played) == 1 else _greatest(winners, trump)


def _lead(view: View, trump: Suit, unseen: Cards) -> Card:
    assert view.seat is not None
    assert view.maker is not None
    hand = view.hand
    trumps = hand & TRUMPS[trump]
    plain = hand ^ trumps
    tops = _tops(hand, trump, unseen)
    trumps_are_out = unseen & TRUMPS[trump]
    if trumps_are_out and SIDE_OF[view.seat] == SIDE_OF[view.maker]:
        # Makers draw trumps, with one that holds or from length.
        if tops & trumps:
            return _greatest(tops & trumps, trump)
        if trumps.bit_count() >= 3:
            return _greatest(trumps, trump)
    if tops & plain:
        return _greatest(tops & plain, trump)
    if trumps and not trumps_are_out:
        return _greatest(trumps, trump)
    return _least(plain or hand, trump)


def _tops(choice: Cards, trump: Suit, unseen: Cards) -> Cards:
    """Those of the cards that no unseen one of their own suit beats."""
    beats, same_suit = BEATS[trump], SAME_SUIT[trump]
    return mask(card for card in members(choice) if not beats[card] & same_suit[card] & unseen)


def _unseen(view: View) -> Cards:
    """The cards that may be in other hands, or lie where nobody sees them."""
    seen = view.hand | mask(view.trick.cards)
    for trick in view.tricks:
        seen |= mask(trick.cards)
    if view.discarded is not None:
        seen |= BIT[view.discarded]
    # Turned down, the upcard is out of play.
    if view.turned is not None and len(view.calls) > view.seats:
        seen |= BIT[view.turned]
    return DECK_CARDS & ~seen
