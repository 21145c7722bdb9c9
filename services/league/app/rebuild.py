"""The projection made anew: what it says while it goes on, and who does it."""

from collections.abc import AsyncGenerator
from typing import NamedTuple, Protocol, TypeAlias


class Progress(NamedTuple):
    """How far a rebuild is: how many facts of all logs the new and the old projection have."""

    fact: int
    head: int


class Difference(NamedTuple):
    """A row that the old and the new projection do not have alike; each as JSON, empty for no such row."""

    table: str
    before: str
    after: str


class Done(NamedTuple):
    """The rebuild is over; both projections stood at these facts of the logs when they were compared."""

    fact: int
    ledger_fact: int
    rows: int
    differences: int
    switched: bool


Step: TypeAlias = Progress | Difference | Done


class Rebuilder(Protocol):
    """Who makes the projection anew."""

    def rebuild(self, *, dry_run: bool) -> AsyncGenerator[Step, None]:
        """Make it beside the live one, compare, and switch; `Done` comes last. Refused if one is running."""
