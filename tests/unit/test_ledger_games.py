"""What finished quick-play games pay: examples worked out by hand, and a model that counts in another way."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ledger.domain.catalogue import Amounts
from services.ledger.domain.games import Coached, FinishedGame, Holder, ScoredDeal, coach_pay, good_rows, pay, prize
from services.ledger.domain.journal import Currency, House, Transfer
from tests.ledger import CATALOGUE, COIN, DOUBLE, GOLD, ONE_AND_A_HALF, QUINTUPLE, TRIPLE

GAME_ID = UUID("0199bbbb-0000-7000-8000-000000000001")
ALICE, BOB = (UUID(int=number, version=4) for number in (1, 2))
DAY = date(2026, 11, 12)
TERMS = CATALOGUE.good_play


def holder(seat: int = 0, account: UUID = ALICE, **changed: Any) -> Holder:
    return replace(Holder(seat, account, room=2, prize=500, coffee=None, place=1, eligible=True), **changed)


def game(
    *holders: Holder, places: tuple[int, ...] = (1, 2, 3, 4, 5, 6), of: tuple[str, str] = ("romanian_whist", "quick")
) -> FinishedGame:
    return FinishedGame(GAME_ID, *of, DAY, places, holders)


CLASSIC = ("romanian_whist", "8-1-8")


@pytest.mark.parametrize(
    ("changed", "places", "game_type", "coins"),
    [
        # 500, 350 and 275 in the second room.
        ({"place": 1}, (1, 2, 3, 4, 5, 6), "romanian_whist", 500),
        ({"place": 2}, (2, 1, 3, 4, 5, 6), "romanian_whist", 350),
        ({"place": 3}, (3, 1, 2, 4, 5, 6), "romanian_whist", 275),
        ({"place": 4}, (4, 1, 2, 3, 5, 6), "romanian_whist", 0),
        # 1,250 x 0.55 x 1.5 = 1,031.25
        ({"place": 3, "prize": 1_250, "coffee": ONE_AND_A_HALF}, (3, 1, 2, 4, 5, 6), "romanian_whist", 1_031),
        # 300 x 0.55 x 5
        ({"place": 3, "prize": 300, "coffee": QUINTUPLE}, (3, 1, 2, 4, 5, 6), "romanian_whist", 825),
        # Rounded once, at the end: 1 x 0.55 x 2 = 1.1, though 0.55 alone would be nothing.
        ({"place": 3, "prize": 1, "coffee": DOUBLE}, (3, 1, 2, 4, 5, 6), "romanian_whist", 1),
        # 1,500,000 x 5
        ({"place": 1, "prize": 1_500_000, "coffee": QUINTUPLE}, (1, 2, 3, 4, 5, 6), "romanian_whist", 7_500_000),
        # Three share the second place of four: 500 x (50 + 0 + 0) / 3 % x 3 = 250, and no cent is lost on the way.
        ({"place": 2, "coffee": TRIPLE}, (2, 1, 2, 2), "oh_hell", 250),
        # 500 x 50 / 3 % = 83.33
        ({"place": 2}, (2, 1, 2, 2), "oh_hell", 83),
        ({"place": 1}, (1, 1, 3, 4), "oh_hell", 375),
        ({"place": 1}, (1, 3, 1, 3), "euchre", 375),
        ({"place": 3}, (3, 1, 3, 1), "klaverjas", 0),
        # A draw: 500 x 37.5 % = 187.5
        ({"place": 1}, (1, 1, 1, 1), "klaverjas", 187),
        ({"place": 1, "eligible": False}, (1, 2, 3, 4, 5, 6), "romanian_whist", 0),
    ],
)
def test_a_prize(changed: dict[str, Any], places: tuple[int, ...], game_type: str, coins: int) -> None:
    player = holder(**changed)
    assert prize(player, game(player, places=places, of=(game_type, "")), CATALOGUE) == coins


def test_nobody_moves_up_past_a_bot_or_somebody_who_is_not_eligible() -> None:
    """Places 1 and 2 are a bot's and a sleeper's: the third still gets the third's share of the own room."""
    sleeper, third = holder(1, BOB, place=2, eligible=False), holder(2, place=3, prize=300)
    assert [each.prize for each in pay(game(sleeper, third), (), {}, CATALOGUE)] == [0, 165]


def test_the_days_first_game_is_for_who_is_eligible_whatever_the_place() -> None:
    last, sleeper = holder(5, place=6), holder(0, BOB, eligible=False)
    paid = pay(game(last, sleeper), (), {}, CATALOGUE)
    assert [each.first_game for each in paid] == [((GOLD, 5),), ()]
    (entry,) = paid[0].entries(game(last, sleeper))
    assert entry.key == f"first_game:2026-11-12:{ALICE}"
    assert entry.transfers == (Transfer(House.REWARDS.value, ALICE, GOLD, 5),)


