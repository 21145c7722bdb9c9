"""Who of a game's people is there: when each seat was last heard, on whatever connection and replica.

Opening a stream, `Here` and a move are signs of life. So is the close of a stream, unless it comes late: a dead phone's
connection that runs out after twenty seconds brings nobody back. Pure: time comes in with each call, and every question
is answered as of now and of the table as it is, so that no timer can be stale.
"""

from typing import Final

from rules.game import Seat
from services.table.domain import UNTIMED, Table

# Clients say every five seconds that they are there; one such call may be lost.
GRACE_SECONDS: Final = 10
GRACE_US: Final = GRACE_SECONDS * 1_000_000
_NEVER: Final = -GRACE_US


class Presence:
    """When each seat of one game was last heard, in microseconds of the table's clock."""

    __slots__ = ("_heard_us",)

    def __init__(self, table: Table, now_us: int) -> None:
        """The grace begins afresh for whoever is there; who is away has to be heard."""
        self._heard_us = [_NEVER if away else now_us for away in table.away]

    def hear(self, seat: Seat, now_us: int) -> None:
        """The seat's person gave a sign of life."""
        self._heard_us[seat] = now_us

    def close(self, seat: Seat, now_us: int) -> None:
        """A stream of the seat's person ended: the grace runs from here, unless it was over before."""
        if now_us - self._heard_us[seat] < GRACE_US:
            self._heard_us[seat] = now_us

    def silent(self, table: Table, trusted_from_us: int, now_us: int) -> list[Seat]:
        """Seats that a bot has to play from now on. Silence counts only from when we could hear: `trusted_from_us`."""
        if table.created.mode in UNTIMED or now_us - trusted_from_us < GRACE_US:
            return []
        return [seat for seat in _there(table) if now_us - self._heard_us[seat] >= GRACE_US]

    def returned(self, table: Table, now_us: int) -> Seat | None:
        """A seat whose person fell silent and is heard again; not one that only an act brings back."""
        if table.created.mode in UNTIMED or True not in table.away:
            return None
        for seat, away in enumerate(table.away):
            if away and not table.is_away_until_acting(seat) and now_us - self._heard_us[seat] < GRACE_US:
                return seat
        return None

    def silent_at_us(self, table: Table, trusted_from_us: int) -> int:
        """When somebody falls silent who is not heard before; 0 if nobody can."""
        if table.created.mode in UNTIMED:
            return 0
        heard_us = min((self._heard_us[seat] for seat in _there(table)), default=None)
        return 0 if heard_us is None else max(heard_us, trusted_from_us) + GRACE_US


def _there(table: Table) -> list[Seat]:
    """The seats of people who are not away."""
    return [seat for seat, each in enumerate(table.occupants) if each.account and not table.away[seat]]
