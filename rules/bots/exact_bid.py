"""The steady bot of Romanian whist and oh hell: bids what its cards should take, then plays to take exactly that.

Rules of thumb only: no sampling, no chance. It knows its view and the deck, and never looks at the game's state.
"""

from typing import Final

from rules.cards import BIT, SAME_SUIT, SUIT_CARDS, Card, Cards, mask, members
from rules.game import Phase, View
from rules.moves import BID, Move
from rules.values import value

VERSION: Final = 1


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


def _prospects(view: View, deck: Cards) -> dict[Card, float]:
    """For each card held, the chance that it takes a trick."""
    hand = view.hand
    seen = hand | mask(view.trick.cards)
    for trick in view.tricks:
        seen |= mask(trick.cards)
    if view.turned is not None:
        seen |= BIT[view.turned]
    unseen = deck & ~seen
    # The chance that an unseen card is in somebody's hand rather than in the rest of the pack.
    in_play = (sum(view.hand_counts) - hand.bit_count()) / max(unseen.bit_count(), 1)
    others = view.seats - 1
    trump_cards = 0 if view.trump is None else SUIT_CARDS[view.trump]
    trumps_out = (unseen & trump_cards).bit_count() * in_play
    prospects = {}
    for card in members(hand):
        suit_cards = SAME_SUIT[card]
        length = (hand & suit_cards).bit_count()
        suit_out = (unseen & suit_cards).bit_count() * in_play
        above = (unseen & suit_cards & -BIT[card]).bit_count() * in_play
        if BIT[card] & trump_cards:
            prospects[card] = max(0.95 - 0.28 * above, 0.1 + 0.07 * length)
        else:
            followed = min(1.0, suit_out / (others * 1.2)) if trumps_out > 0.5 else 1.0
            prospects[card] = max(0.92 - 0.5 * above, 0.03) * followed
    return prospects


def _bid(view: View, prospects: dict[Card, float]) -> Move:
    wanted = sum(prospects.values())
    # The nearest bid that the hook leaves; of two as near, the smaller.
    return min(members(view.legal), key=lambda move: abs(move - BID - wanted))


def _card(view: View, prospects: dict[Card, float], tricks_score: bool) -> Card:
    needed = _bid_of_viewer(view) - view.tricks_won[view.seat or 0]
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


def _bid_of_viewer(view: View) -> int:
    for seat, call in view.calls:
        if seat == view.seat:
            return call - BID
    raise AssertionError("a card is played before the viewer's bid")