def test_a_prize_is_an_entry_of_its_game() -> None:
    player = holder(3, place=2)
    first, *_ = pay(game(player), (), {}, CATALOGUE)[0].entries(game(player))
    assert (first.key, first.cause.id, first.cause.what) == (f"prize:{GAME_ID}:3", str(GAME_ID), "prize")
    assert first.transfers == (Transfer(House.PRIZES.value, ALICE, COIN, 350),)


# Good deals in a row, of seat 0: g is an exact own bid, b one that was missed, s a bid that somebody else made exact,
# 1 and x a deal of one card, exact or not.


def deals(letters: str) -> list[ScoredDeal]:
    return [
        ScoredDeal(
            hand_size=1 if letter in "1x" else 8,
            bids=(2, 0),
            tricks_won=(3, 0) if letter in "bx" else (2, 0),
            own=(letter != "s", True),
        )
        for letter in letters
    ]


@pytest.mark.parametrize(
    ("letters", "rows"),
    [
        ("", 0),
        ("gggggg", 0),
        ("ggggggg", 1),
        ("gggbgggg", 0),
        ("gggsgggg", 0),
        # Deals of one card neither count nor break the row.
        ("ggg1gggg", 1),
        ("gggxgggg", 1),
        ("gggggg1", 0),
        ("bggggggg", 1),
        # Again for each further seven: not for an eighth.
        ("gggggggg", 1),
        ("g" * 13, 1),
        ("g" * 14, 2),
        ("ggggggg" + "b" + "ggggggg", 2),
        ("g" * 21 + "b" + "g" * 6, 3),
    ],
)
def test_rows_of_seven(letters: str, rows: int) -> None:
    assert good_rows(deals(letters), 0, 7) == rows


@given(st.text("gggggbs1x", max_size=60), st.integers(1, 7))
def test_rows_against_a_model_of_text(letters: str, row_deals: int) -> None:
    runs = re.findall("g+", re.sub("[1x]", "", letters))
    assert good_rows(deals(letters), 0, row_deals) == sum(len(run) // row_deals for run in runs)


def good_play(deals: Sequence[ScoredDeal], earlier_games: int = 0, **changed: Any) -> Amounts:
    player = holder(**changed)
    (paid,) = pay(game(player, of=CLASSIC), deals, {0: earlier_games}, CATALOGUE)
    return paid.good_play


def test_good_play_is_paid_whatever_the_place_once_for_each_seven() -> None:
    once: Amounts = ((GOLD, 2), (ONE_AND_A_HALF, 1))
    assert good_play(deals("g" * 13), place=6) == once
    assert good_play(deals("g" * 14), place=6) == ((GOLD, 4), (ONE_AND_A_HALF, 2))
    assert good_play(deals("g" * 14), eligible=False) == ()
    assert good_play(deals("g" * 6)) == ()


def test_the_first_room_pays_for_three_games_a_day_and_the_others_for_all() -> None:
    seven = deals("g" * 7)
    assert [bool(good_play(seven, earlier, room=1)) for earlier in range(5)] == [True, True, True, False, False]
    assert good_play(seven, 99, room=2)


def test_only_classic_whist_pays_for_good_play() -> None:
    player = holder()
    for of in (("romanian_whist", "quick"), ("romanian_whist", "8-8-8")):
        (paid,) = pay(game(player, of=of), deals("g" * 7), {}, CATALOGUE)
        assert paid.good_play == ()


@pytest.mark.parametrize(
    ("score", "moves", "without_hint", "expected"),
    [
        (100, 60, 60, ((DOUBLE, 1), (GOLD, 2))),
        (90, 60, 60, ((DOUBLE, 1), (GOLD, 2))),
        (89, 60, 60, ((ONE_AND_A_HALF, 1),)),
        (80, 60, 60, ((ONE_AND_A_HALF, 1),)),
        (79, 60, 60, ()),
        # Half of the moves left is enough, fewer are not; and of none at all nothing can be said.
        (95, 60, 30, ((DOUBLE, 1), (GOLD, 2))),
        (95, 61, 30, ()),
        (95, 0, 0, ()),
    ],
)
def test_what_the_coachs_score_is_worth(score: int, moves: int, without_hint: int, expected: Amounts) -> None:
    assert coach_pay(Coached(0, score, moves, without_hint), TERMS) == expected


def test_every_coffee_has_its_factor() -> None:
    assert {coffee: int(2 * factor) for coffee, factor in CATALOGUE.coffees.items()} == {
        Currency.COFFEE_1_5: 3,
        Currency.COFFEE_2: 4,
        Currency.COFFEE_3: 6,
        Currency.COFFEE_5: 10,
    }
