"""The league's part of the catalogue's file, with what it shares with the ledger: the rest is the ledger's to check."""

from datetime import date
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from chassis.checked_yaml import checked, in_file
from services.league.domain.terms import Amounts, Terms

# Enough for any game, and sums of many stay far below what a column can hold.
AMOUNT_MAX: Final = 1_000_000


def read_terms(path: Path) -> Terms:
    """The terms in a file; refused with the line and the key of what is wrong."""
    return in_file(path, terms_in)


def terms_in(content: str) -> Terms:
    """The terms in a catalogue's text."""
    return checked(content, _Catalogue).terms()


# What the file may say


def _day(text: object) -> date:
    try:
        return date.fromisoformat(str(text))
    except ValueError:
        raise ValueError(f"{text} is not a day, as 2026-11-16") from None


def _falling(amounts: tuple[int, ...]) -> tuple[int, ...]:
    if list(amounts) != sorted(amounts, reverse=True):
        raise ValueError("a later place has more than an earlier one")
    return amounts


_Amount = Annotated[int, Field(ge=0, le=AMOUNT_MAX, strict=True)]
_Positive = Annotated[int, Field(ge=1, le=AMOUNT_MAX, strict=True)]
_ByPlace = Annotated[tuple[_Amount, ...], AfterValidator(_falling)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _LedgersPart(BaseModel):
    """What the ledger checks: here it is only read."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Xp(_Part):
    own_deal: _Amount
    places: _ByPlace


class _Friendly(_Part):
    points: _ByPlace
    people_min: _Positive


class _Moving(_Part):
    one_in: _Positive
    up_min: _Amount


class _Amounts(_Part):
    since: Annotated[date, BeforeValidator(_day)]
    xp: _Xp
    friendly: _Friendly
    moving: _Moving


def _later_first(amounts: tuple[_Amounts, ...]) -> tuple[_Amounts, ...]:
    days = [each.since for each in amounts]
    if days != sorted(set(days), reverse=True):
        raise ValueError("later days must come first, and each once")
    if not days or days[-1] != date.min:
        raise ValueError(f"the last must be since {date.min}, so that every game has some")
    return amounts


class _League(_Part):
    level_xp: _Positive
    amounts: Annotated[tuple[_Amounts, ...], AfterValidator(_later_first)]


class _Shares(_LedgersPart):
    alone: dict[int, tuple[int, ...]]
    partners: tuple[int, ...]


class _Weekly(_LedgersPart):
    ranks: tuple[object, ...]


class _Catalogue(_LedgersPart):
    league: _League
    shares: _Shares
    weekly: _Weekly

    def terms(self) -> Terms:
        """What it means."""
        return Terms(
            self.league.level_xp,
            tuple(
                Amounts(
                    since=each.since,
                    deal_xp=each.xp.own_deal,
                    place_xp=each.xp.places,
                    friendly_points=each.friendly.points,
                    friendly_people_min=each.friendly.people_min,
                    movers_one_in=each.moving.one_in,
                    promoted_min=each.moving.up_min,
                )
                for each in self.league.amounts
            ),
            rewarded=len(self.weekly.ranks),
            alone=self.shares.alone,
            partners=self.shares.partners,
        )
