"""The search of the sharp bot of euchre.

The hands that it deals fit the suits that were not followed and, of a few, best the calls that were made. The upcard,
once ordered up, is dealt to the dealer, and what the dealer laid away lies among the undealt cards. A deal is called
and played out by the rules of thumb of `rules.bots.euchre` in every seat.
"""

from typing import Final

import numpy as np

from rules.bots.euchre import (
    ALONE,
    ENOUGH_ALONE,
    ENOUGH_TO_CALL,
    UPCARD_TO_OPPONENT,
    UPCARD_TO_PARTNER,
    WITH_PARTNER,
    Weights,
)
from rules.cards import BIT, Cards, members
from rules.euchre_cards import BEATS, DECK_CARDS, RANKINGS, SAME_SUIT, TRUMPS
from rules.game import Phase, View
from rules.moves import DISCARD, NAME_TRUMP, NAME_TRUMP_ALONE, ORDER_UP, ORDER_UP_ALONE, PASS, Move
from rules.partners import NO_TRUMP, SEATS, winning
from rules.search.kernels import Ints, Words, code, count, deal, kernel, words_for

# Deals that are sampled for a decision, and how many are dealt for each to choose from.
CALL_SAMPLES: Final = 1500
CARD_SAMPLES: Final = 2000
CANDIDATES: Final = 4

_NOBODY: Final = -1
_BEATS: Final = np.array(BEATS, np.int64)
_SAME_SUIT: Final = np.array(SAME_SUIT, np.int64)
_TRUMPS: Final = np.array(TRUMPS, np.int64)
# By trump and suit: all its cards, the best of them and the next.
_SUITS: Final = np.array([[sum(BIT[card] for card in suit) for suit in suits] for suits in RANKINGS], np.int64)
_BEST: Final = np.array([[BIT[suit[-1]] for suit in suits] for suits in RANKINGS], np.int64)
_NEXT: Final = np.array([[BIT[suit[-2]] for suit in suits] for suits in RANKINGS], np.int64)
# By trump and card: how many of its own suit beat it.
_ABOVE: Final = np.array(
    [[(BEATS[t][card] & SAME_SUIT[t][card]).bit_count() for card in range(52)] for t in range(4)], np.int64
)


def _weights(weights: Weights) -> list[int]:
    return [weights.whatever_the_cards, weights.ace, weights.king, weights.void, *weights.trumps]


# By whether one goes alone; the weights of trumps are from the lowest on.
_WEIGHTS: Final = np.array([_weights(WITH_PARTNER), _weights(ALONE)], np.int64)


@kernel
def _tricks(hand: int, trump: int, alone: int) -> int:
    """Hundredths of tricks that a maker with this hand should take."""
    weights = _WEIGHTS[alone]
    tricks: int = weights[0]
    trumps = hand & _TRUMPS[trump]
    for suit in range(4):
        if suit == trump:
            continue
        held = hand & _SUITS[trump, suit]
        if not held:
            if trumps:
                tricks += weights[3]
        elif held & _BEST[trump, suit]:
            tricks += weights[1]
        elif held & _NEXT[trump, suit] and held & (held - 1):
            tricks += weights[2]
    while trumps:
        tricks += weights[10 - _ABOVE[trump, code(trumps)]]
        trumps &= trumps - 1
    return tricks


@kernel
def _worth(card: int, choice: int, trump: int) -> int:
    place = code(card)
    worth: int = -10 * _ABOVE[trump, place]
    if card & _TRUMPS[trump]:
        return worth + 200
    return worth + 100 + 6 * count(choice & _SAME_SUIT[trump, place])


@kernel
def _extreme(choice: int, trump: int, sign: int) -> int:
    """The card that is worth most (1), or that is missed least (-1)."""
    chosen = choice & -choice
    rest = choice ^ chosen
    if not rest:
        return chosen
    most = sign * _worth(chosen, choice, trump)
    while rest:
        card = rest & -rest
        rest ^= card
        worth = sign * _worth(card, choice, trump)
        if worth > most:
            chosen = card
            most = worth
    return chosen


