"""Seats that are left and taken: who may, what it does to the table, and whose deals are whose afterwards."""

import random
from dataclasses import replace
from uuid import UUID

import pytest

from rules.cards import members
from rules.game import Rejection, Seat
from services.table import domain
from services.table.domain import Decider, Mode, Occupant, SeatChanged, SeatRejection, Step, Table
from tests.random_tables import opened

LATER = 5_000_000
NEWCOMER = str(UUID(int=50))
OTHER = str(UUID(int=51))


@pytest.fixture
def table() -> Table:
    """A friendly game of four, persons in the even seats; a person's decision is open."""
    return bots_on(opened("romanian_whist", "8-1-8", 4, bytes(32)).table)


def done(answer: Step | Rejection | SeatRejection) -> Table:
    """The table after a step that must be one."""
    assert isinstance(answer, Step), answer
    return answer.table


def bots_on(table: Table) -> Table:
    """Bots, and persons who are away, have decided."""
    while table.server_decides:
        table = done(domain.move(table, table.turn, table.bot_move(), Decider.BOT, table.opened_at_us + 1))
    return table


def acted(table: Table, chance: random.Random) -> Table:
    """The person whose turn it is has decided, and the bots."""
    move = chance.choice(list(members(table.legal)))
    return bots_on(done(domain.move(table, table.turn, move, Decider.PERSON, table.opened_at_us + 1)))


def of_mode(table: Table, mode: Mode) -> Table:
    """The same game, had it come to be otherwise."""
    other = table.copy()
    other.created = replace(table.created, mode=mode)
    return other


def left(table: Table, seat: Seat) -> Table:
    """Its person gave the seat up."""
    return done(domain.leave(table, seat, LATER))


def taken(table: Table, seat: Seat, account: str = NEWCOMER, guest: bool = False) -> Table:
    """Somebody took it."""
    return done(domain.take_seat(table, seat, account, guest, LATER))


def test_a_seat_that_is_left_is_a_bots(table: Table) -> None:
    account = table.occupants[0].account
    step = domain.leave(table, 0, LATER)
    assert isinstance(step, Step)
    bot = Occupant(bot_level="steady")
    assert step.commit.events == (SeatChanged(0, bot, away=False),)
    after = step.table
    assert after.occupants[0] == bot
    assert after.seat_of(account) is None
    assert after.left == ((account,), (), (), ())
    assert [after.is_vacated(seat) for seat in range(4)] == [True, False, False, False]


def test_quick_play_gives_it_to_the_bot_for_good(table: Table) -> None:
    after = left(of_mode(table, Mode.QUICK_PLAY), 2)
    assert not any(after.is_vacated(seat) for seat in range(4))
    assert domain.take_seat(after, 2, NEWCOMER, False, LATER) is SeatRejection.SEATS_NOT_OPEN


@pytest.mark.parametrize("mode", [Mode.SOLO, Mode.DAILY])
def test_a_game_that_waits_is_not_left(table: Table, mode: Mode) -> None:
    assert domain.leave(of_mode(table, mode), 0, LATER) is SeatRejection.GAME_WAITS
    assert domain.take_seat(of_mode(table, mode), 1, NEWCOMER, False, LATER) is SeatRejection.SEATS_NOT_OPEN


def test_the_bot_decides_at_once_for_who_left_on_turn(table: Table) -> None:
    assert not table.server_decides
    assert left(table, table.turn).server_decides


@pytest.mark.parametrize("guest", [False, True])
def test_a_vacated_seat_is_taken(table: Table, guest: bool) -> None:
    after = taken(left(table, 2), 2, NEWCOMER, guest)
    assert after.occupants[2] == Occupant(NEWCOMER, guest)
    assert after.seat_of(NEWCOMER) == 2
    assert not after.is_vacated(2)
    assert (after.away[2], after.expiries[2]) == (False, 0)


