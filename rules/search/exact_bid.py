"""The search of the sharp bot of Romanian whist and oh hell.

The hands that it deals fit the suits that were not followed and, of a few, best the bids that were made. A deal is
played out by the rules of thumb of `rules.bots.exact_bid`, every seat after its own bid.
"""

from typing import Final

import numpy as np

from rules.bots.exact_bid import (
    CAUTION,
    CROWDING,
    FOLLOWERS,
    PLAIN_ABOVE,
    PLAIN_FLOOR,
    PLAIN_WORTH,
    TRUMP_ABOVE,
    TRUMP_FLOOR,
    TRUMP_LENGTH,
    TRUMP_WORTH,
    Style,
)
from rules.cards import BIT, SAME_SUIT, SUIT_CARDS, Cards, mask, members
from rules.game import Phase, View
from rules.moves import BID, Move
from rules.search.kernels import Ints, Words, code, count, deal, kernel, words_for

# Deals that are sampled for a decision, and how many are dealt for each to choose from.
BID_SAMPLES: Final = 400
CARD_SAMPLES: Final = 600
CANDIDATES: Final = 3

_CLUBS: Final = 0x1FFF


@kernel
def _suit_of(card: int) -> int:
    """All cards of a card's suit."""
    return _CLUBS << (code(card) // 13 * 13)


@kernel
def _higher(card: int) -> int:
    """The cards of a card's suit above it."""
    return _suit_of(card) & -card ^ card


@kernel
def _bid_of(
    hand: int, unseen: int, in_hands: int, seats: int, hand_size: int, bid_sum: int, bids: int, trump: int
) -> int:
    """Thousandths of tricks that `rules.bots.exact_bid` would bid with this hand, after so many bids."""
    in_play = 1000 * in_hands // max(count(unseen), 1)
    full_suit = (seats - 1) * FOLLOWERS
    may_be_ruffed = count(unseen & trump) * in_play > 500
    wanted = -CAUTION - CROWDING * (bid_sum * seats - hand_size * bids) // seats
    rest = hand
    while rest:
        card = rest & -rest
        rest ^= card
        suit = _suit_of(card)
        above = count(unseen & _higher(card)) * in_play
        if card & trump:
            wanted += max(TRUMP_WORTH - TRUMP_ABOVE * above // 1000, TRUMP_FLOOR + TRUMP_LENGTH * count(hand & suit))
        else:
            worth = max(PLAIN_WORTH - PLAIN_ABOVE * above // 1000, PLAIN_FLOOR)
            if may_be_ruffed:
                worth = worth * min(count(unseen & suit) * in_play, full_suit) // full_suit
            wanted += worth
    return wanted


@kernel
def _worth(card: int, out: int, trump: int) -> int:
    """The order in which a seat parts with its cards, while these are out in other hands."""
    above = count(out & _higher(card))
    rank = code(card) % 13
    if card & trump:
        return max(TRUMP_WORTH - TRUMP_ABOVE * above, TRUMP_FLOOR) + rank
    return max(PLAIN_WORTH - PLAIN_ABOVE * above, PLAIN_FLOOR) + rank


@kernel
def _extreme(choice: int, out: int, trump: int, greatest: bool) -> int:
    """The card that is worth most, or least."""
    chosen = choice & -choice
    choice ^= chosen
    if not choice:
        return chosen
    chosen_worth = _worth(chosen, out, trump)
    while choice:
        card = choice & -choice
        choice ^= card
        worth = _worth(card, out, trump)
        if (worth > chosen_worth) == greatest:
            chosen = card
            chosen_worth = worth
    return chosen


@kernel
def _card(legal: int, out: int, beating: int, place: int, seats: int, wants_trick: bool, trump: int) -> int:
    """The rules of thumb: which card, when those of `beating` would be winning the trick."""
    if not legal & (legal - 1):
        return legal
    if place == 0:
        return _extreme(legal, out, trump, wants_trick)
    winners = legal & beating
    losers = legal ^ winners
    is_last = place == seats - 1
    if wants_trick:
        if not winners:
            return _extreme(losers, out, trump, False)
        return _extreme(winners, out, trump, not is_last)
    if losers:
        return _extreme(losers, out, trump, True)
    return _extreme(winners, out, trump, is_last)


@kernel
def play_out(
    hands: Ints,
    seats: int,
    turn: int,
    trick: Ints,
    first: int,
    trump: int,
    duty: int,
    bids: Ints,
    won: Ints,
    tricks_score: bool,
) -> int:
    """Play the deal out, `first` being the move of the seat whose turn it is or 0; returns the decisions taken.

    `trick` is the open trick: how many cards, the led suit, the best card and who played it.
    """
    place, led, best, best_seat = trick[0], trick[1], trick[2], trick[3]
    decisions = 0
    while True:
        if place == seats:
            won[best_seat] += 1
            turn = best_seat
            place = 0
            if not hands[turn]:
                return decisions
        hand = hands[turn]
        beating = 0
        legal = hand
        if place:
            legal = hand & led or hand & duty or hand
            beating = _higher(best) if best & trump else _higher(best) | trump
        if first:
            card = first
            first = 0
        else:
            out = 0
            for seat in range(seats):
                out |= hands[seat]
            needed = bids[turn] - won[turn]
            wants_trick = needed > 0 or (needed < 0 and tricks_score)
            card = _card(legal, out ^ hand, beating, place, seats, wants_trick, trump)
        decisions += 1
        hands[turn] = hand ^ card
        if not place:
            led = _suit_of(card)
        if not place or card & beating:
            best = card
            best_seat = turn
        place += 1
        turn += 1
        if turn == seats:
            turn = 0


@kernel
def points_of(bid: int, won: int, tricks_score: bool) -> int:
    if tricks_score:
        return won + 10 if bid == won else won
    return 5 + bid if bid == won else -abs(bid - won)


@kernel
def _misfit(
    hands: Ints, played: Ints, bids: Ints, me: int, dealer: int, deck: int, hand_size: int, trump: int, seats: int
) -> int:
    """By how many thousandths the others' bids differ from what these hands would have bid."""
    misfit = 0
    bid_sum = 0
    for made in range(seats):
        seat = (dealer + 1 + made) % seats
        if bids[seat] < 0:
            break
        if seat != me:
            hand = hands[seat] | played[seat]
            wanted = _bid_of(hand, deck & ~hand, (seats - 1) * hand_size, seats, hand_size, bid_sum, made, trump)
            misfit += abs(wanted - 1000 * bids[seat])
        bid_sum += bids[seat]
    return misfit


@kernel
def bid_on(hands: Ints, bids: Ints, dealer: int, deck: int, hand_size: int, trump: int, seats: int) -> int:
    """Let the seats that have not bid do so, with the hook on the dealer; returns the decisions taken."""
    bid_sum = 0
    decisions = 0
    for made in range(seats):
        seat = (dealer + 1 + made) % seats
        if bids[seat] < 0:
            hand = hands[seat]
            wanted = _bid_of(hand, deck & ~hand, (seats - 1) * hand_size, seats, hand_size, bid_sum, made, trump)
            bid = min(max((wanted + 499) // 1000, 0), hand_size)
            if seat == dealer and bid + bid_sum == hand_size:
                bid = bid + 1 if bid < hand_size and (bid == 0 or wanted > 1000 * bid) else bid - 1
            bids[seat] = bid
            decisions += 1
        bid_sum += bids[seat]
    return decisions


@kernel
def search(
    words: Words,
    samples: int,
    moves: Ints,
    is_bid: bool,
    me: int,
    dealer: int,
    seats: int,
    hand: int,
    unseen: int,
    allowed: Ints,
    counts: Ints,
    played: Ints,
    deck: int,
    hand_size: int,
    trump: int,
    duty: int,
    bids: Ints,
    won: Ints,
    trick: Ints,
    tricks_score: bool,
    totals: Ints,
) -> int:
    """Add up in `totals`, for each move, by how much the seat is ahead of the others; returns the decisions taken."""
    decisions = 0
    dealt = np.zeros(seats + 1, np.int64)
    fitting = np.zeros(seats + 1, np.int64)
    hands = np.zeros(seats + 1, np.int64)
    final_bids = np.zeros(seats, np.int64)
    final_won = np.zeros(seats, np.int64)
    has_bids = bids[(dealer + 1) % seats] >= 0
    for _ in range(samples):
        least = 1 << 60
        for _ in range(CANDIDATES if has_bids else 1):
            dealt[:] = 0
            dealt[me] = hand
            deal(words, unseen, allowed, counts, dealt)
            misfit = _misfit(dealt, played, bids, me, dealer, deck, hand_size, trump, seats)
            if misfit < least:
                least = misfit
                fitting[:] = dealt
        for i in range(len(moves)):
            hands[:] = fitting
            final_bids[:] = bids
            final_won[:] = won
            if is_bid:
                final_bids[me] = moves[i]
                decisions += bid_on(hands, final_bids, dealer, deck, hand_size, trump, seats)
                turn = (dealer + 1) % seats
                first = 0
            else:
                turn = me
                first = 1 << moves[i]
            decisions += play_out(hands, seats, turn, trick, first, trump, duty, final_bids, final_won, tricks_score)
            for seat in range(seats):
                points = points_of(final_bids[seat], final_won[seat], tricks_score)
                totals[i] += points * (seats - 1) if seat == me else -points
    return decisions


def weigh(style: Style, must_trump: bool, view: View, chance: bytes, samples: int = 0) -> tuple[dict[Move, int], int]:
    """By each legal move how far ahead it should bring the seat, on any scale; and the decisions that were played out.

    `samples` is how many deals to sample, 0 for as many as the bot does.
    """
    assert view.seat is not None
    seats, is_bid = view.seats, view.phase is Phase.BIDDING
    deck = style.decks[seats] if view.turned is None else style.decks[seats] & ~BIT[view.turned]
    trump = 0 if view.trump is None else SUIT_CARDS[view.trump]
    duty = trump if must_trump else 0
    played, voids = played_and_lacking(view, duty)
    unseen = deck & ~view.hand
    for cards_played in played:
        unseen &= ~cards_played
    counts = [*view.hand_counts, unseen.bit_count() + view.hand.bit_count() - sum(view.hand_counts)]
    allowed = [*(unseen & ~void for void in voids), unseen]
    allowed[view.seat] = 0
    bids = [-1] * seats
    for seat, call in view.calls:
        bids[seat] = call - BID
    moves = list(members(view.legal))
    totals = np.zeros(len(moves), np.int64)
    decisions = search(
        words_for(view, chance),
        samples or (BID_SAMPLES if is_bid else CARD_SAMPLES),
        np.array([move - BID if is_bid else move for move in moves], np.int64),
        is_bid,
        view.seat,
        view.dealer,
        seats,
        view.hand,
        unseen,
        np.array(allowed, np.int64),
        np.array(counts, np.int64),
        np.array(played, np.int64),
        deck,
        view.hand_size,
        trump,
        duty,
        np.array(bids, np.int64),
        np.array(view.tricks_won, np.int64),
        open_trick(view, trump),
        style.tricks_score,
        totals,
    )
    return dict(zip(moves, totals.tolist(), strict=True)), decisions


def played_and_lacking(view: View, duty: Cards) -> tuple[list[Cards], list[Cards]]:
    """By seat, the cards played in this deal, and those that it cannot hold: of suits that it did not follow."""
    played, voids = [0] * view.seats, [0] * view.seats
    for trick in (*view.tricks, view.trick):
        for seat, card in zip(trick.seats, trick.cards, strict=True):
            played[seat] |= BIT[card]
            led = SAME_SUIT[trick.cards[0]]
            if not BIT[card] & led:
                voids[seat] |= led
                if not BIT[card] & duty:
                    voids[seat] |= duty
    return played, voids


def open_trick(view: View, trump: Cards) -> Ints:
    """As `play_out` wants it."""
    played = view.trick.cards
    if not played:
        return np.zeros(4, np.int64)
    led = SAME_SUIT[played[0]]
    trick = mask(played)
    best = (trick & trump or trick & led).bit_length() - 1
    return np.array([len(played), led, BIT[best], view.trick.seats[played.index(best)]], np.int64)
