"""Tickets and tables of quick play, as the database has them, and when a table is dealt."""

from collections.abc import Collection
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from rules import registry
from rules.values import value
from services.matchmaker.domain.pairing import ANSWERS_US, DEALS_AFTER_US

# A ticket ends when its player was not heard for so long.
GONE_US: Final = 10_000_000


class Pool(NamedTuple):
    """All who look for a table of one game; players of all its rooms may meet, so that it is formed as a whole."""

    game_type: str
    variant: str

    @property
    def capacity(self) -> int:
        """Seats at each of its tables."""
        game = registry.game(self.game_type)
        assert game is not None
        return game.quick_play[self.variant]


POOLS: Final = tuple(Pool(game.game_type, variant) for game in registry.GAMES for variant in game.quick_play)


class State(IntEnum):
    """How far a ticket is."""

    WAITING = 1
    SEATED = 2
    # Its table is being dealt: nobody comes or goes any more.
    DEALING = 3
    PLAYING = 4


@value
class QuickTicket:
    """A player's wish to play, until the game ends."""

    ticket_id: UUID
    account: UUID
    guest: bool
    pool: Pool
    room: int
    # Empty for none.
    coffee: str
    rank: float
    # Accounts that it is not seated with.
    companions: tuple[UUID, ...]
    queued_at_us: int
    state: State = State.WAITING
    table_id: UUID | None = None
    # The order of joining.
    place: int = 0
    answered: bool = False
    game_id: UUID | None = None
    # Another one whenever anything of this changes; the store's own.
    mark: int = 0


@value
class QuickTable:
    """A table until its game begins."""

    table_id: UUID
    pool: Pool
    room: int
    rank: float
    opened_at_us: int
    # Both are there as soon as the game has been prepared.
    game_id: UUID | None = None
    commitment: bytes = b""
    dealing: bool = False

    @property
    def deals_at_us(self) -> int:
        """When it deals by itself."""
        return self.opened_at_us + DEALS_AFTER_US


def is_due(table: QuickTable, seated: Collection[QuickTicket], full_since_us: int | None, now_us: int) -> bool:
    """Whether a table is to be dealt now: it has waited long enough, or it is full and everybody has answered."""
    if table.game_id is None or not seated:
        return False
    if now_us >= table.deals_at_us:
        return True
    if full_since_us is None:
        return False
    return now_us >= full_since_us + ANSWERS_US or all(ticket.answered for ticket in seated)
