"""Who may enter which room (platform.md, "Rooms and quick play")."""

from datetime import date, timedelta
from uuid import UUID

import pytest

from rules.vip import vip_weekdays
from services.matchmaker.domain.rooms import Entrant, Room, WhyNot, next_vip_day, why_not

ACCOUNT = UUID(int=7, version=4)
HUT = Room(1, "Village Hut", 1, 0, 0, False, 300)
MANOR = Room(6, "Manor", 14, 5_000, 0, True, 15_000)
CASTLE = Room(11, "Castle", 38, 250_000, 10, False, 625_000)
RICH = {"coin": 10**6, "gold": 100, "coffee_2": 1}
VIP_DAYS = [
    day
    for day in (date(2026, 11, 2) + timedelta(days=ahead) for ahead in range(7))
    if day.weekday() in vip_weekdays(ACCOUNT)
]
ORDINARY_DAY = next(
    day
    for day in (date(2026, 11, 2) + timedelta(days=ahead) for ahead in range(7))
    if day.weekday() not in vip_weekdays(ACCOUNT)
)


def entrant(*, guest: bool = False, level: int = 50, **free: int) -> Entrant:
    return Entrant(ACCOUNT, guest, level, {**RICH, **free})


@pytest.mark.parametrize(
    ("room", "who", "coffee", "reasons"),
    [
        (HUT, entrant(guest=True, level=1, coin=0, gold=0), "", ()),
        (CASTLE, entrant(level=38, coin=250_000, gold=10), "", ()),
        (CASTLE, entrant(guest=True), "", (WhyNot.GUEST,)),
        (CASTLE, entrant(level=37), "", (WhyNot.LEVEL,)),
        (CASTLE, entrant(coin=249_999), "", (WhyNot.COINS,)),
        (CASTLE, entrant(gold=9), "", (WhyNot.GOLD,)),
        (MANOR, entrant(), "", (WhyNot.VIP_DAY,)),
        (HUT, entrant(), "coffee_2", ()),
        (HUT, entrant(), "coffee_5", (WhyNot.COFFEE,)),
        (
            CASTLE,
            entrant(guest=True, level=1, coin=0, gold=0),
            "coffee_3",
            (WhyNot.GUEST, WhyNot.LEVEL, WhyNot.COINS, WhyNot.GOLD, WhyNot.COFFEE),
        ),
    ],
)
def test_all_that_keeps_somebody_out_is_said(room: Room, who: Entrant, coffee: str, reasons: tuple[WhyNot]) -> None:
    assert why_not(room, who, ORDINARY_DAY, coffee) == reasons


def test_vip_rooms_are_open_on_both_of_ones_vip_days() -> None:
    assert len(VIP_DAYS) == 2
    assert all(why_not(MANOR, entrant(), day) == () for day in VIP_DAYS)


def test_the_next_vip_day_is_never_today() -> None:
    first, second = VIP_DAYS
    assert next_vip_day(ACCOUNT, first - timedelta(days=1)) == first
    assert next_vip_day(ACCOUNT, first) == second
    assert next_vip_day(ACCOUNT, second) == first + timedelta(days=7)