@kernel
def _tops(choice: int, trump: int, unseen: int) -> int:
    """Those of the cards that no unseen one of their own suit beats."""
    tops = 0
    while choice:
        card = choice & -choice
        choice ^= card
        place = code(card)
        if not _BEATS[trump, place] & _SAME_SUIT[trump, place] & unseen:
            tops |= card
    return tops


@kernel
def _lead(hand: int, trump: int, unseen: int, is_maker: bool) -> int:
    trumps = hand & _TRUMPS[trump]
    plain = hand ^ trumps
    tops = _tops(hand, trump, unseen)
    trumps_out = unseen & _TRUMPS[trump]
    if trumps_out and is_maker:
        if tops & trumps:
            return _extreme(tops & trumps, trump, 1)
        if count(trumps) >= 3:
            return _extreme(trumps, trump, 1)
    if tops & plain:
        return _extreme(tops & plain, trump, 1)
    if trumps and not trumps_out:
        return _extreme(trumps, trump, 1)
    return _extreme(plain or hand, trump, -1)


@kernel
def _follow(legal: int, trump: int, unseen: int, best: int, place: int, is_ours: bool, is_last: bool) -> int:
    if is_ours and (is_last or _tops(best, trump, unseen)):
        return _extreme(legal, trump, -1)
    winners = legal & _BEATS[trump, code(best)]
    if not winners:
        return _extreme(legal, trump, -1)
    if is_last:
        return _extreme(winners, trump, -1)
    tops = _tops(winners, trump, unseen)
    if tops:
        return _extreme(tops, trump, -1)
    ruffs = winners & _TRUMPS[trump]
    return _extreme(ruffs, trump, -1) if ruffs and place == 1 else _extreme(winners, trump, 1)


@kernel
def play_out(hands: Ints, trump: int, maker: int, idle: int, turn: int, trick: Ints, tricks: Ints, first: int) -> int:
    """Play the deal out, `first` being the move of the seat whose turn it is or 0; returns the decisions taken.

    `trick` is the open trick: how many cards, the first card, the best card and who played it. `tricks` are those taken
    by side.
    """
    place, led, best, best_seat = trick[0], trick[1], trick[2], trick[3]
    active = 4 if idle == _NOBODY else 3
    decisions = 0
    while tricks[0] + tricks[1] < 5:
        if turn == idle:
            turn = (turn + 1) & 3
        hand = hands[turn]
        if first:
            card = first
            first = 0
        elif not hand & (hand - 1):
            card = hand
        else:
            unseen = (hands[0] | hands[1] | hands[2] | hands[3] | hands[4]) ^ hand
            if not place:
                card = _lead(hand, trump, unseen, (turn ^ maker) & 1 == 0)
            else:
                legal = hand & _SAME_SUIT[trump, code(led)] or hand
                is_ours = (turn ^ best_seat) & 1 == 0
                card = _follow(legal, trump, unseen, best, place, is_ours, place == active - 1)
        decisions += 1
        hands[turn] = hand ^ card
        if not place:
            led = card
        if not place or card & _BEATS[trump, code(best)]:
            best = card
            best_seat = turn
        place += 1
        turn = (turn + 1) & 3
        if place == active:
            tricks[best_seat & 1] += 1
            turn = best_seat
            place = 0
    return decisions


@kernel
def ahead_by(side: int, maker: int, idle: int, tricks: Ints) -> int:
    """Points of a finished deal by which the side is ahead."""
    made = tricks[maker & 1]
    if made == 5:
        points = 2 if idle == _NOBODY else 4
    else:
        points = 1 if made >= 3 else -2
    return points if maker & 1 == side else -points


