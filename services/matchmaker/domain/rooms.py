"""The rooms, and what keeps somebody out of one (platform.md, "Rooms and quick play")."""

from collections.abc import Mapping
from datetime import date, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from rules.values import value
from rules.vip import vip_weekdays

# Open to guests, and the only one that is.
FIRST_ROOM: Final = 1


class WhyNot(StrEnum):
    """Why somebody cannot enter now; the value is the stable reason that clients see."""

    GUEST = "GUEST_NOT_ALLOWED"
    LEVEL = "ROOM_LOCKED"
    VIP_DAY = "NOT_A_VIP_DAY"
    COINS = "INSUFFICIENT_COINS"
    GOLD = "INSUFFICIENT_GOLD"
    COFFEE = "INSUFFICIENT_COFFEE"


@value
class Room:
    """What a room asks for, and what one plays for there."""

    number: int
    name: str
    level: int
    coins: int
    gold: int
    vip: bool
    prize: int


@value
class Entrant:
    """Somebody who would like to enter, and what there is to know of them."""

    account: UUID
    guest: bool
    level: int
    # What is free, by currency; what is missing is nothing.
    free: Mapping[str, int]


def why_not(room: Room, entrant: Entrant, today: date, coffee: str = "") -> tuple[WhyNot, ...]:
    """All that keeps somebody out of a room today, in the order in which one would have to see to it."""
    reasons = []
    if entrant.guest and room.number != FIRST_ROOM:
        reasons.append(WhyNot.GUEST)
    if entrant.level < room.level:
        reasons.append(WhyNot.LEVEL)
    if room.vip and today.weekday() not in vip_weekdays(entrant.account):
        reasons.append(WhyNot.VIP_DAY)
    if entrant.free.get("coin", 0) < room.coins:
        reasons.append(WhyNot.COINS)
    if entrant.free.get("gold", 0) < room.gold:
        reasons.append(WhyNot.GOLD)
    if coffee and entrant.free.get(coffee, 0) < 1:
        reasons.append(WhyNot.COFFEE)
    return tuple(reasons)


def next_vip_day(account: UUID, today: date) -> date:
    """The first of an account's VIP days after a day."""
    weekdays = vip_weekdays(account)
    return next(day for ahead in range(1, 8) if (day := today + timedelta(days=ahead)).weekday() in weekdays)
