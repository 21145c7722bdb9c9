"""What clocks do to a table: the bot's choice, and after two expiries in a row a seat that is away until it acts."""

import random

import pytest

from rules.cards import members
from rules.game import Phase, Rejection
from services.table import domain
from services.table.domain import ClockResumed, Decider, Moved, SeatChanged, Step, Table
from tests.random_tables import opened


@pytest.fixture
def table() -> Table:
    """A game of whist with persons in the even seats, clocks of 20 and 15 seconds; a person's decision is open."""
    return bots_on(opened("romanian_whist", "8-1-8", 4, bytes(32)).table)


def step(answer: Step | Rejection) -> Step:
    """What a command that is not refused does."""
    assert isinstance(answer, Step), answer
    return answer


def expired(table: Table) -> Step:
    """The open decision's clock runs out."""
    return step(domain.move(table, table.turn, table.bot_move(), Decider.CLOCK, table.deadline_us))


def bots_on(table: Table) -> Table:
    """Bots, and persons who are away, have decided."""
    while table.server_decides:
        table = step(domain.move(table, table.turn, table.bot_move(), Decider.BOT, table.opened_at_us + 1)).table
    return table


def acted(table: Table) -> Table:
    """The person whose turn it is decides."""
    return step(
        domain.move(table, table.turn, next(members(table.legal)), Decider.PERSON, table.opened_at_us + 1)
    ).table


def until_turn_of(table: Table, seat: int) -> Table:
    """Everybody decides in time until it is this person's turn."""
    table = bots_on(table)
    while table.turn != seat:
        table = bots_on(acted(table))
    return table


def test_expiry_plays_the_bots_choice(table: Table) -> None:
    seat, choice = table.turn, table.bot_move()
    assert table.deadline_us == table.opened_at_us + 20_000_000
    assert expired(table).commit.events == (Moved(seat, choice, Decider.CLOCK),)


def test_two_expiries_in_a_row_make_the_seat_away_and_the_bot_answers_at_once(table: Table) -> None:
    seat = table.turn
    once = until_turn_of(expired(table).table, seat)
    assert not any(once.away)
    assert not once.server_decides
    twice = expired(once)
    assert twice.commit.events[-1] == SeatChanged(seat, table.occupants[seat], away=True)
    after = twice.table
    while after.turn != seat:
        after = acted(after) if not after.server_decides else bots_on_once(after)
    assert after.server_decides


def bots_on_once(table: Table) -> Table:
    """One decision of a bot."""
    return step(domain.move(table, table.turn, table.bot_move(), Decider.BOT, table.opened_at_us + 1)).table


def test_own_decision_between_two_expiries_keeps_the_seat(table: Table) -> None:
    seat = table.turn
    for _ in range(4):
        table = until_turn_of(expired(table).table, seat)
        table = until_turn_of(acted(table), seat)
    assert not any(table.away)


def test_expiries_of_two_seats_are_counted_apart(table: Table) -> None:
    first = table.turn
    table = bots_on(expired(table).table)
    assert table.turn != first
    table = bots_on(expired(table).table)
    assert not any(table.away)


def away(table: Table) -> tuple[int, Table]:
    """A seat that is away, and the table on which it became so."""
    seat = table.turn
    return seat, expired(until_turn_of(expired(table).table, seat)).table


def test_whoever_acts_is_back(table: Table) -> None:
    seat, gone = away(table)
    back = step(domain.return_to_seat(gone, seat, gone.opened_at_us + 5))
    assert back.commit.events == (SeatChanged(seat, gone.occupants[seat], away=False),)
    assert not any(back.table.away)
    # Nobody else's clock starts afresh by that.
    assert back.table.deadline_us == gone.deadline_us
    # It takes two expiries again.
    again = expired(until_turn_of(back.table, seat)).table
    assert not any(again.away)


def test_a_move_brings_back_too(table: Table) -> None:
    seat, gone = away(table)
    while gone.turn != seat:
        gone = acted(gone) if not gone.server_decides else bots_on_once(gone)
    events = step(domain.move(gone, seat, next(members(gone.legal)), Decider.PERSON, gone.opened_at_us)).commit.events
    assert events[0] == SeatChanged(seat, gone.occupants[seat], away=False)
    assert isinstance(events[1], Moved)
    assert events[1].decider is Decider.PERSON


def test_resumed_clock_starts_afresh_and_changes_nothing_else(table: Table) -> None:
    later = table.deadline_us - 1
    resumed = step(domain.resume_clock(table, 7, "there", later))
    assert resumed.commit.events == (ClockResumed(7, "there"),)
    assert resumed.table.deadline_us == later + 20_000_000
    assert (resumed.table.turn, resumed.table.legal, resumed.table.opened_version) == (
        table.turn,
        table.legal,
        table.opened_version,
    )


def test_cards_have_a_clock_of_their_own(table: Table) -> None:
    while table.play.phase is Phase.BIDDING:
        table = bots_on(acted(table))
    assert table.deadline_us == table.opened_at_us + 15_000_000


def test_no_clock_in_solo_and_daily() -> None:
    for mode in (domain.Mode.SOLO, domain.Mode.DAILY):
        assert domain.clock_for(mode, domain.Clock(30, 30)) == domain.Clock(0, 0)
    assert domain.clock_for(domain.Mode.FRIENDLY, domain.Clock(0, 0)) == domain.Clock(20, 15)
    assert domain.clock_for(domain.Mode.FRIENDLY, domain.Clock(60, 5)) == domain.Clock(60, 5)


def test_seat_that_is_away_when_a_deal_is_scored_has_no_own_deal(table: Table) -> None:
    seat, gone = away(table)
    chance = random.Random(1)
    while not gone.own:
        if gone.server_decides:
            gone = bots_on_once(gone)
        else:
            move = chance.choice(list(members(gone.legal)))
            gone = step(domain.move(gone, gone.turn, move, Decider.PERSON, gone.opened_at_us)).table
    assert not gone.own[0][seat]
    other = (seat + 2) % 4
    assert gone.own[0][other]
