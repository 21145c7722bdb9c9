"""One engine for the games in which each seat bids how many tricks it will take: Romanian whist and oh hell.

Deals of given sizes, bids from forehand to the dealer with the hook, forehand leads, highest trump or else highest card
of the led suit takes the trick. What differs between the games is in `Rules`; their own modules fill it in.

`decide` refuses in this order: GAME_FINISHED, WRONG_PHASE, NOT_YOUR_TURN, then BAD_PACK, or BID_OUT_OF_RANGE and
HOOK_FORBIDDEN, or CARD_NOT_HELD, MUST_FOLLOW_SUIT and MUST_TRUMP. A move that does not belong to the phase is
WRONG_PHASE whoever makes it.
"""

# ruff: noqa: RUF005 - nothing runs more often than what makes a tuple longer here, and unpacking takes twice the time

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from operator import add
from typing import Final, assert_never

from rules.cards import BIT, SAME_SUIT, SUIT_OF, Card, Cards, bit_of, mask
from rules.game import (
    MOVED,
    NO_SEAT,
    SEATS_MAX,
    Command,
    DealCards,
    DealRecord,
    DealScored,
    Dealt,
    Draws,
    Event,
    Finished,
    MakeMove,
    Moved,
    Phase,
    Rejection,
    Seat,
    Setup,
    Trick,
    View,
)
from rules.moves import BID, BID_END, CARD_END, Move, Moves
from rules.values import maker, value

# The hot path compares by identity with these rather than looking the members up in their class each time.
_AWAITING_DEAL = Phase.AWAITING_DEAL
_BIDDING = Phase.BIDDING
_PLAYING = Phase.PLAYING
_FINISHED = Phase.FINISHED

# _BIDS[tricks]: the bids 0..tricks, as a set of moves.
_BIDS: Final[tuple[Moves, ...]] = tuple(((1 << tricks + 1) - 1) << BID for tricks in range(BID_END - BID))

# SEATS_FROM[seats][first]: all seats clockwise, beginning with `first`.
SEATS_FROM: Final[tuple[tuple[tuple[Seat, ...], ...], ...]] = tuple(
    tuple(tuple((first + i) % seats for i in range(seats)) for first in range(seats)) for seats in range(SEATS_MAX + 1)
)


@value
class Rules:
    """What sets one game of the family apart."""

    variants: Mapping[str, frozenset[int]] = field(hash=False)
    deck: Callable[[int], tuple[Card, ...]]
    # The cards in each deal, by variant, number of seats and the game's draws.
    hand_sizes: Callable[[str, int, Draws], tuple[int, ...]]
    # Whether a seat that cannot follow suit must play a trump if it holds one.
    must_trump: bool
    # Points of a seat by tricks bid and tricks won.
    points: Callable[[int, int], int]
    # Places by seat, from the deals of a finished game.
    places: Callable[[tuple[DealRecord, ...]], tuple[int, ...]]


@value
class Sheet:
    """What the game was set up with, and the deals scored so far."""

    rules: Rules
    setup: Setup
    totals: tuple[int, ...]
    scored: tuple[DealRecord, ...] = ()


@value
class Deal:
    """What stays the same while a deal is bid and played."""

    sheet: Sheet
    # -1 before the first; a scored deal stays the current one, without cards, until the next is dealt.
    number: int
    # Of this deal; once it is scored, of the next.
    dealer: Seat
    seats: int
    # The next seat to the left, by seat.
    left_of: tuple[Seat, ...]
    hand_size: int = 0
    # As dealt, by seat.
    hands: tuple[Cards, ...] = ()
    turned: Card | None = None
    # The turned card's suit; 0 without trump.
    trump_cards: Cards = 0
    # Of these a seat that cannot follow must play one, if it holds any.
    duty: Cards = 0


