"""Reading one's own money: the statement in pages, and what balances are made of."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from services.ledger.domain.journal import Balance, Cause, Currency
from services.ledger.domain.statement import Event, Line, lines_of


class Excerpt(NamedTuple):
    """Some of what happened, and what the account has: all of one moment."""

    # The newest first.
    events: Sequence[Event]
    balances: Mapping[Currency, int]


class Part(NamedTuple):
    """All changes of a balance that have the same sort of cause."""

    currency: Currency
    # With an empty id: of many.
    cause: Cause
    amount: int
    # How many there were.
    changes: int


class Held(NamedTuple):
    """What is held back for a game."""

    currency: Currency
    game_id: str
    amount: int
    since_us: int


class Explained(NamedTuple):
    """What balances are made of: all of one moment."""

    balances: Mapping[Currency, Balance]
    parts: Sequence[Part]
    held: Sequence[Held]


class Statements(Protocol):
    """What happened to the balances of accounts. Refused while the ledger is away."""

    async def read(self, account: UUID, before: int | None, limit: int) -> Excerpt:
        """The newest events of an account, of those with lower numbers than `before`."""
        ...

    async def explain(self, account: UUID) -> Explained:
        """What all balances of an account are made of."""
        ...


class Mark(NamedTuple):
    """Where a page of the statement begins."""

    # Entries with lower numbers are on it.
    before: int
    # What the account had when the newest of them had happened. Nothing changes that afterwards.
    balances: Mapping[Currency, int]


class Page(NamedTuple):
    """A page of the statement."""

    events: Sequence[tuple[Event, Sequence[Line]]]
    # None after the last page.
    next: Mark | None


async def page(statements: Statements, account: UUID, mark: Mark | None, size: int) -> Page:
    """The page at a mark, or the first one."""
    read = await statements.read(account, None if mark is None else mark.before, size + 1)
    events = read.events[:size]
    lines, balances = lines_of(events, read.balances if mark is None else mark.balances)
    is_last = len(read.events) <= size
    return Page(list(zip(events, lines, strict=True)), None if is_last else Mark(events[-1].number, balances))


async def explanation(statements: Statements, account: UUID) -> Explained:
    """What all balances of an account are made of; the parts add up to them."""
    explained = await statements.explain(account)
    for currency in Currency:
        balance = explained.balances.get(currency, Balance())
        made_of = sum(part.amount for part in explained.parts if part.currency is currency)
        held = sum(each.amount for each in explained.held if each.currency is currency)
        assert (made_of, held) == (balance.posted, balance.held), f"{account} has {balance}, not {made_of} and {held}"
    return explained
