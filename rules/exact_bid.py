"""One engine for the games in which each seat bids how many tricks it will take: Romanian whist and oh hell.

Deals of given sizes, bids from forehand to the dealer with the hook, forehand leads, highest trump or else highest card
of the led suit takes the trick. What differs between the games is in `Rules`; their own modules fill it in.

`decide` refuses in this order: GAME_FINISHED, WRONG_PHASE, NOT_YOUR_TURN, then BAD_PACK, or BID_OUT_OF_RANGE and
HOOK_FORBIDDEN, or CARD_NOT_HELD, MUST_FOLLOW_SUIT and MUST_TRUMP. A move that does not belong to the phase is
WRONG_PHASE whoever makes it.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import assert_never

from rules.cards import BIT, SUIT_CARDS, SUIT_OF, Card, Cards, mask
from rules.game import (
    MOVED,
    NO_SEAT,
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
from rules.trick import NO_TRUMP, SEATS_FROM, STRENGTH
from rules.values import value

# The hot path compares by identity with these rather than looking the members up in their class each time.
_AWAITING_DEAL = Phase.AWAITING_DEAL
_BIDDING = Phase.BIDDING
_PLAYING = Phase.PLAYING
_FINISHED = Phase.FINISHED

# _BIDS[tricks]: the bids 0..tricks, as a set of moves.
_BIDS: tuple[Moves, ...] = tuple(((1 << tricks + 1) - 1) << BID for tricks in range(BID_END - BID))


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
class Deal:
    """What stays the same while a deal is bid and played."""

    rules: Rules
    setup: Setup
    # -1 before the first; once scored a deal stays the current one until the next is dealt.
    number: int
    # Of this deal; once it is scored, of the next.
    dealer: Seat
    totals: tuple[int, ...]
    scored: tuple[DealRecord, ...] = ()
    # As dealt, by seat; empty when no deal is running.
    hands: tuple[Cards, ...] = ()
    hand_size: int = 0
    turned: Card | None = None
    # A suit or NO_TRUMP.
    trump: int = NO_TRUMP
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
    # All cards that are still in hands; a seat's are these of those it was dealt.
    held: Cards
    # The suit led to the open trick, as its cards; 0 before the lead.
    led: Cards
    # The open trick, in the order played.
    trick: tuple[Card, ...]
    tricks: tuple[Trick, ...]
    tricks_won: tuple[int, ...]

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
        return self.current.totals


def setup(rules: Rules, variant: str, seats: int, draws: Draws) -> Setup | Rejection:
    """What is fixed before the first deal, drawn from the game's seed."""
    if variant not in rules.variants:
        return Rejection.UNKNOWN_VARIANT
    if seats not in rules.variants[variant]:
        return Rejection.SEATS_NOT_ALLOWED
    return Setup(variant, seats, draws.below("dealer", 0, seats), rules.hand_sizes(variant, seats, draws))


def start(rules: Rules, setup: Setup) -> State:
    """The state before the first deal."""
    return _between_deals(_AWAITING_DEAL, Deal(rules, setup, -1, setup.first_dealer, (0,) * setup.seats))


def _between_deals(phase: Phase, deal: Deal) -> State:
    return State(phase, NO_SEAT, deal, (), 0, 0, (), (), ())


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
    return Rejection.MUST_FOLLOW_SUIT if hand & state.led else Rejection.MUST_TRUMP


def _decide_deal(state: State, pack: tuple[Card, ...]) -> tuple[Event, ...] | Rejection:
    deal = state.current
    if state.phase is not _AWAITING_DEAL:
        return Rejection.WRONG_PHASE
    if sorted(pack) != list(deal.rules.deck(deal.setup.seats)):
        return Rejection.BAD_PACK
    return (Dealt(deal.number + 1, deal.dealer, pack),)