def test_only_a_vacated_seat_is_taken(table: Table) -> None:
    take = domain.take_seat
    assert take(table, 2, NEWCOMER, False, LATER) is SeatRejection.SEAT_TAKEN
    assert take(table, 1, NEWCOMER, False, LATER) is SeatRejection.SEAT_NOT_VACATED
    assert take(table, 4, NEWCOMER, False, LATER) is SeatRejection.NO_SUCH_SEAT
    vacated = left(table, 2)
    assert take(vacated, 2, table.occupants[0].account, False, LATER) is SeatRejection.ALREADY_SEATED
    assert take(taken(vacated, 2), 2, OTHER, False, LATER) is SeatRejection.SEAT_TAKEN


def test_who_left_comes_back_to_the_own_seat_only(table: Table) -> None:
    first, second = table.occupants[0].account, table.occupants[2].account
    vacated = left(left(table, 0), 2)
    assert domain.take_seat(vacated, 2, first, False, LATER) is SeatRejection.OTHER_SEAT_LEFT
    assert domain.take_seat(taken(vacated, 2), 0, second, False, LATER) is SeatRejection.OTHER_SEAT_LEFT
    back = taken(vacated, 0, first)
    assert back.seat_of(first) == 0
    # Who left twice is noted once.
    assert left(back, 0).left[0] == (first,)


def test_nothing_changes_in_a_game_that_is_over(table: Table) -> None:
    chance = random.Random(1)
    vacated = left(table, 2)
    while not vacated.over:
        vacated = acted(vacated, chance)
    assert domain.leave(vacated, 0, LATER) is Rejection.GAME_FINISHED
    assert domain.take_seat(vacated, 2, NEWCOMER, False, LATER) is Rejection.GAME_FINISHED


def test_whoever_comes_to_an_open_decision_has_its_whole_time(table: Table) -> None:
    seat = table.turn
    vacated = left(table, seat)
    late = table.deadline_us - 1
    after = done(domain.take_seat(vacated, seat, NEWCOMER, False, late))
    assert after.deadline_us == late + 20_000_000
    # The decision is the same one: what was played in the meantime is not stale.
    assert after.opened_version == table.opened_version
    away = done(domain.go_away(table, [seat], LATER))
    assert done(domain.return_to_seat(away, seat, late)).deadline_us == late + 20_000_000


def test_nobody_elses_clock_is_touched(table: Table) -> None:
    other = 2 - table.turn
    vacated = left(table, other)
    assert taken(vacated, other).deadline_us == table.deadline_us


def test_several_fall_silent_in_one_commit(table: Table) -> None:
    step = domain.go_away(table, [0, 2], LATER)
    assert isinstance(step, Step)
    assert step.commit.version == table.version + 1
    assert step.table.away == (True, False, True, False)
    assert step.table.left == ((), (), (), ())


def test_two_expiries_stay_in_mind_while_the_bot_plays(table: Table) -> None:
    """From the log alone it is known who needs to act and who only has to be heard again."""
    seat, chance = table.turn, random.Random(1)
    table = bots_on(done(domain.move(table, seat, table.bot_move(), Decider.CLOCK, table.deadline_us)))
    assert (table.expiries[seat], table.away[seat]) == (1, False)
    while table.turn != seat:
        table = acted(table, chance)
    table = bots_on(done(domain.move(table, seat, table.bot_move(), Decider.CLOCK, table.deadline_us)))
    assert table.is_away_until_acting(seat)
    for _ in range(20):
        table = acted(table, chance)
    assert table.is_away_until_acting(seat)
    back = done(domain.return_to_seat(table, seat, LATER))
    assert back.expiries[seat] == 0


def test_silence_does_not_end_a_row_of_expiries(table: Table) -> None:
    """One expiry, gone, and back: the row is over with the return, not with the bot's moves."""
    seat = table.turn
    table = done(domain.move(table, seat, table.bot_move(), Decider.CLOCK, table.deadline_us))
    table = done(domain.go_away(table, [seat], LATER))
    assert table.expiries[seat] == 1
    assert not table.is_away_until_acting(seat)
    assert done(domain.return_to_seat(table, seat, LATER)).expiries[seat] == 0
