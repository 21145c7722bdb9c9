"""The steady bot of Romanian whist and oh hell: bids what its cards should take, then plays to take exactly that.

Rules of thumb only: no sampling, no chance. It knows its view and the deck, and never looks at the game's state.
"""

from typing import Final

from rules.cards import BIT, SUIT_CARDS, SUIT_OF, Card, Cards, mask, members
from rules.game import Phase, View
from rules.moves import BID, Move
from rules.trick import NO_TRUMP, STRENGTH
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
        suit_cards = SUIT_CARDS[SUIT_OF[card]]
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
    legal = tuple(members(view.legal))
    if not played:
        best = max if wants_tricks else min
        return best(legal, key=prospects.__getitem__)
    strength = STRENGTH[NO_TRUMP if view.trump is None else view.trump][SUIT_OF[played[0]]]
    to_beat = max([strength[card] for card in played])
    winners = [card for card in legal if strength[card] > to_beat]
    losers = [card for card in legal if strength[card] <= to_beat]
    is_last = len(played) == view.seats - 1
    if wants_tricks:
        if not winners:
            return min(losers, key=prospects.__getitem__)
        if is_last:
            return min(winners, key=strength.__getitem__)
        return max(winners, key=strength.__getitem__)
    if losers:
        return max(losers, key=prospects.__getitem__)
    if is_last:
        return max(winners, key=strength.__getitem__)
    return min(winners, key=strength.__getitem__)


def _bid_of_viewer(view: View) -> int:
    for seat, call in view.calls:
        if seat == view.seat:
            return call - BID
    raise AssertionError("a card is played before the viewer's bid")
