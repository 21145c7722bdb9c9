"""Whatever the cards, a sharp bot does what is legal, and what a seat cannot see makes no difference to it."""

import random

import pytest

from rules import registry
from rules.game import NO_SEAT, DealCards
from rules.moves import Move
from tests.playing import CONTESTS, after, after_moves, setup_of


@pytest.mark.parametrize(("game_type", "variant", "seats"), CONTESTS)
def test_moves_are_legal(game_type: str, variant: str, seats: int) -> None:
    """A deal with the bot in every other seat; the rest play at random, so that all sorts of positions come up."""
    game = registry.game(game_type)
    assert game is not None
    chance = random.Random(f"{game_type} {variant} {seats}")
    state = game.start(setup_of(game, variant, seats, chance.randbytes(32)))
    state = after(game, state, DealCards(tuple(chance.sample(game.deck(seats), len(game.deck(seats))))))
    while state.deal == 0 and state.turn != NO_SEAT:
        view = game.view(state, state.turn)
        legal = [move for move in range(view.legal.bit_length()) if view.legal >> move & 1]
        move = game.bots["sharp"](view, chance.randbytes(32)) if state.turn % 2 else chance.choice(legal)
        # Refused if it is not legal.
        state = after_moves(game, state, move)


@pytest.mark.parametrize(
    ("game_type", "variant"), [(game.game_type, next(iter(game.variants))) for game in registry.GAMES]
)
def test_hidden_cards_make_no_difference(game_type: str, variant: str) -> None:
    game = registry.game(game_type)
    assert game is not None
    chance = random.Random(variant)
    seats = 4
    setup = setup_of(game, variant, seats, bytes(32))
    pack = list(game.deck(seats))
    chance.shuffle(pack)
    state = after(game, game.start(setup), DealCards(tuple(pack)))
    view = game.view(state, state.turn)
    hidden = [place for place, card in enumerate(pack) if not view.hand >> card & 1 and card != view.turned]
    moves: set[Move] = set()
    for _ in range(3):
        for place, card in zip(hidden, chance.sample([pack[place] for place in hidden], len(hidden)), strict=True):
            pack[place] = card
        twin = after(game, game.start(setup), DealCards(tuple(pack)))
        assert game.view(twin, twin.turn) == view
        moves.add(game.bots["sharp"](game.view(twin, twin.turn), bytes(32)))
    assert len(moves) == 1
