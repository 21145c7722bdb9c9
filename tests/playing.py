"""Driving the engines in tests: packs that deal what a case asks for, and games played to the end."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rules.cards import CODE, NAME, Card, Cards, members
from rules.chance import Chance
from rules.game import NO_SEAT, Command, DealCards, Event, Game, MakeMove, Phase, Rejection, Seat, Setup
from rules.moves import Move, Moves
from rules.registry import GAMES

# Chooses a move for the seat whose turn it is, from the state and the legal moves.
Chooser = Callable[[Any, Moves], Move]

# Every game type, variant and number of seats that there is.
CONTESTS = [
    (game.game_type, variant, seats)
    for game in GAMES
    for variant, allowed in game.variants.items()
    for seats in sorted(allowed)
]


def names(held: Cards) -> list[str]:
    """The names of a set's cards."""
    return [NAME[card] for card in members(held)]


def codes(cards: str) -> list[Card]:
    """The cards named, in their order."""
    return [CODE[name] for name in cards.split()]


def fold(game: Game, state: Any, events: Sequence[Event]) -> Any:
    """The state after these events."""
    for event in events:
        state = game.evolve(state, event)
    return state


def after(game: Game, state: Any, *commands: Command) -> Any:
    """The state after commands that must be accepted."""
    for command in commands:
        events = game.decide(state, command)
        assert not isinstance(events, Rejection), (events, command)
        state = fold(game, state, events)
    return state


def after_moves(game: Game, state: Any, *moves: Move) -> Any:
    """The state after these moves, each by the seat whose turn it is."""
    for move in moves:
        state = after(game, state, MakeMove(state.turn, move))
    return state


def after_playing_out(game: Game, state: Any) -> Any:
    """The state when the deal is over, each seat having done the first thing it might."""
    while state.turn != NO_SEAT:
        state = after_moves(game, state, next(members(game.legal_moves(state))))
    return state


def pack_dealing(deck: Sequence[Card], hands: Sequence[str], turned: str = "", dealer: Seat = -1) -> tuple[Card, ...]:
    """A pack that, dealt one card at a time, gives each seat this hand and then turns this card."""
    seats = len(hands)
    held = [codes(hand) for hand in hands]
    in_order = [held[(dealer + 1 + i) % seats][row] for row in range(len(held[0])) for i in range(seats)]
    top = [*in_order, *codes(turned)]
    return (*top, *(card for card in deck if card not in top))


def single_deal(game: Game, pack: tuple[Card, ...], seats: int, hand_size: int, dealer: Seat = -1) -> Any:
    """A game of one deal, just dealt; the last seat deals unless another is named."""
    setup = Setup(next(iter(game.variants)), seats, dealer % seats, (hand_size,))
    return after(game, game.start(setup), DealCards(pack))


def random_chooser(seed: int) -> Chooser:
    """Random legal play."""
    chance = random.Random(seed)
    return lambda _state, legal: chance.choice(list(members(legal)))


def bot_chooser(game: Game, level: str = "steady") -> Chooser:
    """A bot in every seat; its chance is the same everywhere."""
    return lambda state, _legal: game.bots[level](game.view(state, state.turn), bytes(32))


def setup_of(game: Game, variant: str, seats: int, seed: bytes) -> Setup:
    """The setup that a game's seed gives."""
    setup = game.setup(variant, seats, Chance(seed))
    assert not isinstance(setup, Rejection)
    return setup


def steps(
    game: Game, setup: Setup, seed: bytes, choose: Chooser
) -> Iterator[tuple[Any, Command, tuple[Event, ...], Any]]:
    """A whole game: for each command the state before it, itself, its events and the state after it."""
    chance = Chance(seed)
    state = game.start(setup)
    while state.phase is not Phase.FINISHED:
        command: Command
        if state.phase is Phase.AWAITING_DEAL:
            command = DealCards(chance.shuffled("deal", state.deal + 1, game.deck(setup.seats)))
        else:
            command = MakeMove(state.turn, choose(state, game.legal_moves(state)))
        events = game.decide(state, command)
        assert not isinstance(events, Rejection), (events, command)
        before, state = state, fold(game, state, events)
        yield before, command, events, state
