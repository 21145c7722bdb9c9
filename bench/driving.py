"""Driving the engines in benches: seeded packs, random legal moves, single deals."""

import random
from typing import Any

from rules.cards import Card
from rules.chance import Chance
from rules.game import Dealt, Game, Rejection, Setup
from rules.moves import Move, Moves


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
    for _ in range(int(chance.random() * legal.bit_count())):
        legal &= legal - 1
    return (legal & -legal).bit_length() - 1
