"""Whose deal was whose, and who is eligible (platform.md, "Turns and connections")."""

import pytest

from rules.eligibility import Involvement, is_eligible, is_own_deal


@pytest.mark.parametrize("game_type", ["romanian_whist", "oh_hell", "euchre", "klaverjas"])
@pytest.mark.parametrize("away", [False, True])
def test_every_call_must_be_ones_own(game_type: str, away: bool) -> None:
    assert is_own_deal(game_type, Involvement(calls=2, own_calls=2), away=away)
    assert not is_own_deal(game_type, Involvement(calls=2, own_calls=1), away=away)


@pytest.mark.parametrize("game_type", ["euchre", "klaverjas"])
def test_half_of_the_cards_that_left_a_choice_where_cards_count(game_type: str) -> None:
    assert is_own_deal(game_type, Involvement(1, 1, choices=4, own_choices=2), away=False)
    assert not is_own_deal(game_type, Involvement(1, 1, choices=5, own_choices=2), away=False)
    assert is_own_deal(game_type, Involvement(0, 0, choices=5, own_choices=3), away=True)


@pytest.mark.parametrize("game_type", ["romanian_whist", "oh_hell"])
def test_cards_do_not_count_where_bids_are_the_game(game_type: str) -> None:
    assert is_own_deal(game_type, Involvement(1, 1, choices=5, own_choices=0), away=True)


@pytest.mark.parametrize("game_type", ["romanian_whist", "euchre"])
def test_if_nothing_came_being_there_decides(game_type: str) -> None:
    assert is_own_deal(game_type, Involvement(), away=False)
    assert not is_own_deal(game_type, Involvement(), away=True)


@pytest.mark.parametrize(
    ("own", "deals", "quick_play", "eligible"),
    [
        (4, 6, True, True),
        (3, 6, True, False),
        (5, 7, True, True),
        (4, 7, True, False),
        (5, 6, False, True),
        (4, 6, False, False),
        (12, 16, False, True),
        (11, 16, False, False),
        (20, 30, True, True),
        (19, 30, True, False),
    ],
)
def test_the_fraction_is_rounded_up(own: int, deals: int, quick_play: bool, eligible: bool) -> None:
    assert is_eligible([False] * (deals - own) + [True] * own, quick_play=quick_play) is eligible


def test_one_of_the_last_three_is_needed() -> None:
    assert is_eligible([True] * 9 + [True, False, False], quick_play=True)
    assert not is_eligible([True] * 9 + [False, False, False], quick_play=True)
