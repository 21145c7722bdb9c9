"""Games without a clock that somebody left: when the bot plays them out, and what they pay (platform.md, Solo)."""

from datetime import UTC, date, datetime, timedelta

import pytest

from rules import registry
from rules.game import Rejection
from services.table import domain
from services.table.domain import Clock, Decider, Mode, Occupant, Secret, Step, Table

ACCOUNT = "00000000-0000-4000-8000-000000000001"
DAY = date(2026, 11, 30)
OPENED = datetime(2026, 11, 30, 20, 15, tzinfo=UTC)
HOUR = timedelta(hours=1)


def us(moment: datetime) -> int:
    """As the table has times."""
    return int(moment.timestamp()) * 1_000_000


def opened(mode: Mode, people: int = 1) -> Table:
    """A game of oh hell, in which the bots have decided up to the first person's turn."""
    game = registry.game("oh_hell")
    assert game is not None
    day = DAY if mode is Mode.DAILY else None
    secret = Secret(bytes(32), (b"",) * 4)
    setup = game.setup("standard", 4, domain.chance_of(bytes(16), game.game_type, day, secret))
    assert not isinstance(setup, Rejection)
    accounts = [ACCOUNT[:-1] + str(seat + 1) for seat in range(people)]
    step = domain.open_table(
        game_id=bytes(16),
        game=game,
        setup=setup,
        mode=mode,
        seats=[*map(Occupant, accounts), *[Occupant(bot_level="steady")] * (4 - people)],
        clock=domain.clock_for(mode, Clock(0, 0)),
        secret=secret,
        host="here",
        now_us=us(OPENED),
        day=day,
    )
    return bots_played(step.table, us(OPENED))


def taken(step: Step | Rejection) -> Table:
    """The table after a step that must be one."""
    assert not isinstance(step, Rejection)
    return step.table


def bots_played(table: Table, now_us: int) -> Table:
    """After all that the server decides."""
    while table.server_decides:
        table = taken(domain.move(table, table.turn, table.bot_move(), Decider.BOT, now_us))
    return table


def person_played(table: Table, now_us: int) -> Table:
    """After the person's move, and the bots'."""
    return bots_played(taken(domain.move(table, table.turn, table.bot_move(), Decider.PERSON, now_us)), now_us)


def test_a_solo_waits_a_day_from_the_last_move() -> None:
    table = opened(Mode.SOLO)
    assert table.deadline_us == 0
    assert table.abandoned_at_us == us(OPENED + 24 * HOUR)
    table = person_played(table, us(OPENED + 5 * HOUR))
    assert table.abandoned_at_us == us(OPENED + 29 * HOUR)


def test_a_new_host_gives_no_more_time() -> None:
    table = opened(Mode.SOLO)
    resumed = taken(domain.resume_clock(table, 2, "there", us(OPENED + 5 * HOUR)))
    assert resumed.abandoned_at_us == table.abandoned_at_us


@pytest.mark.parametrize("hours", [0, 3])
def test_a_daily_waits_until_its_day_ends_whatever_is_done(hours: int) -> None:
    table = person_played(opened(Mode.DAILY), us(OPENED + hours * HOUR))
    assert table.abandoned_at_us == us(datetime(2026, 12, 1, tzinfo=UTC))


@pytest.mark.parametrize("mode", [Mode.FRIENDLY, Mode.QUICK_PLAY])
def test_where_there_is_a_clock_nobody_waits_for_more(mode: Mode) -> None:
    table = opened(mode)
    assert table.deadline_us
    assert table.abandoned_at_us == 0


@pytest.mark.parametrize("mode", [Mode.SOLO, Mode.DAILY])
@pytest.mark.parametrize("played_first", [0, 1_000])
def test_the_bot_plays_it_out_and_it_pays_nothing(mode: Mode, played_first: int) -> None:
    table, now_us = opened(mode), us(OPENED)
    for _ in range(played_first):
        if table.play.deal == 18:
            break
        table = person_played(table, now_us)
    left = taken(domain.go_away(table, [table.turn], now_us))
    assert left.away == (True, False, False, False)
    assert left.abandoned_at_us == 0
    over = bots_played(left, now_us)
    assert over.finished is not None
    result = over.finished.seats[0]
    assert result.holder.account == ACCOUNT
    assert not result.eligible
    # All but the last deal were the person's own: it is the leaving that costs.
    assert result.own_deals == (18 if played_first else 0)
    assert domain.go_away(over, [0], now_us) is Rejection.GAME_FINISHED


def test_played_to_its_end_it_counts() -> None:
    table = opened(Mode.SOLO)
    while not table.over:
        table = person_played(table, us(OPENED))
    assert table.finished is not None
    assert table.finished.seats[0].eligible


def test_who_comes_back_in_time_plays_on() -> None:
    table = taken(domain.go_away(opened(Mode.SOLO), [0], us(OPENED)))
    table = taken(domain.move(table, table.turn, table.bot_move(), Decider.PERSON, us(OPENED)))
    assert table.away == (False,) * 4


def test_a_daily_is_disclosed_when_its_day_has_ended() -> None:
    table = opened(Mode.DAILY)
    end = us(datetime(2026, 12, 1, tzinfo=UTC))
    assert not table.is_disclosed(end)
    over = bots_played(taken(domain.go_away(table, [0], us(OPENED))), us(OPENED))
    assert not over.is_disclosed(end - 1)
    assert over.is_disclosed(end)


@pytest.mark.parametrize(
    ("moment", "day"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)),
        (datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC), DAY),
        (datetime(2026, 12, 1, tzinfo=UTC), date(2026, 12, 1)),
        (datetime(2028, 2, 29, 12, tzinfo=UTC), date(2028, 2, 29)),
    ],
)
def test_days_are_utc_days(moment: datetime, day: date) -> None:
    assert domain.day_of(us(moment)) == day
    assert domain.day_of(domain.day_end_us(day)) == day + timedelta(days=1)
    assert domain.day_of(domain.day_end_us(day) - 1) == day
