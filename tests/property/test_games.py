"""What holds in every state of every game, over random deals and random legal play."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.cards import members
from rules.game import (
    NO_SEAT,
    DealScored,
    Dealt,
    Event,
    Finished,
    Game,
    MakeMove,
    Phase,
    Rejection,
    View,
)
from rules.moves import MOVE_END
from rules.registry import game as game_of
from tests.playing import CONTESTS, bot_chooser, fold, random_chooser, setup_of, steps

SEEDS = st.binary(min_size=32, max_size=32)


def engine(game_type: str) -> Game:
    found = game_of(game_type)
    assert found is not None
    return found


def views(game: Game, state: Any, seats: int) -> list[View]:
    """Each seat's view, then the spectator's."""
    return [game.view(state, seat) for seat in (*range(seats), None)]


def accepted(game: Game, state: Any) -> set[tuple[int, int]]:
    """All moves of all seats that `decide` accepts now, tried one by one."""
    return {
        (seat, move)
        for seat in range(len(state.totals))
        for move in range(MOVE_END)
        if not isinstance(game.decide(state, MakeMove(seat, move)), Rejection)
    }


@pytest.mark.parametrize(("game_type", "variant", "seats"), CONTESTS)
@settings(max_examples=3)
@given(seed=SEEDS, choices=st.integers())
def test_legal_moves_are_what_decide_accepts(
    game_type: str, variant: str, seats: int, seed: bytes, choices: int
) -> None:
    game = engine(game_type)
    sampled = random.Random(choices)
    for before, _, _, _ in steps(game, setup_of(game, variant, seats, seed), seed, random_chooser(choices)):
        legal = game.legal_moves(before)
        assert bool(legal) == (before.turn != NO_SEAT) == (before.phase is not Phase.AWAITING_DEAL)
        if sampled.random() < 0.05:
            assert accepted(game, before) == {(before.turn, move) for move in members(legal)}
            for view in views(game, before, seats):
                assert view.legal == (legal if view.seat == before.turn != NO_SEAT else 0)


@pytest.mark.parametrize(("game_type", "variant", "seats"), CONTESTS)
@settings(max_examples=3)
@given(seed=SEEDS, choices=st.integers())
def test_a_game_ends_with_its_points_accounted_for(
    game_type: str, variant: str, seats: int, seed: bytes, choices: int
) -> None:
    game = engine(game_type)
    setup = setup_of(game, variant, seats, seed)
    events: list[Event] = []
    state = game.start(setup)
    for _, _, caused, after in steps(game, setup, seed, random_chooser(choices)):
        events += caused
        state = after
    scored = [event for event in events if isinstance(event, DealScored)]
    assert [event.deal for event in scored] == list(range(len(scored)))
    assert state.totals == tuple(map(sum, zip(*(event.points for event in scored), strict=True)))
    if setup.hand_sizes:
        assert len(scored) == len(setup.hand_sizes)
    # The last event, and the only one of its kind, says how it ended.
    assert events[-1] == Finished(game.standings(state))
    assert sum(isinstance(event, Finished) for event in events) == 1
    view = game.view(state, None)
    assert (view.phase, view.turn, view.standings) == (Phase.FINISHED, NO_SEAT, game.standings(state))
    assert [record.points for record in view.scored] == [event.points for event in scored]
    # The deal passes to the left each time.
    dealers = [event.dealer for event in events if isinstance(event, Dealt)]
    assert dealers == [(setup.first_dealer + deal) % seats for deal in range(len(dealers))]
    # The log alone gives the same state.
    assert fold(game, game.start(setup), events) == state


@pytest.mark.parametrize(("game_type", "variant", "seats"), CONTESTS)
@settings(max_examples=1)
@given(seed=SEEDS)
def test_bots_play_a_game_to_its_end_and_the_same_again(game_type: str, variant: str, seats: int, seed: bytes) -> None:
    game = engine(game_type)
    setup = setup_of(game, variant, seats, seed)
    first, again = (
        [command for _, command, _, _ in steps(game, setup, seed, bot_chooser(game))] for _ in ("first", "again")
    )
    assert first == again
