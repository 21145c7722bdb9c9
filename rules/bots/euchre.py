"""The steady bot of euchre: counts the tricks its cards should take to call, then plays by rules of thumb.

No sampling, no chance. It knows its view and the deck, and never looks at the game's state.
"""

from typing import Final

from rules.cards import BIT, SUIT_OF, Card, Cards, Suit, mask, members
from rules.euchre_cards import BEATS, DECK_CARDS, RANKINGS, SAME_SUIT, TRUMPS
from rules.game import Phase, View
from rules.moves import DISCARD, NAME_TRUMP, NAME_TRUMP_ALONE, ORDER_UP, ORDER_UP_ALONE, PASS, Move
from rules.partners import PARTNER, SIDE_OF, winning

VERSION: Final = 1

# Tricks to expect of one's own cards, by the rank of a trump (9 T Q K A left right) ...
_TRUMP_TRICKS: Final = (0.45, 0.5, 0.55, 0.65, 0.8, 0.95, 1.0)
# ... of a plain ace and a guarded plain king, and of a void that can be ruffed.
_ACE_TRICKS: Final = 0.6
_KING_TRICKS: Final = 0.2
_VOID_TRICKS: Final = 0.25
# What the upcard adds for the side of the dealer who takes it.
_UPCARD_TRICKS: Final = 0.5

_ENOUGH_TO_CALL: Final = 2.1
_ENOUGH_ALONE: Final = 3.6


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
    assert view.seat is not None and view.turned is not None
    up_suit = SUIT_OF[view.turned]
    if len(view.calls) < view.seats:
        if view.seat == view.dealer:
            taken = view.hand | BIT[view.turned]
            tricks = _tricks(taken & ~BIT[_least(taken, up_suit)], up_suit)
        else:
            tricks = _tricks(view.hand, up_suit)
        if tricks >= _ENOUGH_ALONE:
            return ORDER_UP_ALONE
        if view.seat == PARTNER[view.dealer]:
            tricks += _UPCARD_TRICKS
        elif view.seat != view.dealer:
            tricks -= _UPCARD_TRICKS
        return ORDER_UP if tricks >= _ENOUGH_TO_CALL else PASS

    tricks, suit = max((_tricks(view.hand, suit), suit) for suit in range(4) if suit != up_suit)
    if tricks >= _ENOUGH_ALONE:
        return NAME_TRUMP_ALONE + suit
    is_stuck = not view.legal >> PASS & 1
    return NAME_TRUMP + suit if is_stuck or tricks >= _ENOUGH_TO_CALL else PASS


def _tricks(hand: Cards, trump: Suit) -> float:
    """How many tricks five cards should take with this trump."""
    trumps = hand & TRUMPS[trump]
    tricks = 0.0
    for rank, card in enumerate(RANKINGS[trump][trump]):
        if trumps & BIT[card]:
            tricks += _TRUMP_TRICKS[rank]
    for suit, ranking in enumerate(RANKINGS[trump]):
        if suit == trump:
            continue
        length = (hand & mask(ranking)).bit_count()
        if not length:
            tricks += _VOID_TRICKS if trumps else 0.0
        elif hand & BIT[ranking[-1]]:
            tricks += _ACE_TRICKS
        elif hand & BIT[ranking[-2]] and length > 1:
            tricks += _KING_TRICKS
    return tricks


# Cards


def _least(choice: Cards, trump: Suit) -> Card:
    """The card that is missed least: plain before trump, low before high, and of two alike the lone one of its suit."""
    return min(members(choice), key=lambda card: _worth(card, choice, trump))


def _worth(card: Card, choice: Cards, trump: Suit) -> float:
    suit = SAME_SUIT[trump][card]
    above = (BEATS[trump][card] & suit).bit_count()
    if TRUMPS[trump] & BIT[card]:
        return 20 - above
    return 10 - above + 0.6 * (choice & suit).bit_count()


def _card(view: View) -> Card:
    assert view.seat is not None and view.trump is not None
    unseen = _unseen(view)
    played = view.trick.cards
    if not played:
        return _lead(view, view.trump, unseen)
    trump, legal = view.trump, view.legal
    beats = BEATS[trump]
    place = winning(played, beats)
    winner = view.trick.seats[place]
    is_last = len(played) == view.seats - 1 - (view.sitting_out is not None)
    winners = legal & beats[played[place]]
    if winner == PARTNER[view.seat] and (is_last or not beats[played[place]] & unseen & SAME_SUIT[trump][played[0]]):
        return _least(legal, trump)
    if not winners:
        return _least(legal, trump)
    if is_last:
        return _least(winners, trump)
    # Cards that only a ruff can beat are as good as any higher one.
    sure = mask(card for card in members(winners) if not beats[card] & unseen & SAME_SUIT[trump][card])
    if sure:
        return _least(sure, trump)
    return _least(winners & TRUMPS[trump] or winners, trump) if len(played) == 1 else _greatest(winners, trump)


def _greatest(choice: Cards, trump: Suit) -> Card:
    return max(members(choice), key=lambda card: _worth(card, choice, trump))


def _lead(view: View, trump: Suit, unseen: Cards) -> Card:
    assert view.seat is not None and view.maker is not None
    hand = view.hand
    trumps = hand & TRUMPS[trump]
    are_makers = SIDE_OF[view.seat] == SIDE_OF[view.maker]
    sure = mask(card for card in members(hand) if not BEATS[trump][card] & unseen & SAME_SUIT[trump][card])
    if are_makers and unseen & TRUMPS[trump]:
        if sure & trumps:
            return _greatest(sure & trumps, trump)
        if trumps.bit_count() >= 3:
            return _greatest(trumps, trump)
    if sure & ~trumps:
        return _greatest(sure & ~trumps, trump)
    if not unseen & TRUMPS[trump] and trumps:
        return _greatest(trumps, trump)
    return _least(hand & ~trumps or hand, trump)


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