@value
class State:
    """A game as the server knows it; a move touches only these fields."""

    phase: Phase
    turn: Seat
    current: Deal
    # From forehand on.
    bids: tuple[int, ...]
    # The open trick in the order played.
    trick: tuple[Card, ...]
    # All cards that were in hands when the open trick began. A seat plays once to a trick, so that when its turn comes
    # its hand is these of those it was dealt.
    held: Cards
    tricks: tuple[Trick, ...]

    @property
    def deal(self) -> int:
        """Number of the current deal; -1 before the first."""
        return self.current.number

    @property
    def dealer(self) -> Seat:
        """Dealer of the current deal, or of the next one while it is awaited."""
        return self.current.dealer

    @property
    def totals(self) -> tuple[int, ...]:
        """Points by seat in the deals scored so far."""
        return self.current.sheet.totals

    @property
    def winners(self) -> tuple[Seat, ...]:
        """Who took each trick of the current deal so far, until the deal is scored."""
        if not self.tricks:
            return ()
        # The winner of a trick leads the next, which may be the open one.
        leaders = [trick.seats[0] for trick in self.tricks]
        leaders.append((self.turn - len(self.trick)) % self.current.seats)
        return tuple(leaders[1:])


_state = maker(State)
_deal = maker(Deal)
_trick = maker(Trick)
_record = maker(DealRecord)
_sheet = maker(Sheet)


def setup(rules: Rules, variant: str, seats: int, draws: Draws) -> Setup | Rejection:
    """What is fixed before the first deal, drawn from the game's seed."""
    if variant not in rules.variants:
        return Rejection.UNKNOWN_VARIANT
    if seats not in rules.variants[variant]:
        return Rejection.SEATS_NOT_ALLOWED
    return Setup(variant, seats, draws.below("dealer", 0, seats), rules.hand_sizes(variant, seats, draws))


def start(rules: Rules, setup: Setup) -> State:
    """The state before the first deal."""
    return _awaiting_deal(Sheet(rules, setup, (0,) * setup.seats), -1, setup.first_dealer)


def _awaiting_deal(sheet: Sheet, number: int, dealer: Seat) -> State:
    seats = sheet.setup.seats
    deal = _deal(sheet, number, dealer, seats, SEATS_FROM[seats][1])
    return _state(_AWAITING_DEAL, NO_SEAT, deal, (), (), 0, ())


# Commands


def decide(state: State, command: Command) -> tuple[Event, ...] | Rejection:
    """The events of a command, or the first reason to refuse it, in the order that the module names."""
    if state.phase is _FINISHED:
        return Rejection.GAME_FINISHED
    match command:
        case MakeMove():
            return _decide_move(state, command.seat, command.move)
        case DealCards():
            return _decide_deal(state, command.pack)
        case _:
            assert_never(command)


def _decide_move(state: State, seat: Seat, move: Move) -> tuple[Event, ...] | Rejection:
    if state.phase is _PLAYING:
        fits = 0 <= move < CARD_END
    else:
        fits = state.phase is _BIDDING and BID <= move < BID_END
    if not fits:
        return Rejection.WRONG_PHASE
    if seat != state.turn:
        return Rejection.NOT_YOUR_TURN
    if not legal_moves(state) >> move & 1:
        return _why_illegal(state, move)
    return consequences(state, move)


def _why_illegal(state: State, move: Move) -> Rejection:
    deal = state.current
    if state.phase is _BIDDING:
        return Rejection.HOOK_FORBIDDEN if move - BID <= deal.hand_size else Rejection.BID_OUT_OF_RANGE
    hand = deal.hands[state.turn] & state.held
    if not hand & BIT[move]:
        return Rejection.CARD_NOT_HELD
    return Rejection.MUST_FOLLOW_SUIT if hand & SAME_SUIT[state.trick[0]] else Rejection.MUST_TRUMP


def _decide_deal(state: State, pack: tuple[Card, ...]) -> tuple[Event, ...] | Rejection:
    deal = state.current
    if state.phase is not _AWAITING_DEAL:
        return Rejection.WRONG_PHASE
    if sorted(pack) != list(deal.sheet.rules.deck(deal.seats)):
        return Rejection.BAD_PACK
    return (Dealt(deal.number + 1, deal.dealer, pack),)


def legal_moves(state: State) -> Moves:
    """All that the seat whose turn it is may do; 0 when it is nobody's turn."""
    if state.phase is _PLAYING:
        deal = state.current
        hand = deal.hands[state.turn] & state.held
        if not state.trick:
            return hand
        return hand & SAME_SUIT[state.trick[0]] or hand & deal.duty or hand
    if state.phase is _BIDDING:
        return legal_bids(state.current.hand_size, state.current.seats, state.bids)
    return 0


