"""Whose deal was whose, and who is eligible (platform.md, "Turns and connections")."""

import pytest

from rules.eligibility import Involvement, is_eligible, is_own_deal
from rules.registry import GAMES


def test_cards_count_where_partners_play() -> None:
    assert {game.game_type for game in GAMES if game.cards_count} == {"euchre", "klaverjas"}


@pytest.mark.parametrize("cards_count", [False, True])
@pytest.mark.parametrize("away", [False, True])
def test_every_call_must_be_ones_own(cards_count: bool, away: bool) -> None:
    assert is_own_deal(Involvement(calls=2, own_calls=2), cards_count=cards_count, away=away)
    assert not is_own_deal(Involvement(calls=2, own_calls=1), cards_count=cards_count, away=away)


def test_half_of_the_cards_that_left_a_choice_where_cards_count() -> None:
    assert is_own_deal(Involvement(1, 1, choices=4, own_choices=2), cards_count=True, away=False)
    assert not is_own_deal(Involvement(1, 1, choices=5, own_choices=2), cards_count=True, away=False)
    assert is_own_deal(Involvement(0, 0, choices=5, own_choices=3), cards_count=True, away=True)


def test_cards_do_not_count_where_bids_are_the_game() -> None:
    assert is_own_deal(Involvement(1, 1, choices=5, own_choices=0), cards_count=False, away=True)


@pytest.mark.parametrize("cards_count", [False, True])
def test_if_nothing_came_being_there_decides(cards_count: bool) -> None:
    assert is_own_deal(Involvement(), cards_count=cards_count, away=False)
    assert not is_own_deal(Involvement(), cards_count=cards_count, away=True)


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