def legal_moves(state: State) -> Moves:
    """All that the seat whose turn it is may do; 0 when it is nobody's turn."""
    if state.phase is _PLAYING:
        deal = state.current
        hand = deal.hands[state.turn] & state.held
        led = state.led
        if not led:
            return hand
        return hand & led or hand & deal.duty or hand
    if state.phase is _BIDDING:
        return legal_bids(state.current.hand_size, state.current.setup.seats, state.bids)
    return 0


def legal_bids(hand_size: int, seats: int, bids: tuple[int, ...]) -> Moves:
    """The bids open to the next seat after these, among them never the dealer's that the hook forbids."""
    allowed = _BIDS[hand_size]
    if len(bids) == seats - 1:
        even = hand_size - sum(bids)
        if even >= 0:
            return allowed & ~(1 << BID + even)
    return allowed


def consequences(state: State, move: Move) -> tuple[Event, ...]:
    """The events of a legal move of the seat whose turn it is. Does not check that it is legal."""
    moved = MOVED[state.turn][move]
    held = state.held
    if held & (held - 1) or state.phase is not _PLAYING:
        return (moved,)
    # The last card of the deal.
    after = evolve(state, moved)
    deal = after.current
    scored = DealScored(deal.number, _points(after))
    if deal.number + 1 < len(deal.setup.hand_sizes):
        return moved, scored
    return moved, scored, Finished(standings(evolve(after, scored)))


# Events


def evolve(state: State, event: Event) -> State:
    """The state after an event. Never refuses: a failed assertion means that the log or the code is wrong."""
    match event:
        case Moved():
            if state.phase is _PLAYING:
                return _after_card(state, event.seat, event.move)
            return _after_bid(state, event.seat, event.move)
        case Dealt():
            return _after_dealing(state, event)
        case DealScored():
            return _after_scoring(state, event)
        case Finished():
            assert event.standings == standings(state)
            return _between_deals(_FINISHED, state.current)
        case _:
            assert_never(event)


def _after_card(state: State, seat: Seat, card: Card) -> State:
    deal = state.current
    hands = deal.hands
    assert seat == state.turn
    assert hands[seat] & state.held & BIT[card]
    held = state.held ^ BIT[card]
    trick = (*state.trick, card)
    seats = len(hands)
    if len(trick) < seats:
        seat += 1
        return State(
            _PLAYING,
            seat if seat < seats else 0,
            deal,
            state.bids,
            held,
            state.led or SUIT_CARDS[SUIT_OF[card]],
            trick,
            state.tricks,
            state.tricks_won,
        )
    # The last to play sits to the leader's right.
    order = SEATS_FROM[seats][(seat + 1) % seats]
    winner = order[trick_winner(trick, deal.trump)]
    won = state.tricks_won
    return State(
        _PLAYING,
        winner if held else NO_SEAT,
        deal,
        state.bids,
        held,
        0,
        (),
        (*state.tricks, Trick(order, trick)),
        (*won[:winner], won[winner] + 1, *won[winner + 1 :]),
    )


def trick_winner(trick: tuple[Card, ...], trump: int) -> int:
    """The index in the trick of the card that takes it; `trump` is a suit or NO_TRUMP."""
    return trick.index(max(trick, key=STRENGTH[trump][SUIT_OF[trick[0]]].__getitem__))


def _after_bid(state: State, seat: Seat, move: Move) -> State:
    seats = state.current.setup.seats
    bids = (*state.bids, move - BID)
    assert state.phase is _BIDDING
    assert seat == state.turn
    assert 0 <= bids[-1] <= state.current.hand_size
    return State(
        # The turn comes back to forehand for the lead.
        _BIDDING if len(bids) < seats else _PLAYING,
        (seat + 1) % seats,
        state.current,
        bids,
        state.held,
        0,
        (),
        (),
        state.tricks_won,
    )


