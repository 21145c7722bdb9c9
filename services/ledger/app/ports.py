"""What the use cases need of the outside; `store` implements it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date
from typing import NamedTuple, Protocol, TypeAlias
from uuid import UUID

from services.ledger.domain.entries import Entrant
from services.ledger.domain.journal import Balance, Currency, Entry, Outcome, Transfer
from services.ledger.domain.refunds import PlayedGame


class Decided(NamedTuple):
    """What became of an entry, and its number in the ledger; 0 where it is not in it."""

    outcome: Outcome
    number: int
    # What there was too little of, where it is INSUFFICIENT.
    lacking: Currency | None = None


# What is called with accounts whose money may have moved, after the commit.
Moved: TypeAlias = Callable[[Collection[UUID]], None]


def nobody_is_told(accounts: Collection[UUID]) -> None:
    """For a ledger that nobody watches."""


class Owned(NamedTuple):
    """What an account has at one moment."""

    account: UUID
    # Orders moments: a later one has a higher number if anything changed in between.
    number: int
    # Without currencies that it never had.
    balances: dict[Currency, Balance]


class Balances(Protocol):
    """What accounts have. Refused while the ledger is away."""

    async def of(self, accounts: Collection[UUID]) -> list[Owned]:
        """What each of them has, all at the same moment."""
        ...


class Journal(Protocol):
    """Entries of anybody, each decided for itself."""

    async def post(self, entry: Entry) -> Decided:
        """Decide an entry and put it down; answers when it is committed. Refused while the ledger is away.

        Goes on when its caller is cancelled.
        """
        ...

    async def find(self, entry: Entry) -> Decided | None:
        """What `post` would answer because of what was put down before; None if its key is new."""
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

    async def unsettled_count(self, older_than_seconds: float) -> int:
        """How many games' entries have been held for so long without an end."""
        ...

    async def free(self, accounts: Sequence[UUID]) -> Mapping[UUID, Mapping[Currency, int]]:
        """What accounts can spend; what is missing is nothing."""
        ...

    async def unsettled(self, older_than_seconds: float, limit: int) -> list[UUID]:
        """Those of them that are to be asked about now, the oldest first."""
        ...

    async def asked(self, game_id: UUID, again_seconds: float) -> None:
        """Remember that one was asked about: it is to be again after so long."""
        ...


class Seen(NamedTuple):
    """An account that calls."""

    is_deleted: bool
    # Whether Mondays have come since it was given theirs.
    monday_is_due: bool


class Members(Protocol):
    """Accounts with an address. Refused while the ledger is away."""

    async def seen(self, account: UUID, monday: date) -> Seen:
        """What there is to know of an account that calls."""
        ...

    async def is_known(self, account: UUID) -> bool:
        """Whether the ledger has heard of an account, and it is not deleted: it had an address, or something to own."""
        ...

    async def bring_mondays(
        self, accounts: Sequence[UUID], monday: date, entries_of: Callable[[UUID, date], Sequence[Entry]]
    ) -> None:
        """For accounts that have not had theirs up to `monday`, put down the entries, and remember it.

        `entries_of` is given the account and the day after which its Mondays are due.
        """
        ...


class PlayedSeat(NamedTuple):
    """A seat that an account held at the end of a game, for who asks to take the entry back."""

    game: PlayedGame
    seat: int
    prize: int
    # The request that took it back; None for none.
    refund_request: UUID | None
    # Games that finished on the same day and were taken back.
    refunded_that_day: int


class Refunding(Protocol):
    """One transaction about a game's entry; what else this account takes back of the same day waits for its end."""

    async def played(self) -> PlayedSeat | None:
        """What is known of the account's seat; None where the account held none, or the game has not finished."""
        ...

    async def is_used(self, request_id: UUID) -> bool:
        """Whether the account took another game's entry back by this request."""
        ...

    async def moved(self) -> list[Transfer]:
        """All that the game has moved between the account and the house."""
        ...

    async def refunded(self) -> list[Transfer]:
        """What the refund moved."""
        ...

    async def refund(self, played: PlayedSeat, entry: Entry, request_id: UUID, now_us: int) -> Decided:
        """Put the entry down; if it stands keep that it was this request's, and tell the others."""
        ...


class Refunds(Protocol):
    """Entries that are taken back. Refused while the ledger is away."""

    def refunding(self, account: UUID, game_id: UUID) -> AbstractAsyncContextManager[Refunding]:
        """A transaction about this entry; rolled back when it is left with an error."""
        ...