def legal_bids(hand_size: int, seats: int, bids: tuple[int, ...]) -> Moves:
    """The bids open to the next seat after these; the hook takes one from the dealer, who bids last."""
    allowed = _BIDS[hand_size]
    if len(bids) == seats - 1:
        even = hand_size - sum(bids)
        if even >= 0:
            return allowed & ~(1 << BID + even)
    return allowed


def consequences(state: State, move: Move) -> tuple[Event, ...]:
    """The events of a legal move of the seat whose turn it is. Does not check that it is legal."""
    moved = MOVED[state.turn][move]
    deal = state.current
    if len(state.tricks) < deal.hand_size - 1 or len(state.trick) < deal.seats - 1:
        return (moved,)
    # The last card of the deal.
    played = _after_trick(state, (*state.trick, move))
    points = _points(played)
    after = _after_scoring(played, points)
    scored = DealScored(deal.number, points)
    if _has_next_deal(after):
        return moved, scored
    return moved, scored, Finished(standings(after))


def advance(state: State, move: Move) -> State:
    """The state after a legal move and all that follows from it: its `consequences` folded, but never made."""
    if state.phase is not _PLAYING:
        return _after_bid(state, move)
    deal = state.current
    trick = state.trick + (move,)
    if len(trick) < deal.seats:
        return _state(_PLAYING, deal.left_of[state.turn], deal, state.bids, trick, state.held, state.tricks)
    after = _after_trick(state, trick)
    if after.held:
        return after
    scored = _after_scoring(after, _points(after))
    return scored if _has_next_deal(scored) else _after_finish(scored)


def _has_next_deal(state: State) -> bool:
    return state.deal + 1 < len(state.current.sheet.setup.hand_sizes)


# Events


def evolve(state: State, event: Event) -> State:
    """The state after an event. Never refuses: a failed assertion means that the log or the code is wrong."""
    # Apart from the others, because a log is nearly all moves and a class pattern takes twice the time.
    if isinstance(event, Moved):
        seat = state.turn
        assert event.seat == seat
        if state.phase is not _PLAYING:
            return _after_bid(state, event.move)
        deal = state.current
        trick = state.trick + (event.move,)
        if len(trick) < deal.seats:
            # As in `advance`, and spelled out again, because nearly all events of a log come to here.
            return _state(_PLAYING, deal.left_of[seat], deal, state.bids, trick, state.held, state.tricks)
        return _after_trick(state, trick)
    match event:
        case Dealt():
            return _after_dealing(state, event)
        case DealScored():
            assert event.deal == state.current.number
            return _after_scoring(state, event.points)
        case Finished():
            return _after_finish(state)
        case _:
            assert_never(event)


def _after_trick(state: State, trick: tuple[Card, ...]) -> State:
    deal, held = state.current, state.held
    # The cards differ, so that their sum is their union.
    trick_set = sum(map(bit_of, trick))
    # Once a trick is soon enough to notice that a card came twice or from nowhere.
    assert held & trick_set == trick_set
    # The highest bit of a suit is its highest card.
    best = (trick_set & deal.trump_cards or trick_set & SAME_SUIT[trick[0]]).bit_length() - 1
    # The last to play sits to the leader's right.
    order = SEATS_FROM[deal.seats][deal.left_of[state.turn]]
    # Who took the trick leads the next, if there is one.
    turn = order[trick.index(best)]
    tricks = state.tricks + (_trick(order, trick),)
    return _state(_PLAYING, turn, deal, state.bids, (), held ^ trick_set, tricks)


def _after_bid(state: State, move: Move) -> State:
    deal = state.current
    bid = move - BID
    assert 0 <= bid <= deal.hand_size
    bids = state.bids + (bid,)
    # After the dealer's bid the turn is forehand's again, for the lead.
    phase = _BIDDING if len(bids) < deal.seats else _PLAYING
    return _state(phase, deal.left_of[state.turn], deal, bids, (), state.held, ())


