"""What is told of a pool is numbered so that a replica that stood still never speaks over its successor."""

from uuid import UUID

from services.matchmaker.app.picture import Picture
from services.matchmaker.app.ports import TURN_US, Standing
from services.matchmaker.app.telling import Telling
from services.matchmaker.domain.quick_play import Pool, QuickTicket

ACCOUNT = UUID(int=1)
TICKET = QuickTicket(UUID(int=2), ACCOUNT, False, Pool("euchre", "standard"), 1, "", 0.5, (), 0)


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now_us = 1_000_000_000_000

    def __call__(self) -> int:
        return self.now_us


class Players:
    """Those who are told."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def tell(self, account: UUID, standing: Standing, ahead: int | None, number: int) -> None:
        self.numbers.append(number)


def waiting() -> Picture:
    picture = Picture()
    picture.put(TICKET)
    return picture


def test_who_stood_still_says_nothing_over_its_successor() -> None:
    clock, players = Clock(), Players()
    stalled, successor = Telling(players, clock), Telling(players, clock)
    stalled.keep_turn(clock.now_us + TURN_US)
    stalled.soon([ACCOUNT])
    # It stands still; when its turn is over another replica takes it, which takes a moment, and tells.
    clock.now_us += TURN_US + 1_000
    successor.keep_turn(clock.now_us + TURN_US)
    successor.say(ACCOUNT, Standing(TICKET))
    clock.now_us += 60_000_000
    stalled.tell(waiting())
    newest, *late = players.numbers
    assert late and max(late) < newest


def test_later_states_have_higher_numbers_also_where_the_clock_is_set_back() -> None:
    clock, players = Clock(), Players()
    telling = Telling(players, clock)
    telling.keep_turn(clock.now_us + TURN_US)
    for step_us in (0, 1_000, -5_000, 0, 2_000):
        clock.now_us += step_us
        telling.say(ACCOUNT, Standing(TICKET))
    assert players.numbers == sorted(set(players.numbers))


def test_after_the_turn_nobody_is_told() -> None:
    clock, players = Clock(), Players()
    telling = Telling(players, clock)
    telling.keep_turn(clock.now_us + TURN_US)
    telling.soon([ACCOUNT])
    telling.later([ACCOUNT])
    telling.forget_all()
    clock.now_us += 10_000_000
    telling.tell(Picture())
    assert players.numbers == []