def _after_dealing(state: State, dealt: Dealt) -> State:
    before = state.current
    seats = before.setup.seats
    assert state.phase is _AWAITING_DEAL
    assert (dealt.deal, dealt.dealer) == (before.number + 1, before.dealer)
    hand_size = before.setup.hand_sizes[dealt.deal]
    forehand = (dealt.dealer + 1) % seats
    dealt_count = seats * hand_size
    # One card at a time, forehand first.
    hands = tuple(mask(dealt.pack[(seat - forehand) % seats : dealt_count : seats]) for seat in range(seats))
    turned = dealt.pack[dealt_count] if dealt_count < len(dealt.pack) else None
    trump = NO_TRUMP if turned is None else SUIT_OF[turned]
    deal = Deal(
        rules=before.rules,
        setup=before.setup,
        number=dealt.deal,
        dealer=dealt.dealer,
        totals=before.totals,
        scored=before.scored,
        hands=hands,
        hand_size=hand_size,
        turned=turned,
        trump=trump,
        duty=SUIT_CARDS[trump] if before.rules.must_trump and trump != NO_TRUMP else 0,
    )
    return State(_BIDDING, forehand, deal, (), mask(dealt.pack[:dealt_count]), 0, (), (), (0,) * seats)


def _after_scoring(state: State, event: DealScored) -> State:
    deal = state.current
    seats = deal.setup.seats
    assert state.phase is _PLAYING
    assert not state.held
    assert (event.deal, event.points) == (deal.number, _points(state))
    record = DealRecord(deal.number, deal.hand_size, event.points, state.tricks_won, _bids_by_seat(state))
    after = Deal(
        rules=deal.rules,
        setup=deal.setup,
        number=deal.number,
        dealer=(deal.dealer + 1) % seats,
        totals=tuple(total + points for total, points in zip(deal.totals, event.points, strict=True)),
        scored=(*deal.scored, record),
    )
    return _between_deals(_AWAITING_DEAL, after)


def _bids_by_seat(state: State) -> tuple[int, ...]:
    seats = state.current.setup.seats
    forehand = state.current.dealer + 1
    return tuple(state.bids[(seat - forehand) % seats] for seat in range(seats))


def _points(state: State) -> tuple[int, ...]:
    points = state.current.rules.points
    return tuple(points(bid, won) for bid, won in zip(_bids_by_seat(state), state.tricks_won, strict=True))


def standings(state: State) -> tuple[int, ...]:
    """Places by seat, from 1, of a game whose deals are all scored."""
    deal = state.current
    assert len(deal.scored) == len(deal.setup.hand_sizes)
    return deal.rules.places(deal.scored)


# Views


def view(state: State, seat: Seat | None) -> View:
    """All that this seat, or a spectator (None), may be sent now."""
    deal = state.current
    seats = deal.setup.seats
    order = SEATS_FROM[seats]
    held = state.held
    bidders = order[(deal.dealer + 1) % seats]
    return View(
        seat=seat,
        seats=seats,
        variant=deal.setup.variant,
        phase=state.phase,
        deal=deal.number,
        deal_count=len(deal.setup.hand_sizes),
        dealer=deal.dealer,
        turn=state.turn,
        hand_size=deal.hand_size,
        hand=deal.hands[seat] & held if held and seat is not None else 0,
        hand_counts=tuple([(hand & held).bit_count() for hand in deal.hands]) or (0,) * seats,
        turned=deal.turned,
        trump=None if deal.trump == NO_TRUMP else deal.trump,
        calls=tuple([(bidder, BID + bid) for bidder, bid in zip(bidders, state.bids, strict=False)]),
        trick=Trick(order[(state.turn - len(state.trick)) % seats][: len(state.trick)], state.trick),
        tricks=state.tricks,
        tricks_won=state.tricks_won or (0,) * seats,
        totals=deal.totals,
        scored=deal.scored,
        standings=standings(state) if state.phase is _FINISHED else (),
        legal=legal_moves(state) if seat is not None and seat == state.turn else 0,
    )