def _after_dealing(state: State, dealt: Dealt) -> State:
    before = state.current
    seats = before.seats
    pack = dealt.pack
    assert state.phase is _AWAITING_DEAL
    assert (dealt.deal, dealt.dealer) == (before.number + 1, before.dealer)
    hand_size = before.sheet.setup.hand_sizes[dealt.deal]
    dealt_count = seats * hand_size
    # One card at a time, the dealer last: seat 0 gets its first card after the seats from forehand to the last.
    first_cards = SEATS_FROM[seats][-dealt.dealer - 1]
    bits = list(map(bit_of, pack[:dealt_count]))
    hands = tuple([sum(bits[first::seats]) for first in first_cards])
    turned = pack[dealt_count] if dealt_count < len(pack) else None
    trump_cards = 0 if turned is None else SAME_SUIT[turned]
    duty = trump_cards if before.sheet.rules.must_trump else 0
    deal = _deal(
        before.sheet, dealt.deal, dealt.dealer, seats, before.left_of, hand_size, hands, turned, trump_cards, duty
    )
    return _state(_BIDDING, deal.left_of[deal.dealer], deal, (), (), sum(hands), ())


def _points(state: State) -> tuple[int, ...]:
    return tuple(map(state.current.sheet.rules.points, _bids_by_seat(state), _tricks_won(state)))


def _after_scoring(state: State, points: tuple[int, ...]) -> State:
    deal = state.current
    sheet = deal.sheet
    assert state.phase is _PLAYING
    assert not state.held
    tricks_won, bids = _tricks_won(state), _bids_by_seat(state)
    record = _record(deal.number, deal.hand_size, points, tricks_won, bids)
    totals = tuple(map(add, sheet.totals, points))
    return _awaiting_deal(
        _sheet(sheet.rules, sheet.setup, totals, (*sheet.scored, record)), deal.number, deal.left_of[deal.dealer]
    )


def _after_finish(state: State) -> State:
    return replace(state, phase=_FINISHED)


def _bids_by_seat(state: State) -> tuple[int, ...]:
    # Seat 0 bid when all from forehand to the last seat had.
    before_seat_0 = -(state.current.dealer + 1) % state.current.seats
    return state.bids[before_seat_0:] + state.bids[:before_seat_0]


def _tricks_won(state: State) -> tuple[int, ...]:
    seats = state.current.seats
    won = [0] * seats
    if state.tricks:
        # Who takes a trick leads the next, which may be the open one.
        for trick in state.tricks[1:]:
            won[trick.seats[0]] += 1
        won[(state.turn - len(state.trick)) % seats] += 1
    return tuple(won)


def standings(state: State) -> tuple[int, ...]:
    """Places by seat, from 1, of a game whose deals are all scored."""
    sheet = state.current.sheet
    assert len(sheet.scored) == len(sheet.setup.hand_sizes)
    return sheet.rules.places(sheet.scored)


# Views


def view(state: State, seat: Seat | None) -> View:
    """All that this seat, or a spectator (None), may be sent now."""
    deal = state.current
    sheet = deal.sheet
    seats = deal.seats
    order = SEATS_FROM[seats]
    in_hands = state.held ^ mask(state.trick)
    bidders = order[(deal.dealer + 1) % seats]
    return View(
        seat=seat,
        seats=seats,
        variant=sheet.setup.variant,
        phase=state.phase,
        deal=deal.number,
        deal_count=len(sheet.setup.hand_sizes),
        dealer=deal.dealer,
        turn=state.turn,
        hand_size=deal.hand_size,
        hand=deal.hands[seat] & in_hands if in_hands and seat is not None else 0,
        hand_counts=tuple([(hand & in_hands).bit_count() for hand in deal.hands]) or (0,) * seats,
        turned=deal.turned,
        trump=None if deal.turned is None else SUIT_OF[deal.turned],
        calls=tuple([(bidder, BID + bid) for bidder, bid in zip(bidders, state.bids, strict=False)]),
        trick=Trick(order[(state.turn - len(state.trick)) % seats][: len(state.trick)], state.trick),
        tricks=state.tricks,
        tricks_won=_tricks_won(state),
        totals=sheet.totals,
        scored=sheet.scored,
        standings=standings(state) if state.phase is _FINISHED else (),
        legal=legal_moves(state) if seat is not None and seat == state.turn else 0,
    )
