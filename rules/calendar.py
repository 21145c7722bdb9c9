"""Days and weeks as the platform counts them: in one configured time zone, weeks from Monday to Monday.

A day is a date, and a week is the date of its Monday: names that no change of summer time makes ambiguous. Times are
microseconds since 1970, and are handed in.
"""

from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_WEEK: Final = timedelta(days=7)


def day_of(at_us: int, zone: tzinfo) -> date:
    """The day of a moment."""
    return (_EPOCH + at_us * _MICROSECOND).astimezone(zone).date()


def week_of(day: date) -> date:
    """The week of a day."""
    return day - day.weekday() * _DAY


def day_begins_us(day: date, zone: tzinfo) -> int:
    """The first moment of a day; a week begins with its Monday."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    begins = (midnight - _EPOCH) // _MICROSECOND
    # Where clocks are put forward at midnight the day begins later than the midnight that never was.
    while day_of(begins, zone) < day:
        begins += 60_000_000
    return begins


def mondays(after: date, until: date) -> tuple[date, ...]:
    """Every Monday after a day, up to and with another one."""
    first = week_of(after) + _WEEK
    return tuple(first + number * _WEEK for number in range((until - first) // _WEEK + 1))