@kernel
def call_of(hand: int, seat: int, calls: int, dealer: int, upcard: int) -> int:
    """The rules of thumb for the call that follows so many."""
    suit = code(upcard) // 13
    if calls < 4:
        gain = 0
        if seat == dealer:
            hand |= upcard
            hand ^= _extreme(hand, suit, -1)
        else:
            gain = UPCARD_TO_PARTNER if seat ^ dealer == 2 else UPCARD_TO_OPPONENT
        if _tricks(hand, suit, 1) >= ENOUGH_ALONE:
            return ORDER_UP_ALONE
        return ORDER_UP if _tricks(hand, suit, 0) + gain >= ENOUGH_TO_CALL else PASS
    most = -1000
    named = -1
    for other in range(4):
        if other != suit:
            tricks = _tricks(hand, other, 0)
            if tricks >= most:
                most = tricks
                named = other
    if _tricks(hand, named, 1) >= ENOUGH_ALONE:
        return NAME_TRUMP_ALONE + named
    return NAME_TRUMP + named if calls == 7 or most >= ENOUGH_TO_CALL else PASS


@kernel
def _misfit(hands: Ints, played: Ints, calls: Ints, me: int, dealer: int, upcard: int) -> int:
    """By how many hundredths of tricks the others' calls differ from what these hands would have called."""
    misfit = 0
    suit = code(upcard) // 13
    for made in range(len(calls)):
        seat = (dealer + 1 + made) & 3
        call = calls[made]
        if seat == me:
            continue
        hand = hands[seat] | played[seat]
        if made < 4:
            gain = 0
            if seat == dealer:
                if call == PASS:
                    hand |= upcard
                    hand ^= _extreme(hand, suit, -1)
            else:
                gain = UPCARD_TO_PARTNER if seat ^ dealer == 2 else UPCARD_TO_OPPONENT
            lacking = ENOUGH_TO_CALL - _tricks(hand, suit, 0) - gain
            if call == ORDER_UP_ALONE:
                lacking = ENOUGH_ALONE - _tricks(hand, suit, 1)
        elif call == PASS:
            lacking = 1000
            for other in range(4):
                if other != suit:
                    lacking = min(lacking, ENOUGH_TO_CALL - _tricks(hand, other, 0))
        elif call >= NAME_TRUMP_ALONE:
            lacking = ENOUGH_ALONE - _tricks(hand, call - NAME_TRUMP_ALONE, 1)
        else:
            # Who is stuck may lack anything, and names the best.
            lacking = (ENOUGH_TO_CALL if made < 7 else 0) - _tricks(hand, call - NAME_TRUMP, 0)
        misfit += max(-lacking if call == PASS else lacking, 0)
    return misfit


@kernel
def search(
    words: Words,
    samples: int,
    moves: Ints,
    me: int,
    dealer: int,
    upcard: int,
    calls: Ints,
    known: Ints,
    unseen: int,
    allowed: Ints,
    counts: Ints,
    played: Ints,
    trump: int,
    maker: int,
    idle: int,
    trick: Ints,
    tricks: Ints,
    totals: Ints,
) -> int:
    """Add up in `totals`, for each move, by how much its side is ahead; returns the decisions taken."""
    decisions = 0
    dealt = np.zeros(5, np.int64)
    fitting = np.zeros(5, np.int64)
    hands = np.zeros(5, np.int64)
    taken = np.zeros(2, np.int64)
    for _ in range(samples):
        least = 1 << 60
        for _ in range(CANDIDATES if len(calls) else 1):
            dealt[:] = known
            deal(words, unseen, allowed, counts, dealt)
            misfit = _misfit(dealt, played, calls, me, dealer, upcard)
            if misfit < least:
                least = misfit
                fitting[:] = dealt
        for i in range(len(moves)):
            hands[:] = fitting
            taken[:] = tricks
            move = moves[i]
            suit, caller, sitting_out = trump, maker, idle
            turn, first = me, 0
            if move >= DISCARD:
                card = 1 << (move - DISCARD)
                hands[me] ^= card
                hands[4] |= card
                turn = (dealer + 1) & 3
            elif move < PASS:
                first = 1 << move
            else:
                made = len(calls)
                caller = me
                call = move
                while call == PASS:
                    made += 1
                    caller = (caller + 1) & 3
                    call = call_of(hands[caller], caller, made, dealer, upcard)
                    decisions += 1
                sitting_out = _NOBODY
                if call == ORDER_UP_ALONE or call >= NAME_TRUMP_ALONE:
                    sitting_out = caller ^ 2
                suit = (call - NAME_TRUMP) & 3
                if call < NAME_TRUMP:
                    suit = code(upcard) // 13
                    if sitting_out != dealer:
                        hand = hands[dealer] | upcard
                        card = _extreme(hand, suit, -1)
                        hands[dealer] = hand ^ card
                        hands[4] |= card
                        decisions += 1
                turn = (dealer + 1) & 3
            decisions += play_out(hands, suit, caller, sitting_out, turn, trick, taken, first)
            totals[i] += ahead_by(me & 1, caller, sitting_out, taken)
    return decisions


