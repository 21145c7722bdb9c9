"""Driving the engines in benches: seeded packs, random legal moves, single deals."""

import random
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from rules.cards import Card
from rules.chance import Chance
from rules.game import Dealt, Game, Rejection, Setup
from rules.moves import MOVE_END, Move, Moves

MOVE_BIT: Final[tuple[Moves, ...]] = tuple(1 << move for move in range(MOVE_END))
_PACKS_AT_ONCE: Final = 256


def setup_of(game: Game, variant: str, seats: int, seed: bytes) -> Setup:
    """The setup of a game with this seed."""
    setup = game.setup(variant, seats, Chance(seed))
    assert not isinstance(setup, Rejection)
    return setup


def after_dealing(game: Game, state: Any, pack: tuple[Card, ...]) -> Any:
    """The state after dealing from this pack."""
    return game.evolve(state, Dealt(state.deal + 1, state.dealer, pack))


def any_of(legal: Moves, chance: random.Random) -> Move:
    """A random one of these moves."""
    # Up to as many of the highest are struck as leaves one. Counting down needs no int() and no range().
    struck = chance.random() * legal.bit_count()
    while struck >= 1.0:
        legal ^= MOVE_BIT[legal.bit_length() - 1]
        struck -= 1.0
    return legal.bit_length() - 1


def packs_of(deck: tuple[Card, ...], seed: int) -> Iterator[tuple[Card, ...]]:
    """Shuffled packs without end, many at once: one by one each would take numpy as long as a trick takes an engine."""
    shuffles = np.random.default_rng(seed)
    decks = np.tile(deck, (_PACKS_AT_ONCE, 1))
    while True:
        yield from map(tuple, shuffles.permuted(decks, axis=1).tolist())
