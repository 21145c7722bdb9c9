"""XP and levels, streaks, points, classes and weeks (platform.md, "Levels, league, streaks")."""

from datetime import date
from itertools import permutations
from uuid import UUID

import pytest

from services.league.domain.classes import LeagueClass, Movers, movers, standing
from services.league.domain.games import FinishedGame, Mode, Result, Seat, leavers, results
from services.league.domain.progress import Outcome, Progress, Streak, add, level_of, xp_of
from services.league.domain.weeks import HeardUpTo, counted_week
from tests.league import TERMS

ALICE, BOB, CAROL, DAVE = (UUID(int=number, version=4) for number in (1, 2, 3, 4))
GAME = UUID(int=9, version=4)
JACK, QUEEN, KING, ACE = LeagueClass
WEEKS = [date(2026, 11, 2), date(2026, 11, 9), date(2026, 11, 16), date(2026, 11, 23)]


def game(mode: Mode, *seats: Seat, game_type: str = "oh_hell") -> FinishedGame:
    return FinishedGame(
        GAME, game_type, mode, seats, 7, 1_000, date(2026, 11, 9), date(2026, 11, 9) if mode is Mode.DAILY else None
    )


def person(account: UUID, place: int, *, own: int = 10, eligible: bool = True, guest: bool = False) -> Seat:
    return Seat(place, account, guest=guest, own_deals=own, eligible=eligible, total=100 - place)


def bot(place: int, total: int = 0) -> Seat:
    return Seat(place, total=total)


def by_account(finished: FinishedGame) -> dict[UUID, Result]:
    return {result.account_id: result for result in results(finished, TERMS)}


# XP and levels


def test_xp_is_ten_for_each_own_deal_and_more_for_the_first_three() -> None:
    finished = game(Mode.QUICK_PLAY, *(person(UUID(int=place, version=4), place, own=12) for place in (1, 2, 3, 4)))
    assert [result.xp for result in results(finished, TERMS)] == [150, 140, 130, 120]


def test_who_is_not_eligible_gets_none() -> None:
    assert by_account(game(Mode.QUICK_PLAY, person(ALICE, 1, eligible=False), bot(2)))[ALICE].xp == 0


def test_half_of_it_alone_and_at_friendly_tables_with_fewer_than_two_who_qualify() -> None:
    assert by_account(game(Mode.SOLO, person(ALICE, 1), bot(2)))[ALICE].xp == 65
    guest = person(BOB, 2, guest=True)
    assert by_account(game(Mode.FRIENDLY, person(ALICE, 1), guest))[ALICE].xp == 65
    assert by_account(game(Mode.FRIENDLY, person(ALICE, 1), person(BOB, 2)))[ALICE].xp == 130
    assert by_account(game(Mode.DAILY, person(ALICE, 1), bot(2)))[ALICE].xp == 130


@pytest.mark.parametrize(("xp", "level"), [(0, 1), (99, 1), (100, 2), (299, 2), (300, 3), (99_000, 45), (98_999, 44)])
def test_level_l_needs_fifty_times_l_times_l_less_one(xp: int, level: int) -> None:
    assert level_of(xp, TERMS) == level


def test_every_level_begins_where_it_says() -> None:
    for level in range(2, 400):
        assert (level_of(xp_of(level, TERMS), TERMS), level_of(xp_of(level, TERMS) - 1, TERMS)) == (level, level - 1)


# Streaks


@pytest.mark.parametrize(
    ("games", "streak"),
    [
        ("", Streak.NONE),
        ("+", Streak.NONE),
        ("++", Streak.FIRE),
        ("+++", Streak.FIRE),
        ("++-", Streak.NONE),
        ("++--", Streak.ICE),
        ("--", Streak.ICE),
        ("--+", Streak.NONE),
        ("--++", Streak.FIRE),
        ("+-+-", Streak.NONE),
    ],
)
def test_two_in_a_row_and_one_the_other_way(games: str, streak: Streak) -> None:
    outcomes = [Outcome(number, sign == "+") for number, sign in enumerate(games, start=1)]
    assert add(Progress(), 0, outcomes).streak is streak
    for order in permutations(outcomes[-3:]):
        progress = add(Progress(), 0, outcomes[:-3])
        for outcome in (*order, *order):
            progress = add(progress, 0, [outcome])
        assert progress.streak is streak


def test_a_podium_is_a_place_with_a_share() -> None:
    six = game(Mode.QUICK_PLAY, *(person(UUID(int=place, version=4), place) for place in range(1, 7)))
    assert [result.podium for result in results(six, TERMS)] == [True, True, True, False, False, False]
    four = game(Mode.QUICK_PLAY, *(person(UUID(int=place, version=4), place) for place in (1, 2, 3, 4)))
    assert [result.podium for result in results(four, TERMS)] == [True, True, False, False]
    pairs = game(
        Mode.QUICK_PLAY, person(ALICE, 1), person(BOB, 3), person(CAROL, 1), person(DAVE, 3), game_type="euchre"
    )
    assert [result.podium for result in results(pairs, TERMS)] == [True, False, True, False]
    draw = game(
        Mode.QUICK_PLAY, *(person(UUID(int=number, version=4), 1) for number in (1, 2, 3, 4)), game_type="klaverjas"
    )
    assert all(result.podium for result in results(draw, TERMS))


