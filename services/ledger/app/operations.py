"""What operators do with the ledger: balances made anew, and the audit of what games moved."""

from collections.abc import AsyncGenerator
from typing import NamedTuple, Protocol, TypeAlias
from uuid import UUID

from services.ledger.domain.journal import Balance, Currency, Transfer


class BalanceDifference(NamedTuple):
    """A balance that the transfers do not explain; None for no such row."""

    account: UUID
    currency: Currency
    before: Balance | None
    after: Balance | None


class Rebuilt(NamedTuple):
    """What a rebuild found."""

    # Those that the first, long reading saw.
    transfers: int
    balances: int
    differences: tuple[BalanceDifference, ...]
    switched: bool


class Progress(NamedTuple):
    """How far the audit is: the last fact that it has read, and the last one that it will."""

    fact: int
    head: int


class EntryDifference(NamedTuple):
    """An entry that is not as it should be; None for one that is not there, or should not be."""

    key: str
    expected: tuple[Transfer, ...] | None
    found: tuple[Transfer, ...] | None


class Audited(NamedTuple):
    """What the audit saw."""

    fact: int
    games: int
    entries: int
    differences: int
    # Facts that are parked have had no effect, and are expected to have none.
    parked: int


Step: TypeAlias = Progress | EntryDifference | Audited


class Operations(Protocol):
    """What the outside does for operators."""

    async def rebuild(self, *, dry_run: bool) -> Rebuilt:
        """Make balances anew from the transfers and put right what differs. Refused if that is under way."""
        ...

    def audit(self) -> AsyncGenerator[Step, None]:
        """Compare what games moved with what follows from their facts; `Audited` comes last."""
        ...
