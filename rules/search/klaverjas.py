"""The search of the sharp bot of klaverjas.

The hands that it deals fit the duties that were not met (to follow, to trump, to go over) and, of a few, best the calls
that were made. A deal is called and played out by rules of thumb like those of `rules.bots.klaverjas` in every seat.
"""

from typing import Final

import numpy as np

from rules.bots.klaverjas import ENOUGH_TO_NAME, OF_ACE, OF_TEN_BESIDE_ACE, OF_TRUMPS, OF_VOID, WHATEVER_THE_CARDS
from rules.cards import ACE, BIT, SAME_SUIT, SUIT_CARDS, SUIT_OF, TEN, Cards, members
from rules.game import View
from rules.klaverjas_cards import BEATS, DECK_CARDS, OVER, POINTS, STUK
from rules.moves import NAME_TRUMP, PASS, Move
from rules.partners import NO_TRUMP, SEATS, winning
from rules.search.kernels import Ints, Words, code, count, deal, kernel, words_for

# Deals that are sampled for a decision, and how many are dealt for each to choose from.
CALL_SAMPLES: Final = 1000
CARD_SAMPLES: Final = 1000
CANDIDATES: Final = 4

_BEATS: Final = np.array(BEATS, np.int64)
_OVER: Final = np.array(OVER, np.int64)
_POINTS: Final = np.array(POINTS, np.int64)
_STUK: Final = np.array(STUK, np.int64)
_SUITS: Final = np.array(SUIT_CARDS, np.int64)
_TRUMP_WEIGHTS: Final = np.array([OF_TRUMPS.get(rank, 0) for rank in range(13)], np.int64)
_ACES: Final = sum(BIT[13 * suit + ACE] for suit in range(4))
_TENS: Final = sum(BIT[13 * suit + TEN] for suit in range(4))
# One card of each suit, by rank from the ten on: four of a kind.
_FOURS: Final = np.array([sum(BIT[13 * suit + rank] for suit in range(4)) for rank in range(TEN, ACE + 1)], np.int64)
_FOUR_JACKS: Final = 1

# In the playing out, halves of points. What a card is worth in the hand over its points, as in `rules.bots.klaverjas`.
_TRUMP_KEPT: Final = 28
_TOP_KEPT: Final = 12
_POINTS_TO_COME: Final = 8
# The chance in 256ths that a card is beaten by an opponent who is still to play: for each unseen card of its suit above
# it, and at most; and that it is ruffed while trumps are out.
_BEATEN_BY_EACH: Final = 60
_BEATEN_AT_MOST: Final = 180
_RUFFED: Final = 30


@kernel
def strength(hand: int, trump: int) -> int:
    """By how many points the side of a maker with this hand should be ahead."""
    ahead: int = WHATEVER_THE_CARDS
    for suit in range(4):
        held = hand & _SUITS[suit]
        if suit == trump:
            while held:
                ahead += _TRUMP_WEIGHTS[code(held) - 13 * suit]
                held &= held - 1
        elif not held:
            ahead += OF_VOID
        elif held & _ACES:
            ahead += OF_ACE
            if held & _TENS:
                ahead += OF_TEN_BESIDE_ACE
    return ahead


@kernel
def best_suit(hand: int) -> int:
    most = -1000
    best = 0
    for suit in range(4):
        ahead = strength(hand, suit)
        if ahead >= most:
            most = ahead
            best = suit
    return best


@kernel
def legal_cards(hand: int, led: int, best: int, partner_has_it: bool, trump: int, rotterdam: bool) -> int:
    """What may be played to a trick that has been led to."""
    suit = code(led) // 13
    following: int = hand & _SUITS[suit]
    if following and suit != trump:
        return following
    trumps: int = hand & _SUITS[trump]
    if not trumps:
        return hand
    over: int = trumps & _OVER[trump, code(best)]
    if rotterdam or suit == trump:
        return over or trumps
    high_or_plain = over | (hand ^ trumps) or hand
    return high_or_plain if partner_has_it else over or high_or_plain


@kernel
def _roem(trick: int, trump: int) -> int:
    threes = trick & trick >> 1 & trick >> 2
    roem = 0
    if threes:
        roem = 50 if threes & threes >> 1 else 20
    if trick & _STUK[trump] == _STUK[trump]:
        roem += 20
    for i in range(len(_FOURS)):
        if trick == _FOURS[i]:
            roem += 200 if i == _FOUR_JACKS else 100
    return roem