def test_a_place_held_while_not_eligible_or_left_is_off_the_podium() -> None:
    seats = [person(ALICE, 1, eligible=False), Seat(2, left=(BOB,)), person(CAROL, 3), person(DAVE, 4)]
    finished = game(Mode.QUICK_PLAY, *seats)
    assert by_account(finished)[ALICE].podium is False
    assert leavers(finished) == (BOB,)
    # In quick play only.
    assert leavers(game(Mode.FRIENDLY, *seats)) == ()
    assert by_account(game(Mode.SOLO, *seats))[ALICE].podium is None


# Points


def test_points_at_friendly_tables_by_place_a_shared_place_in_full() -> None:
    finished = game(Mode.FRIENDLY, person(ALICE, 1), person(BOB, 1), bot(3), person(CAROL, 4, eligible=False))
    points = {account: result.friendly_points for account, result in by_account(finished).items()}
    assert points == {ALICE: 10, BOB: 10, CAROL: 0}


def test_no_points_where_fewer_than_two_qualify_nor_for_guests() -> None:
    alone = game(Mode.FRIENDLY, person(ALICE, 1), bot(2), person(BOB, 3, guest=True), bot(4))
    assert {result.friendly_points for result in results(alone, TERMS)} == {0}
    third = game(Mode.FRIENDLY, person(ALICE, 2), person(CAROL, 3), person(BOB, 1, guest=True), bot(4))
    assert {account: result.friendly_points for account, result in by_account(third).items()} == {
        ALICE: 7,
        CAROL: 5,
        BOB: 0,
    }


def test_a_daily_scores_the_own_total_in_team_games_less_the_others() -> None:
    alone = game(Mode.DAILY, person(ALICE, 1), bot(2, 50), bot(3, 40), bot(4, 30))
    assert by_account(alone)[ALICE].daily_score == 99
    pairs = game(Mode.DAILY, person(ALICE, 1), bot(3, 60), bot(1, 99), bot(3, 60), game_type="euchre")
    assert by_account(pairs)[ALICE].daily_score == 39
    assert by_account(game(Mode.DAILY, person(ALICE, 1, guest=True), bot(2)))[ALICE].daily_score is None


# Classes


@pytest.mark.parametrize(
    ("league_class", "counted", "moving"),
    [
        (JACK, 0, Movers(0, 0)),
        (JACK, 2, Movers(2, 0)),
        (JACK, 100, Movers(20, 0)),
        (QUEEN, 4, Movers(3, 0)),
        (QUEEN, 5, Movers(3, 1)),
        (KING, 16, Movers(3, 3)),
        (KING, 104, Movers(20, 20)),
        (ACE, 4, Movers(0, 0)),
        (ACE, 15, Movers(0, 3)),
    ],
)
def test_who_goes_up_and_who_goes_down(league_class: LeagueClass, counted: int, moving: Movers) -> None:
    assert movers(league_class, counted, TERMS.on(WEEKS[0])) == moving


def test_nobody_goes_both_ways() -> None:
    for league_class in LeagueClass:
        for counted in range(200):
            moving = movers(league_class, counted, TERMS.on(WEEKS[0]))
            assert moving.up + moving.down <= counted


def test_the_standing_among_all_goes_from_the_first_ace_to_the_beginner() -> None:
    order = [
        standing(ACE, 1, 9, 0, TERMS),
        standing(ACE, 9, 9, 0, TERMS),
        standing(ACE, 0, 9, 5_000, TERMS),
        standing(ACE, 0, 9, 0, TERMS),
        standing(KING, 1, 1, 0, TERMS),
        standing(JACK, 3, 9, 0, TERMS),
        standing(JACK, 0, 9, 700, TERMS),
        standing(JACK, 0, 9, 0, TERMS),
    ]
    assert order == sorted(order)
    assert (order[0], order[-1]) == (0, 1)


# Weeks


def test_a_fact_above_the_closes_number_goes_to_the_next_week() -> None:
    closes = [(WEEKS[0], HeardUpTo(10)), (WEEKS[1], HeardUpTo(20))]
    assert counted_week(WEEKS[0], 10, closes) == WEEKS[0]
    assert counted_week(WEEKS[0], 11, closes) == WEEKS[1]
    assert counted_week(WEEKS[0], 21, closes) == WEEKS[2]
    assert counted_week(WEEKS[1], 9, closes) == WEEKS[1]
    assert counted_week(WEEKS[3], 21, closes) == WEEKS[3]
    assert counted_week(date(2026, 8, 3), 21, closes) == WEEKS[2]


def test_what_was_parked_at_the_close_goes_to_the_first_week_that_was_closed_with_it() -> None:
    closes = [(WEEKS[0], HeardUpTo(10, frozenset({7}))), (WEEKS[1], HeardUpTo(20, frozenset({7, 12})))]
    assert counted_week(WEEKS[0], 7, closes) == WEEKS[2]
    assert counted_week(WEEKS[0], 12, closes) == WEEKS[2]
    assert counted_week(WEEKS[0], 8, closes) == WEEKS[0]
