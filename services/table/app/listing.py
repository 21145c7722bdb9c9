"""A line about a game for a list: who holds which seat, folded from the few commits that tell, not from all moves."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from rules.values import value
from services.table.domain import Commit, Created, Finished, Kind, Mode, Occupant, SeatChanged

# The commits that a line is made of; the log has an index of just these.
TELLING: Final = Kind.CREATED | Kind.SEAT_CHANGED | Kind.FINISHED


@value
class Seating:
    """Who is in a seat, as a list shows it."""

    occupant: Occupant
    away: bool = False
    # Accounts that gave the seat up.
    left: tuple[str, ...] = ()


@value
class Summary:
    """A line about a game."""

    game_id: UUID
    created: Created
    created_at_us: int
    version: int
    seats: tuple[Seating, ...]
    finished: Finished | None

    def is_vacated(self, seat: int) -> bool:
        """As `Table.is_vacated`."""
        seating = self.seats[seat]
        return self.created.mode is Mode.FRIENDLY and bool(seating.left) and not seating.occupant.account

    def has_seated(self, account: str) -> bool:
        """Whether the account holds a seat of the game, or held one."""
        return self.is_seated(account) or any(account in seating.left for seating in self.seats)

    def is_seated(self, account: str) -> bool:
        """Whether the account holds a seat now, or held it at the end."""
        return any(seating.occupant.account == account for seating in self.seats)


def summary(game_id: UUID, version: int, telling: Sequence[Commit]) -> Summary:
    """The line about a game at this version; `telling` are its commits of such kinds, from the first on."""
    opening = telling[0]
    created = opening.events[0]
    assert isinstance(created, Created)
    seats = [Seating(occupant) for occupant in created.seats]
    finished = None
    for commit in telling:
        for event in commit.events:
            match event:
                case SeatChanged(seat, occupant, away):
                    seats[seat] = _changed(seats[seat], occupant, away)
                case Finished():
                    finished = event
    return Summary(game_id, created, opening.decided_at_us, version, tuple(seats), finished)


def _changed(before: Seating, occupant: Occupant, away: bool) -> Seating:
    leaver, left = before.occupant.account, before.left
    if occupant != before.occupant and leaver and leaver not in left:
        left = (*left, leaver)
    return Seating(occupant, away, left)
