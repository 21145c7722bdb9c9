"""What the use cases need of the outside; `store` implements it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from services.ledger.domain import Balance, Currency, Entry, Outcome


class Decided(NamedTuple):
    """What became of an entry, and its number in the ledger; 0 where it is not in it."""

    outcome: Outcome
    number: int


class Journal(Protocol):
    """Entries of anybody, each decided for itself."""

    async def post(self, entry: Entry) -> Decided:
        """Decide an entry and put it down; answers when it is committed. Refused while the ledger is away.

        Goes on when its caller is cancelled.
        """
        ...


class Balances(Protocol):
    """Reading balances."""

    async def of(self, account: UUID) -> dict[Currency, Balance]:
        """What an account has, every currency named."""
        ...

    async def of_many(self, accounts: Sequence[UUID]) -> dict[UUID, dict[Currency, Balance]]:
        """The same of several."""
        ...
