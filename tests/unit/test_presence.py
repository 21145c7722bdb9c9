"""Who is there (platform.md, "Turns and connections"): ten seconds of grace, and what ends or renews them."""

from dataclasses import replace

import pytest

from services.table import domain
from services.table.app.presence import GRACE_US, Presence
from services.table.domain import Mode, Step, Table
from tests.random_tables import opened

BEGAN = 1_000_000_000
SECOND = 1_000_000
# Of the table below; the others are bots.
PEOPLE = [0, 2]


@pytest.fixture
def table() -> Table:
    """A friendly game of four, persons in the even seats."""
    return opened("romanian_whist", "8-1-8", 4, bytes(32)).table


@pytest.fixture
def presence(table: Table) -> Presence:
    """As the game begins."""
    return Presence(table, BEGAN)


def gone(table: Table, *seats: int) -> Table:
    """These seats are away."""
    step = domain.go_away(table, seats, BEGAN)
    assert isinstance(step, Step)
    return step.table


def test_the_grace_is_ten_seconds(table: Table, presence: Presence) -> None:
    assert GRACE_US == 10 * SECOND
    assert presence.silent(table, 0, BEGAN + GRACE_US - 1) == []
    assert presence.silent(table, 0, BEGAN + GRACE_US) == PEOPLE
    assert presence.look_at_us(0) == BEGAN + GRACE_US


def test_a_sign_of_life_begins_it_anew_for_that_seat(table: Table, presence: Presence) -> None:
    presence.hear(2, BEGAN + 9 * SECOND)
    assert presence.silent(table, 0, BEGAN + 18 * SECOND) == [0]
    assert presence.silent(table, 0, BEGAN + 19 * SECOND) == PEOPLE


def test_silence_is_looked_for_when_it_may_have_come(table: Table, presence: Presence) -> None:
    assert presence.look_at_us(0) == BEGAN + GRACE_US
    # As late as it can be known to be needed: a look that finds nothing sets the next one.
    presence.hear(0, BEGAN + 5 * SECOND)
    presence.hear(2, BEGAN + 7 * SECOND)
    assert presence.look_at_us(0) == BEGAN + GRACE_US
    assert presence.silent(table, 0, BEGAN + GRACE_US) == []
    assert presence.look_at_us(0) == BEGAN + 15 * SECOND
    # Nor before silence may be trusted.
    assert presence.look_at_us(BEGAN + 60 * SECOND) == BEGAN + 70 * SECOND
    # Never while nobody is there, and again with the first who is.
    assert presence.silent(gone(table, 0, 2), 0, BEGAN + 15 * SECOND) == []
    assert presence.look_at_us(BEGAN) == 0
    presence.hear(2, BEGAN + 30 * SECOND)
    assert presence.look_at_us(0) == BEGAN + 40 * SECOND


def test_a_close_in_order_begins_it_anew(table: Table, presence: Presence) -> None:
    presence.close(0, BEGAN + GRACE_US - 1)
    assert presence.silent(table, 0, BEGAN + 2 * GRACE_US - 2) == [2]
    assert presence.silent(table, 0, BEGAN + 2 * GRACE_US - 1) == PEOPLE


def test_a_late_close_brings_nobody_back(table: Table, presence: Presence) -> None:
    presence.close(0, BEGAN + 20 * SECOND)
    assert presence.silent(table, 0, BEGAN + 20 * SECOND) == PEOPLE
    assert presence.returned(gone(table, 0), BEGAN + 20 * SECOND) is None


def test_silence_counts_from_when_we_could_hear(table: Table, presence: Presence) -> None:
    trouble_ended = BEGAN + 60 * SECOND
    assert presence.silent(table, trouble_ended, trouble_ended + GRACE_US - 1) == []
    assert presence.silent(table, trouble_ended, trouble_ended + GRACE_US) == PEOPLE


def test_who_is_away_is_not_silent_once_more(table: Table, presence: Presence) -> None:
    assert presence.silent(gone(table, 0), 0, BEGAN + GRACE_US) == [2]
    assert presence.silent(gone(table, 0, 2), 0, BEGAN + GRACE_US) == []


def test_a_sign_after_the_silence_brings_back(table: Table, presence: Presence) -> None:
    away = gone(table, 0, 2)
    back = BEGAN + 30 * SECOND
    assert presence.returned(away, back) is None
    presence.hear(2, back)
    assert presence.returned(away, back) == 2
    # Not for ever, if it could not be logged then.
    assert presence.returned(away, back + GRACE_US) is None


def test_nobody_returns_who_was_never_away(table: Table, presence: Presence) -> None:
    presence.hear(0, BEGAN + 1)
    assert presence.returned(table, BEGAN + 1) is None


def test_a_new_host_hears_of_no_return_by_itself(table: Table) -> None:
    """Who was away when the host was lost stays away until heard; the others have the whole grace."""
    away = gone(table, 0)
    presence = Presence(away, BEGAN)
    assert presence.returned(away, BEGAN) is None
    assert presence.silent(away, 0, BEGAN + GRACE_US - 1) == []
    presence.close(0, BEGAN + 1)
    assert presence.returned(away, BEGAN + 1) is None
    presence.hear(0, BEGAN + 2)
    assert presence.returned(away, BEGAN + 2) == 0


def test_two_expiries_are_ended_by_an_act_only(table: Table, presence: Presence) -> None:
    away = gone(table, 0)
    for expiries, back in ((0, 0), (1, 0), (2, None), (3, None)):
        away.expiries = (expiries, 0, 0, 0)
        presence.hear(0, BEGAN)
        assert presence.returned(away, BEGAN) == back


@pytest.mark.parametrize("mode", [Mode.SOLO, Mode.DAILY])
def test_games_without_clocks_wait(table: Table, mode: Mode) -> None:
    table.created = replace(table.created, mode=mode)
    presence = Presence(table, BEGAN)
    assert presence.silent(table, 0, BEGAN + 3600 * SECOND) == []
    presence.hear(0, BEGAN)
    assert presence.look_at_us(0) == 0
    assert presence.returned(gone(table, 0), BEGAN) is None
