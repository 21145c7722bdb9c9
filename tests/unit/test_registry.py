"""The registry, and what every game in it must have."""

import pytest

from rules.cards import deck
from rules.chance import Chance
from rules.game import SEATS_MAX, Game, Rejection
from rules.places import shared_places, unique_places
from rules.registry import GAME_TYPES, GAMES, game
from tests.playing import CONTESTS


def test_unknown_games_and_versions_are_not_found() -> None:
    assert game("poker") is None
    assert game("") is None
    assert game("oh_hell", 0) is None
    assert game("oh_hell", 10_000) is None


@pytest.mark.parametrize("engine", GAMES, ids=lambda engine: f"{engine.game_type} {engine.rules_version}")
def test_each_version_is_found(engine: object) -> None:
    found = next(each for each in GAMES if each is engine)
    assert game(found.game_type, found.rules_version) is found
    newest = game(found.game_type)
    assert newest is not None
    assert newest.rules_version >= found.rules_version


@pytest.mark.parametrize(("game_type", "variant", "seats"), CONTESTS)
def test_setup_and_deck_fit_the_seats(game_type: str, variant: str, seats: int) -> None:
    engine = game(game_type)
    assert engine is not None
    setup = engine.setup(variant, seats, Chance(bytes(32)))
    assert not isinstance(setup, Rejection)
    assert (setup.variant, setup.seats) == (variant, seats)
    assert 0 <= setup.first_dealer < seats <= SEATS_MAX
    pack = engine.deck(seats)
    assert sorted(set(pack)) == list(pack)
    assert set(pack) <= set(deck(0))
    assert all(size * seats <= len(pack) for size in setup.hand_sizes)


@pytest.mark.parametrize("game_type", GAME_TYPES)
def test_no_variant_or_seats_beyond_its_own(game_type: str) -> None:
    engine = game(game_type)
    assert engine is not None
    assert engine.setup("no such variant", 4, Chance(bytes(32))) is Rejection.UNKNOWN_VARIANT
    for variant, allowed in engine.variants.items():
        for seats in set(range(10)) - allowed:
            assert engine.setup(variant, seats, Chance(bytes(32))) is Rejection.SEATS_NOT_ALLOWED


@pytest.mark.parametrize("engine", GAMES, ids=lambda engine: f"{engine.game_type} {engine.rules_version}")
def test_daily_and_quick_play_are_played_as_the_variants_allow(engine: Game) -> None:
    for variant, seats in (engine.daily, *engine.quick_play.items()):
        assert seats in engine.variants[variant]


def test_places() -> None:
    assert shared_places([5, 9, 5, -1]) == (2, 1, 2, 4)
    assert shared_places([0, 0]) == (1, 1)
    assert unique_places([(3,), (1,), (2,)]) == (3, 1, 2)
    # Level keys go to the lower seat.
    assert unique_places([(1,), (0,), (1,)]) == (2, 1, 3)