@kernel
def _card(
    legal: int,
    trump: int,
    unseen: int,
    trick: int,
    points: int,
    place: int,
    led: int,
    best: int,
    is_ours: bool,
) -> int:
    """The rules of thumb: the card that should bring most in this trick, less what it is worth in the hand."""
    chosen = legal & -legal
    if legal == chosen:
        return chosen
    most = -(1 << 40)
    to_come = 3 - place
    opponents_to_come = (to_come + 1) // 2
    trumps_out = unseen & _SUITS[trump]
    extra = to_come * _POINTS_TO_COME
    while legal:
        card = legal & -legal
        legal ^= card
        own = code(card)
        winner = best
        ours = is_ours
        if not place or card & _BEATS[trump, code(best)]:
            winner = card
            ours = True
        stake = extra + 2 * (points + _POINTS[trump, own])
        if place:
            stake += 2 * _roem(trick | card, trump)
        top = code(winner)
        above = count(_BEATS[trump, top] & _SUITS[top // 13] & unseen)
        beaten = 0
        others = opponents_to_come if ours else to_come // 2
        if others:
            beaten = min(_BEATEN_BY_EACH * above, _BEATEN_AT_MOST)
            if trumps_out and top // 13 != trump:
                beaten += _RUFFED
            if others == 1:
                beaten = beaten * 2 // 3
        sure = 256 - 2 * beaten
        gain = stake * (sure if ours else -sure)
        kept = _POINTS[trump, own]
        if own // 13 == trump:
            kept += _TRUMP_KEPT
        if not _BEATS[trump, own] & _SUITS[own // 13] & unseen:
            kept += _TOP_KEPT
        gain -= 256 * kept
        if gain > most:
            most = gain
            chosen = card
    return chosen


@kernel
def play_out(
    hands: Ints, trump: int, rotterdam: bool, turn: int, trick: Ints, tricks: Ints, points: Ints, first: int
) -> int:
    """Play the deal out, `first` being the move of the seat whose turn it is or 0; returns the decisions taken.

    `trick` is the open trick: how many cards, the first card, the best card, who played it, and all cards. `tricks` and
    `points` (roem included) are those taken by side.
    """
    place, led, best, best_seat, cards = trick[0], trick[1], trick[2], trick[3], trick[4]
    value = 0
    rest = cards
    while rest:
        value += _POINTS[trump, code(rest)]
        rest &= rest - 1
    decisions = 0
    while tricks[0] + tricks[1] < 8:
        hand = hands[turn]
        if first:
            card = first
            first = 0
        elif not hand & (hand - 1):
            card = hand
        else:
            is_ours = place > 0 and (turn ^ best_seat) & 1 == 0
            legal = hand
            if place:
                legal = legal_cards(hand, led, best, is_ours, trump, rotterdam)
            unseen = (hands[0] | hands[1] | hands[2] | hands[3]) ^ hand
            card = _card(legal, trump, unseen, cards, value, place, led, best, is_ours)
        decisions += 1
        hands[turn] = hand ^ card
        if not place:
            led = card
        if not place or card & _BEATS[trump, code(best)]:
            best = card
            best_seat = turn
        cards |= card
        value += _POINTS[trump, code(card)]
        place += 1
        turn = (turn + 1) & 3
        if place == 4:
            side = best_seat & 1
            tricks[side] += 1
            points[side] += value + _roem(cards, trump)
            if tricks[0] + tricks[1] == 8:
                points[side] += 10
            turn = best_seat
            place = 0
            cards = 0
            value = 0
    return decisions


@kernel
def ahead_by(side: int, maker: int, tricks: Ints, points: Ints) -> int:
    """Points of a finished deal by which the side is ahead, nat and pit counted."""
    makers = maker & 1
    for each in range(2):
        if tricks[each] == 8:
            points[each] += 100
    made, defended = points[makers], points[1 - makers]
    ahead: int = made - defended if made > defended else -made - defended
    return ahead if makers == side else -ahead


@kernel
def _misfit(hands: Ints, played: Ints, calls: Ints, me: int, dealer: int) -> int:
    """By how many points the others' calls differ from what these hands would have called."""
    misfit = 0
    for made in range(len(calls)):
        seat = (dealer + 1 + made) & 3
        if seat == me:
            continue
        hand = hands[seat] | played[seat]
        most = strength(hand, best_suit(hand))
        if calls[made] == PASS:
            misfit += max(most - ENOUGH_TO_NAME, 0)
        else:
            misfit += most - strength(hand, calls[made] - NAME_TRUMP)
            # Forehand, when all have passed, is forced.
            if made < 4:
                misfit += max(ENOUGH_TO_NAME - most, 0)
    return misfit


@kernel
def search(
    words: Words,
    samples: int,
    moves: Ints,
    rotterdam: bool,
    me: int,
    dealer: int,
    calls: Ints,
    hand: int,
    unseen: int,
    allowed: Ints,
    counts: Ints,
    played: Ints,
    trump: int,
    maker: int,
    trick: Ints,
    tricks: Ints,
    points: Ints,
    totals: Ints,
) -> int:
    """Add up in `totals`, for each move, by how much its side is ahead; returns the decisions taken."""
    decisions = 0
    dealt = np.zeros(4, np.int64)
    fitting = np.zeros(4, np.int64)
    hands = np.zeros(4, np.int64)
    tricks_taken = np.zeros(2, np.int64)
    points_taken = np.zeros(2, np.int64)
    for _ in range(samples):
        least = 1 << 60
        for _ in range(CANDIDATES if len(calls) else 1):
            dealt[:] = 0
            dealt[me] = hand
            deal(words, unseen, allowed, counts, dealt)
            misfit = _misfit(dealt, played, calls, me, dealer)
            if misfit < least:
                least = misfit
                fitting[:] = dealt
        for i in range(len(moves)):
            hands[:] = fitting
            tricks_taken[:] = tricks
            points_taken[:] = points
            suit, caller = trump, maker
            turn, first = me, 0
            if moves[i] < PASS:
                first = 1 << moves[i]
            else:
                made = len(calls)
                caller = me
                suit = moves[i] - NAME_TRUMP
                while suit < 0:
                    made += 1
                    caller = (caller + 1) & 3
                    decisions += 1
                    best = best_suit(hands[caller])
                    if made == 4 or strength(hands[caller], best) >= ENOUGH_TO_NAME:
                        suit = best
                turn = (dealer + 1) & 3
            decisions += play_out(hands, suit, rotterdam, turn, trick, tricks_taken, points_taken, first)
            totals[i] += ahead_by(me & 1, caller, tricks_taken, points_taken)
    return decisions


def weigh(view: View, chance: bytes, samples: int = 0) -> tuple[dict[Move, int], int]:
    """By each legal move how far ahead it should bring the side, on any scale; and the decisions that were played out.

    `samples` is how many deals to sample, 0 for as many as the bot does.
    """
    assert view.seat is not None
    rotterdam = view.variant == "rotterdam"
    trump = NO_TRUMP if view.trump is None else view.trump
    played, lacking = played_and_lacking(view, rotterdam)
    unseen = DECK_CARDS & ~view.hand
    for cards_played in played:
        unseen &= ~cards_played
    allowed = [unseen & ~lacked for lacked in lacking]
    allowed[view.seat] = 0
    moves = list(members(view.legal))
    totals = np.zeros(len(moves), np.int64)
    decisions = search(
        words_for(view, chance),
        samples or (CALL_SAMPLES if view.trump is None else CARD_SAMPLES),
        np.array(moves, np.int64),
        rotterdam,
        view.seat,
        view.dealer,
        np.array([call for _, call in view.calls], np.int64),
        view.hand,
        unseen,
        np.array(allowed, np.int64),
        np.array(view.hand_counts, np.int64),
        np.array(played, np.int64),
        trump,
        -1 if view.maker is None else view.maker,
        open_trick(view, trump),
        np.array([view.tricks_won[0] + view.tricks_won[2], view.tricks_won[1] + view.tricks_won[3]], np.int64),
        np.array([view.card_points[side] + view.roem[side] for side in (0, 1)], np.int64),
        totals,
    )
    return dict(zip(moves, totals.tolist(), strict=True)), decisions


def played_and_lacking(view: View, rotterdam: bool) -> tuple[list[Cards], list[Cards]]:
    """By seat, the cards played in this deal, and those that it cannot hold, by what it played."""
    played, lacking = [0] * SEATS, [0] * SEATS
    for trick in (*view.tricks, view.trick):
        for place, (seat, card) in enumerate(zip(trick.seats, trick.cards, strict=True)):
            played[seat] |= BIT[card]
            if place:
                assert view.trump is not None
                lacking[seat] |= lacking_after(trick.cards[:place], card, view.trump, rotterdam)
    return played, lacking


def lacking_after(trick: tuple[int, ...], card: int, trump: int, rotterdam: bool) -> Cards:
    """What the hand that played this card to this trick cannot have had besides, or it would have had to play it."""
    led = trick[0]
    place = winning(trick, BEATS[trump])
    trumps, over = SUIT_CARDS[trump], OVER[trump][trick[place]]
    followed = bool(BIT[card] & SAME_SUIT[led])
    lacking = 0 if followed else SAME_SUIT[led]
    if BIT[card] & trumps:
        if not BIT[card] & over and (followed or SUIT_OF[trick[place]] == trump):
            lacking |= over
            # Nobody has to go under in Amsterdam but who has nothing else.
            if not followed and not rotterdam:
                lacking |= DECK_CARDS & ~trumps
    elif not followed:
        if rotterdam:
            lacking |= trumps
        elif (len(trick) - place) % 2:
            # An opponent was winning.
            lacking |= over
    return lacking


def open_trick(view: View, trump: int) -> Ints:
    """As `play_out` wants it."""
    played = view.trick.cards
    if not played:
        return np.zeros(5, np.int64)
    place = winning(played, BEATS[trump])
    cards = sum(BIT[card] for card in played)
    return np.array([len(played), BIT[played[0]], BIT[played[place]], view.trick.seats[place], cards], np.int64)