def weigh(view: View, chance: bytes, samples: int = 0) -> tuple[dict[Move, int], int]:
    """By each legal move how far ahead it should bring the side, on any scale; and the decisions that were played out.

    `samples` is how many deals to sample, 0 for as many as the bot does.
    """
    assert view.seat is not None
    assert view.turned is not None
    trump = NO_TRUMP if view.trump is None else view.trump
    played, voids = played_and_lacking(view)
    known = [0] * (SEATS + 1)
    known[view.seat] = view.hand
    upcard = BIT[view.turned]
    unseen = DECK_CARDS & ~view.hand
    for cards_played in played:
        unseen &= ~cards_played
    if view.discarded is not None:
        unseen &= ~BIT[view.discarded]
    is_ordered = any(call in (ORDER_UP, ORDER_UP_ALONE) for _, call in view.calls)
    if is_ordered and unseen & upcard:
        # The dealer has it, unless it was seen that no trump is left there: then the dealer laid it away.
        known[SEATS if voids[view.dealer] & upcard else view.dealer] = upcard
    # Until it is ordered up it is in nobody's hand.
    unseen &= ~upcard
    counts = [*view.hand_counts, 0]
    counts[SEATS] = unseen.bit_count() + sum(held.bit_count() for held in known) - sum(counts)
    allowed = [*(unseen & ~void for void in voids), unseen]
    allowed[view.seat] = 0
    moves = list(members(view.legal))
    totals = np.zeros(len(moves), np.int64)
    tricks = [view.tricks_won[0] + view.tricks_won[2], view.tricks_won[1] + view.tricks_won[3]]
    decisions = search(
        words_for(view, chance),
        samples or (CARD_SAMPLES if view.phase is Phase.PLAYING else CALL_SAMPLES),
        np.array(moves, np.int64),
        view.seat,
        view.dealer,
        upcard,
        np.array([call for _, call in view.calls], np.int64),
        np.array(known, np.int64),
        unseen,
        np.array(allowed, np.int64),
        np.array(counts, np.int64),
        np.array(played, np.int64),
        trump,
        _NOBODY if view.maker is None else view.maker,
        _NOBODY if view.sitting_out is None else view.sitting_out,
        open_trick(view, trump),
        np.array(tricks, np.int64),
        totals,
    )
    return dict(zip(moves, totals.tolist(), strict=True)), decisions


def played_and_lacking(view: View) -> tuple[list[Cards], list[Cards]]:
    """By seat, the cards played in this deal, and those that it cannot hold: of suits that it did not follow."""
    played, voids = [0] * SEATS, [0] * SEATS
    for trick in (*view.tricks, view.trick):
        for seat, card in zip(trick.seats, trick.cards, strict=True):
            assert view.trump is not None
            played[seat] |= BIT[card]
            led = SAME_SUIT[view.trump][trick.cards[0]]
            if not BIT[card] & led:
                voids[seat] |= led
    return played, voids


def open_trick(view: View, trump: int) -> Ints:
    """As `play_out` wants it."""
    played = view.trick.cards
    if not played:
        return np.zeros(4, np.int64)
    place = winning(played, BEATS[trump])
    return np.array([len(played), BIT[played[0]], BIT[played[place]], view.trick.seats[place]], np.int64)
