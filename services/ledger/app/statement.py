"""Reading one's own money: the statement in pages, and what balances are made of."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from services.ledger.domain.journal import Balance, Cause, Currency
from services.ledger.domain.statement import Event, Line, lines_of


class Excerpt(NamedTuple):
    """Some of what happened, and what the account had when the newest of it had happened."""

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

    async def read(self, account: UUID, before: int, limit: int) -> Excerpt:
        """The newest events of an account, of those with lower numbers than `before`: all as of one moment."""
        ...

    async def explain(self, account: UUID) -> Explained:
        """What all balances of an account are made of."""
        ...


class Page(NamedTuple):
    """A page of the statement."""

    events: Sequence[tuple[Event, Sequence[Line]]]
    # The next page has entries with lower numbers; None after the last one.
    before: int | None


async def page(statements: Statements, account: UUID, before: int, size: int) -> Page:
    """The page of entries with lower numbers than `before`."""
    read = await statements.read(account, before, size + 1)
    events = read.events[:size]
    lines = lines_of(events, read.balances)
    return Page(list(zip(events, lines, strict=True)), events[-1].number if len(read.events) > size else None)


async def explanation(statements: Statements, account: UUID) -> Explained:
    """What all balances of an account are made of; the parts add up to them."""
    explained = await statements.explain(account)
    for currency in Currency:
        balance = explained.balances.get(currency, Balance())
        made_of = sum(part.amount for part in explained.parts if part.currency is currency)
        held = sum(each.amount for each in explained.held if each.currency is currency)
        assert (made_of, held) == (balance.posted, balance.held), f"{account} has {balance}, not {made_of} and {held}"
    return explained
