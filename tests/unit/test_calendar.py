"""Days and weeks, also where the clocks are changed."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.calendar import day_begins_us, day_of, mondays, week_of

BUCHAREST = ZoneInfo("Europe/Bucharest")
# Its clocks are put forward at midnight, and back at midnight.
BEIRUT = ZoneInfo("Asia/Beirut")
AUCKLAND = ZoneInfo("Pacific/Auckland")


def us(text: str) -> int:
    """Microseconds of a time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("at", "zone", "day"),
    [
        ("2026-11-15T23:59:59", UTC, date(2026, 11, 15)),
        ("2026-11-16T00:00:00", UTC, date(2026, 11, 16)),
        # Two hours ahead in winter, three in summer.
        ("2026-11-15T21:59:59", BUCHAREST, date(2026, 11, 15)),
        ("2026-11-15T22:00:00", BUCHAREST, date(2026, 11, 16)),
        ("2026-07-05T20:59:59", BUCHAREST, date(2026, 7, 5)),
        ("2026-07-05T21:00:00", BUCHAREST, date(2026, 7, 6)),
    ],
)
def test_the_day_of_a_moment(at: str, zone: ZoneInfo, day: date) -> None:
    assert day_of(us(at), zone) == day


def test_the_day_ends_with_its_last_microsecond() -> None:
    midnight = us("2026-11-16T00:00:00")
    assert (day_of(midnight - 1, UTC), day_of(midnight, UTC)) == (date(2026, 11, 15), date(2026, 11, 16))


@pytest.mark.parametrize(
    ("day", "week"),
    [
        (date(2026, 11, 16), date(2026, 11, 16)),
        (date(2026, 11, 22), date(2026, 11, 16)),
        (date(2026, 11, 15), date(2026, 11, 9)),
        (date(2027, 1, 1), date(2026, 12, 28)),
    ],
)
def test_the_week_of_a_day(day: date, week: date) -> None:
    assert week_of(day) == week


@pytest.mark.parametrize(
    ("week", "hours"),
    # Clocks go forward on the Sunday of the first, and back on that of the second.
    [(date(2026, 3, 23), 167), (date(2026, 10, 19), 169), (date(2026, 11, 16), 168)],
)
def test_a_week_with_a_change_of_time_is_an_hour_shorter_or_longer(week: date, hours: int) -> None:
    begins, ends = (day_begins_us(monday, BUCHAREST) for monday in (week, week + timedelta(days=7)))
    assert ends - begins == hours * 3_600_000_000


def test_a_day_without_a_midnight_begins_at_one() -> None:
    assert day_begins_us(date(2026, 3, 29), BEIRUT) == us("2026-03-28T22:00:00")
    assert day_of(us("2026-03-28T21:59:59"), BEIRUT) == date(2026, 3, 28)


@given(st.dates(date(2000, 1, 1), date(2037, 12, 31)), st.sampled_from([UTC, BUCHAREST, BEIRUT, AUCKLAND]))
def test_a_day_begins_where_the_one_before_ends(day: date, zone: ZoneInfo) -> None:
    begins = day_begins_us(day, zone)
    assert (day_of(begins, zone), day_of(begins - 1, zone)) == (day, day - timedelta(days=1))


@pytest.mark.parametrize(
    ("after", "until", "expected"),
    [
        # A Monday counts once it has come, and not for who began on it.
        (date(2026, 11, 16), date(2026, 11, 22), []),
        (date(2026, 11, 15), date(2026, 11, 15), []),
        (date(2026, 11, 15), date(2026, 11, 16), [date(2026, 11, 16)]),
        (date(2026, 11, 16), date(2026, 11, 30), [date(2026, 11, 23), date(2026, 11, 30)]),
        (date(2026, 11, 30), date(2026, 11, 1), []),
    ],
)
def test_the_mondays_between(after: date, until: date, expected: list[date]) -> None:
    assert list(mondays(after, until)) == expected


@given(st.dates(date(2020, 1, 1), date(2030, 1, 1)), st.integers(0, 400), st.integers(0, 400))
def test_no_monday_is_lost_or_doubled_however_often_one_asks(begin: date, one: int, other: int) -> None:
    middle, end = begin + timedelta(days=min(one, other)), begin + timedelta(days=max(one, other))
    at_once = [day for n in range(1, (end - begin).days + 1) if (day := begin + timedelta(days=n)).isoweekday() == 1]
    assert [*mondays(begin, middle), *mondays(middle, end)] == at_once
