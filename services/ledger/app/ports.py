"""What the use cases need of the outside; `store` implements it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date
from typing import NamedTuple, Protocol
from uuid import UUID

from services.ledger.domain.entries import Entrant
from services.ledger.domain.journal import Balance, Currency, Entry, Outcome


class Decided(NamedTuple):
    """What became of an entry, and its number in the ledger; 0 where it is not in it."""

    outcome: Outcome
    number: int
    # What there was too little of, where it is INSUFFICIENT.
    lacking: Currency | None = None


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


class HeldGame(NamedTuple):
    """What is known of a game's entries."""

    # None where the game ended before anybody asked to hold entries.
    input_hash: bytes | None
    # Whether the game began; None while that is not known.
    began: bool | None
    entrants: tuple[Entrant, ...]
    # Who took a seat when it began.
    seated: frozenset[UUID] = frozenset()


class Holding(Protocol):
    """One transaction about the entries of one game, which holds the game's row until it ends."""

    async def known(self) -> HeldGame | None:
        """What was held before; None for a game that is new, and now is this transaction's."""
        ...

    async def put_down(self, entries: Sequence[Entry]) -> list[Decided]:
        """Decide entries; once in a transaction."""
        ...

    async def keep(self, entrants: Sequence[Entrant]) -> None:
        """Keep the answer."""
        ...


class Entries(Protocol):
    """The entries of games. Refused while the ledger is away."""

    def holding(self, game_id: UUID, input_hash: bytes) -> AbstractAsyncContextManager[Holding]:
        """A transaction about this game's entries; rolled back when it is left with an error."""
        ...

    async def unsettled(self, older_than_seconds: int, limit: int) -> list[UUID]:
        """Games whose entries have been held for so long without an end."""
        ...


class Members(Protocol):
    """Accounts with an address. Refused while the ledger is away."""

    async def bring_mondays(
        self, accounts: Sequence[UUID], monday: date, entries_of: Callable[[UUID, date], Sequence[Entry]]
    ) -> None:
        """For accounts that have not had theirs up to `monday`, put down the entries, and remember it.

        `entries_of` is given the account and the day after which its Mondays are due.
        """
        ...
