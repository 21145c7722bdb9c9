"""The catalogue's file: read once at start, and refused with the line and the key of whatever is wrong in it.

Old editions are read again to compute anew what was paid by them: a new key needs a default.
"""

from datetime import date
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from chassis.checked_yaml import checked, in_file
from services.ledger.domain.catalogue import (
    Amounts,
    Catalogue,
    CoachTerms,
    Edition,
    GoodPlayTerms,
    RefundTerms,
    Shares,
    WeeklyTerms,
)
from services.ledger.domain.entries import RoomTerms
from services.ledger.domain.journal import COFFEES, Currency

ROOMS: Final = tuple(range(1, 13))
CLASSES: Final = ("jack", "queen", "king", "ace")
# Sums of many of them stay far below what the ledger can hold.
AMOUNT_MAX: Final = 10**12


def read_catalogue(path: Path, zone: ZoneInfo) -> Edition:
    """The catalogue in a file; days and weeks are of this time zone."""
    return in_file(path, lambda content: read_edition(content, zone))


def read_edition(content: str, zone: ZoneInfo) -> Edition:
    """The catalogue in a text, with the time zone that goes with it."""
    catalogue = checked(content, _Catalogue).terms(zone)
    return Edition(catalogue, content, zone.key, sha256(f"{zone.key}\n{content}".encode()).digest())


# What the file may say


def _times(number: object) -> Fraction:
    # A float's text has the digits that were written.
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError("not a number")
    times = Fraction(Decimal(str(number))) if Decimal(str(number)).is_finite() else Fraction(0)
    if not 1 <= times <= 100:
        raise ValueError("must be from 1 to 100")
    return times


def _day(text: object) -> date:
    try:
        return date.fromisoformat(str(text))
    except ValueError:
        raise ValueError(f"{text} is not a day, as 2026-11-16") from None


def _all_of(*keys: object) -> AfterValidator:
    def check(mapping: dict[object, object]) -> dict[object, object]:
        missing = [str(key) for key in keys if key not in mapping]
        if missing:
            raise ValueError(f"{', '.join(missing)} is missing")
        return mapping

    return AfterValidator(check)


def _falling(percents: tuple[int, ...]) -> tuple[int, ...]:
    if list(percents) != sorted(percents, reverse=True):
        raise ValueError("a later place has more than an earlier one")
    return percents


_Amount = Annotated[int, Field(ge=0, le=AMOUNT_MAX, strict=True)]
_Positive = Annotated[int, Field(ge=1, le=AMOUNT_MAX, strict=True)]
_Percents = Annotated[
    tuple[Annotated[int, Field(ge=0, le=100, strict=True)], ...], Field(min_length=1), AfterValidator(_falling)
]
_Room = Annotated[int, Field(ge=ROOMS[0], le=ROOMS[-1], strict=True)]
_Day = Annotated[date, BeforeValidator(_day)]
_Given = dict[Currency, _Positive]


def _amounts(given: _Given) -> Amounts:
    return tuple(given.items())


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _RoomTerms(_Part):
    # Name, level and VIP are for who lets people in.
    name: str = Field(min_length=1, max_length=40)
    level: Annotated[int, Field(ge=1, le=1_000, strict=True)]
    coins: _Amount
    gold: _Amount = 0
    vip: bool = Field(False, strict=True)
    prize: _Amount


class _Coffee(_Part):
    times: Annotated[Fraction, BeforeValidator(_times)]
    gold_for_three: _Positive


class _Shares(_Part):
    alone: Annotated[dict[int, _Percents], _all_of(4, 6)]
    partners: _Percents


class _Weekly(_Part):
    ranks: tuple[_Given, ...] = Field(min_length=1)
    times: Annotated[dict[str, _Positive], _all_of(*CLASSES)]
    counted_min: _Positive


class _Coach(_Part):
    score_min: Annotated[int, Field(ge=0, le=100, strict=True)]
    amounts: _Given


def _best_first(coach: tuple[_Coach, ...]) -> tuple[_Coach, ...]:
    scores = [each.score_min for each in coach]
    if scores != sorted(set(scores), reverse=True):
        raise ValueError("the best must come first, and each score once")
    return coach


class _GoodPlay(_Part):
    row_deals: Annotated[int, Field(ge=1, le=100, strict=True)]
    row: _Given
    coach: Annotated[tuple[_Coach, ...], AfterValidator(_best_first)]
    games_a_day: dict[_Room, _Amount]


class _Refunds(_Part):
    since: _Day
    games_a_day: _Amount
    vip_days_only: bool = Field(strict=True)


def _later_first(refunds: tuple[_Refunds, ...]) -> tuple[_Refunds, ...]:
    days = [each.since for each in refunds]
    if days != sorted(set(days), reverse=True):
        raise ValueError("later days must come first, and each once")
    return refunds


class _Catalogue(_Part):
    rooms: Annotated[dict[_Room, _RoomTerms], _all_of(*ROOMS)]
    coffees: Annotated[dict[Currency, _Coffee], _all_of(*COFFEES)]
    shares: _Shares
    first_game: _Given
    welcome: _Given
    monday: _Given
    weekly: _Weekly
    good_play: _GoodPlay
    refund_hours: Annotated[int, Field(ge=0, le=24 * 365, strict=True)]
    refunds: Annotated[tuple[_Refunds, ...], AfterValidator(_later_first)]
    # The league's, which checks it.
    league: object = None

    def terms(self, zone: ZoneInfo) -> Catalogue:
        """What it means."""
        good_play = self.good_play
        return Catalogue(
            zone=zone,
            rooms={number: RoomTerms(room.coins, room.gold, room.prize) for number, room in self.rooms.items()},
            coffees={currency: coffee.times for currency, coffee in self.coffees.items()},
            shares=Shares(self.shares.alone, self.shares.partners),
            first_game=_amounts(self.first_game),
            welcome=_amounts(self.welcome),
            monday=_amounts(self.monday),
            weekly=WeeklyTerms(tuple(map(_amounts, self.weekly.ranks)), self.weekly.times, self.weekly.counted_min),
            good_play=GoodPlayTerms(
                good_play.row_deals,
                _amounts(good_play.row),
                tuple(CoachTerms(each.score_min, _amounts(each.amounts)) for each in good_play.coach),
                good_play.games_a_day,
            ),
            refunds=tuple(RefundTerms(each.since, each.games_a_day, each.vip_days_only) for each in self.refunds),
            refund_hours=self.refund_hours,
            coffee_prices={currency: coffee.gold_for_three for currency, coffee in self.coffees.items()},
        )
