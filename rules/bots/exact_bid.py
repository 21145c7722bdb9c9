"""The steady bot of Romanian whist and oh hell: bids what its cards should take, then plays to take exactly that.

Rules of thumb only: no sampling, no chance. It knows its view and the deck, and never looks at the game's state.
"""

from typing import Final

from rules.cards import BIT, SAME_SUIT, SUIT_CARDS, Card, Cards, mask, members
from rules.game import Phase, View
from rules.moves import BID, Move
from rules.values import value

VERSION: Final = 1

# All in thousandths and whole numbers, so that every Python decides the same. What a card is worth in tricks, fitted by
# climbing over whole games of four and six seats. A trump, less so much for each higher one that is expected in other
# hands; however low, long trumps take tricks when the others have run out.
TRUMP_WORTH: Final = 1000
TRUMP_ABOVE: Final = 340
TRUMP_FLOOR: Final = 140
TRUMP_LENGTH: Final = 70
# Another card likewise; it counts in full if about so many of its suit as players are expected in other hands.
PLAIN_WORTH: Final = 880
PLAIN_ABOVE: Final = 580
PLAIN_FLOOR: Final = 50
FOLLOWERS: Final = 1200
# Tricks are easier to lose than to take.
CAUTION: Final = 400
# How much of each trick that the others bid beyond their share is not to be had.
CROWDING: Final = 200


@value
class Style:
    """What the bot has to know of the game that it plays."""

    # The whole deck, by number of seats.
    decks: tuple[Cards, ...]
    # Whether a trick is still worth taking once the bid is missed.
    tricks_score: bool


def steady(style: Style, view: View, _chance: bytes) -> Move:
    """The move of the seat whose turn it is."""
    legal = view.legal
    assert legal
    if not legal & (legal - 1):
        return legal.bit_length() - 1
    prospects = _prospects(view, style.decks[view.seats])
    if view.phase is Phase.BIDDING:
        return _bid(view, prospects)
    return _card(view, prospects, style.tricks_score)


def _prospects(view: View, deck: Cards) -> dict[Card, int]:
    """For each card held, the chance in thousandths that it takes a trick."""
    hand = view.hand
    seen = hand | mask(view.trick.cards)
    for trick in view.tricks:
        seen |= mask(trick.cards)
    if view.turned is not None:
        seen |= BIT[view.turned]
    unseen = deck & ~seen
    # The chance that an unseen card is in somebody's hand rather than in the rest of the pack.
    in_play = 1000 * (sum(view.hand_counts) - hand.bit_count()) // max(unseen.bit_count(), 1)
    full_suit = (view.seats - 1) * FOLLOWERS
    trump_cards = 0 if view.trump is None else SUIT_CARDS[view.trump]
    may_be_ruffed = (unseen & trump_cards).bit_count() * in_play > 500
    prospects = {}
    for card in members(hand):
        suit_cards = SAME_SUIT[card]
        above = (unseen & suit_cards & -BIT[card]).bit_count() * in_play
        if BIT[card] & trump_cards:
            length = (hand & suit_cards).bit_count()
            prospects[card] = max(TRUMP_WORTH - TRUMP_ABOVE * above // 1000, TRUMP_FLOOR + TRUMP_LENGTH * length)
        else:
            worth = max(PLAIN_WORTH - PLAIN_ABOVE * above // 1000, PLAIN_FLOOR)
            suit_out = (unseen & suit_cards).bit_count() * in_play
            prospects[card] = worth * min(suit_out, full_suit) // full_suit if may_be_ruffed else worth
    return prospects


def _bid(view: View, prospects: dict[Card, int]) -> Move:
    bids = [call - BID for _, call in view.calls]
    crowding = sum(bids) * view.seats - view.hand_size * len(bids)
    wanted = sum(prospects.values()) - CAUTION - CROWDING * crowding // view.seats
    # The nearest bid that the hook leaves; of two as near, the smaller.
    return min(members(view.legal), key=lambda move: abs(1000 * (move - BID) - wanted))


def _card(view: View, prospects: dict[Card, int], tricks_score: bool) -> Card:
    needed = _still_needed(view)
    wants_tricks = needed > 0 or (needed < 0 and tricks_score)
    played = view.trick.cards
    if not played:
        return (max if wants_tricks else min)(members(view.legal), key=prospects.__getitem__)
    winners = _beating(view) & view.legal
    losers = view.legal & ~winners
    is_last = len(played) == view.seats - 1
    if wants_tricks:
        if not winners:
            return min(members(losers), key=prospects.__getitem__)
        # Nobody can answer the last card: the cheapest is enough.
        return (min if is_last else max)(members(winners), key=prospects.__getitem__)
    if losers:
        return max(members(losers), key=prospects.__getitem__)
    return (max if is_last else min)(members(winners), key=prospects.__getitem__)


def _beating(view: View) -> Cards:
    """All cards that would be winning the open trick."""
    played = mask(view.trick.cards)
    trump_cards = 0 if view.trump is None else SUIT_CARDS[view.trump]
    ruffs = played & trump_cards
    best = (ruffs or played & SAME_SUIT[view.trick.cards[0]]).bit_length() - 1
    higher = SAME_SUIT[best] & -BIT[best] ^ BIT[best]
    return higher if ruffs else higher | trump_cards


def _still_needed(view: View) -> int:
    """Tricks that the viewer's bid wants more than it has; below 0 when it has too many."""
    assert view.seat is not None
    bid = next(call - BID for seat, call in view.calls if seat == view.seat)
    return bid - view.tricks_won[view.seat]
