"""A fifth game, made up: what docs/add-a-game.md asks for, in one module. Tests alone know it.

High card, 3 to 5 players, each for themselves: three deals of four cards, no trump, no bids. Forehand leads; follow
suit if you can, else play any card; the highest card of the led suit takes the trick, which is a point. Highest total
wins; equal totals share the place.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rules.cards import BIT, SAME_SUIT, TWO, Card, Cards, mask, members
from rules.cards import deck as deck_from
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
    Game,
    MakeMove,
    Moved,
    Phase,
    Rejection,
    Seat,
    Setup,
    Trick,
    View,
)
from rules.moves import CARD_END, Move, Moves
from rules.places import shared_places
from rules.values import value

GAME_TYPE: Final = "high_card"
VARIANTS: Final = {"standard": frozenset({3, 4, 5})}
DECK: Final = deck_from(TWO)
HAND_SIZE: Final = 4
DEAL_COUNT: Final = 3


@value
class State:
    """The game as the server knows it."""

    setup: Setup
    phase: Phase
    turn: Seat
    deal: int
    dealer: Seat
    hands: tuple[Cards, ...]
    trick: Trick
    tricks: tuple[Trick, ...]
    winners: tuple[Seat, ...]
    totals: tuple[int, ...]
    scored: tuple[DealRecord, ...]


def deck(_seats: int) -> tuple[Card, ...]:
    """All 52 cards, however many play."""
    return DECK


def setup(variant: str, seats: int, draws: Draws) -> Setup | Rejection:
    """What is fixed before the first deal."""
    if variant not in VARIANTS:
        return Rejection.UNKNOWN_VARIANT
    if seats not in VARIANTS[variant]:
        return Rejection.SEATS_NOT_ALLOWED
    return Setup(variant, seats, draws.below("dealer", 0, seats), (HAND_SIZE,) * DEAL_COUNT)


def start(setup: Setup) -> State:
    """The state before the first deal."""
    nothing = (0,) * setup.seats
    return State(
        setup, Phase.AWAITING_DEAL, NO_SEAT, -1, setup.first_dealer, nothing, Trick(), (), (), nothing, scored=()
    )


def decide(state: State, command: Command) -> tuple[Event, ...] | Rejection:
    """The events of a command, or why not: GAME_FINISHED, WRONG_PHASE, NOT_YOUR_TURN, then what the cards forbid."""
    if state.phase is Phase.FINISHED:
        return Rejection.GAME_FINISHED
    match command:
        case DealCards(pack):
            if state.phase is not Phase.AWAITING_DEAL:
                return Rejection.WRONG_PHASE
            if len(pack) != len(DECK) or mask(pack) != mask(DECK):
                return Rejection.BAD_PACK
            return (Dealt(state.deal + 1, state.dealer, pack),)
        case MakeMove(seat, move):
            if state.phase is not Phase.PLAYING or move >= CARD_END:
                return Rejection.WRONG_PHASE
            if seat != state.turn:
                return Rejection.NOT_YOUR_TURN
            if not state.hands[seat] & BIT[move]:
                return Rejection.CARD_NOT_HELD
            if not legal_moves(state) & BIT[move]:
                return Rejection.MUST_FOLLOW_SUIT
            return _decide_play(state, seat, move)


def _decide_play(state: State, seat: Seat, card: Card) -> tuple[Event, ...]:
    moved = MOVED[seat][card]
    after = evolve(state, moved)
    if after.turn != NO_SEAT:
        return (moved,)
    scored = DealScored(after.deal, tuple(after.winners.count(each) for each in range(state.setup.seats)))
    if after.deal + 1 < DEAL_COUNT:
        return moved, scored
    return moved, scored, Finished(standings(evolve(after, scored)))


def evolve(state: State, event: Event) -> State:
    """The state after an event."""
    match event:
        case Moved(seat, card):
            return _play(state, seat, card)
        case Dealt(deal, dealer, pack):
            forehand = (dealer + 1) % state.setup.seats
            return replace(
                state,
                phase=Phase.PLAYING,
                turn=forehand,
                deal=deal,
                hands=_hands(pack, forehand, state.setup.seats),
                tricks=(),
                winners=(),
            )
        case DealScored(deal, points):
            record = DealRecord(deal, HAND_SIZE, points, tricks_won=points)
            return replace(
                state,
                phase=Phase.AWAITING_DEAL,
                dealer=(state.dealer + 1) % state.setup.seats,
                tricks=(),
                winners=(),
                totals=tuple(map(sum, zip(state.totals, points, strict=True))),
                scored=(*state.scored, record),
            )
        case Finished():
            return replace(state, phase=Phase.FINISHED)


def _hands(pack: Sequence[Card], forehand: Seat, seats: int) -> tuple[Cards, ...]:
    hands = [0] * seats
    for place, card in enumerate(pack[: HAND_SIZE * seats]):
        hands[(forehand + place) % seats] |= BIT[card]
    return tuple(hands)


def _play(state: State, seat: Seat, card: Card) -> State:
    seats = state.setup.seats
    hands = (*state.hands[:seat], state.hands[seat] ^ BIT[card], *state.hands[seat + 1 :])
    trick = Trick((*state.trick.seats, seat), (*state.trick.cards, card))
    if len(trick.cards) < seats:
        return replace(state, hands=hands, trick=trick, turn=(seat + 1) % seats)
    best = max(card for card in trick.cards if SAME_SUIT[trick.cards[0]] & BIT[card])
    winner = trick.seats[trick.cards.index(best)]
    return replace(
        state,
        hands=hands,
        trick=Trick(),
        tricks=(*state.tricks, trick),
        winners=(*state.winners, winner),
        turn=winner if any(hands) else NO_SEAT,
    )


def advance(state: State, move: Move) -> State:
    """The state after a legal move and all its events."""
    events = _decide_play(state, state.turn, move)
    for event in events:
        state = evolve(state, event)
    return state


def legal_moves(state: State) -> Moves:
    """All that the seat whose turn it is may do."""
    if state.turn == NO_SEAT:
        return 0
    hand = state.hands[state.turn]
    if not state.trick.cards:
        return hand
    return hand & SAME_SUIT[state.trick.cards[0]] or hand


def view(state: State, seat: Seat | None) -> View:
    """All that this seat, or a spectator, may be sent now."""
    seats = state.setup.seats
    return View(
        seat=seat,
        seats=seats,
        variant=state.setup.variant,
        phase=state.phase,
        deal=state.deal,
        deal_count=DEAL_COUNT,
        dealer=state.dealer,
        turn=state.turn,
        hand_size=HAND_SIZE if state.turn != NO_SEAT else 0,
        hand=0 if seat is None else state.hands[seat],
        hand_counts=tuple(hand.bit_count() for hand in state.hands),
        turned=None,
        trump=None,
        calls=(),
        trick=state.trick,
        tricks=state.tricks,
        tricks_won=tuple(state.winners.count(each) for each in range(seats)),
        totals=state.totals,
        scored=state.scored,
        standings=standings(state) if state.phase is Phase.FINISHED else (),
        legal=legal_moves(state) if seat is not None and seat == state.turn else 0,
    )


def standings(state: State) -> tuple[int, ...]:
    """Places by seat."""
    return shared_places(state.totals)


def steady(view: View, _chance: bytes) -> Move:
    """The highest card where it takes the trick so far, else the lowest."""
    legal = list(members(view.legal))
    led = view.trick.cards[:1]
    if led and all(card < max(c for c in view.trick.cards if SAME_SUIT[led[0]] & BIT[c]) for card in legal):
        return min(legal, key=_rank)
    return max(legal, key=_rank)


def _rank(card: Card) -> int:
    return card % 13


GAME: Final = Game(
    game_type=GAME_TYPE,
    rules_version=1,
    variants=VARIANTS,
    partners=False,
    daily=("standard", 4),
    quick_play={"standard": 4},
    # There is nothing else to decide.
    cards_count=True,
    deck=deck,
    setup=setup,
    start=start,
    decide=decide,
    evolve=evolve,
    advance=advance,
    legal_moves=legal_moves,
    view=view,
    standings=standings,
    bots={"steady": steady},
    bot_version=1,
)
