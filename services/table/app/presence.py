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

    __slots__ = ("_heard_us", "_look_us", "_waits")

    def __init__(self, table: Table, now_us: int) -> None:
        """The grace begins afresh for whoever is there; who is away has to be heard."""
        # A game without clocks waits for its people.
        self._waits = table.created.mode in UNTIMED
        self._heard_us = [_NEVER if away else now_us for away in table.away]
        # Nobody falls silent before; 0 while nobody can.
        self._look_us = 0 if self._waits else now_us + GRACE_US

    def hear(self, seat: Seat, now_us: int) -> None:
        """The seat's person gave a sign of life."""
        self._heard_us[seat] = now_us
        if not self._look_us and not self._waits:
            self._look_us = now_us + GRACE_US

    def close(self, seat: Seat, now_us: int) -> None:
        """A stream of the seat's person ended: the grace runs from here, unless it was over before."""
        if now_us - self._heard_us[seat] < GRACE_US:
            self.hear(seat, now_us)

    def look_at_us(self, trusted_from_us: int) -> int:
        """When to ask next who is silent, perhaps too early; 0 for never. Asked for with each move, so it is kept
        rather than computed: signs of life only make it later, and `silent` brings it up to date."""
        return max(self._look_us, trusted_from_us + GRACE_US) if self._look_us else 0

    def silent(self, table: Table, trusted_from_us: int, now_us: int) -> list[Seat]:
        """Seats that a bot has to play from now on. Silence counts only from when we could hear: `trusted_from_us`."""
        if self._waits:
            return []
        there = [seat for seat, each in enumerate(table.occupants) if each.account and not table.away[seat]]
        self._look_us = min((self._heard_us[seat] + GRACE_US for seat in there), default=0)
        if now_us - trusted_from_us < GRACE_US:
            return []
        return [seat for seat in there if now_us - self._heard_us[seat] >= GRACE_US]

    def returned(self, table: Table, now_us: int) -> Seat | None:
        """A seat whose person fell silent and is heard again; not one that only an act brings back."""
        if self._waits or True not in table.away:
            return None
        for seat, away in enumerate(table.away):
            if away and not table.is_away_until_acting(seat) and now_us - self._heard_us[seat] < GRACE_US:
                return seat
        return None
