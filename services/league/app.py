"""The use cases of the league service."""

from collections.abc import AsyncGenerator
from typing import NamedTuple, Protocol, TypeAlias
from uuid import UUID

from services.league.domain import Record


class Records(Protocol):
    """Where records are read."""

    async def of(self, account_id: UUID) -> Record:
        """An account's record and the fact that it is of, from one moment; empty for who has played nothing."""


class Progress(NamedTuple):
    """How far a rebuild is: the last facts of the new and of the old projection."""

    fact: int
    head: int


class Difference(NamedTuple):
    """A row that the old and the new projection do not have alike; each as JSON, empty for no such row."""

    table: str
    before: str
    after: str


class Done(NamedTuple):
    """The rebuild is over; both projections stood at `fact` when they were compared."""

    fact: int
    rows: int
    differences: int
    switched: bool


Step: TypeAlias = Progress | Difference | Done


class Rebuilder(Protocol):
    """Who makes the projection anew."""

    def rebuild(self, *, dry_run: bool) -> AsyncGenerator[Step, None]:
        """Make it beside the live one, compare, and switch; `Done` comes last. Refused if one is running."""


class League:
    """Answers what players have reached."""

    def __init__(self, records: Records, rebuilder: Rebuilder) -> None:
        self._records = records
        self._rebuilder = rebuilder

    async def record(self, account_id: UUID) -> Record:
        """Anybody's record, for anybody."""
        return await self._records.of(account_id)

    def rebuild(self, *, dry_run: bool) -> AsyncGenerator[Step, None]:
        """Make the projection anew."""
        return self._rebuilder.rebuild(dry_run=dry_run)
