"""A player's statement: what changed the own balances, each time with what it was about."""

from collections.abc import Mapping, Sequence

from rules.values import value
from services.ledger.domain.grants import WeeklyRank
from services.ledger.domain.journal import Cause, Changes, Currency


@value
class Played:
    """What is known of a game that an account has to do with; None and 0 for what is not, or not yet."""

    game_type: str | None
    variant: str | None
    room: int
    place: int
    coffee: Currency | None


@value
class Event:
    """An entry as its account sees it."""

    number: int
    at_us: int
    cause: Cause
    changes: Changes
    # Of a game, and of a week's reward.
    played: Played | None = None
    rank: WeeklyRank | None = None


@value
class Line:
    """How one balance changed."""

    currency: Currency
    amount: int
    balance_after: int


def lines_of(events: Sequence[Event], balances: Mapping[Currency, int]) -> list[list[Line]]:
    """The lines of events, the newest first, by the balances after the newest of them."""
    then = dict(balances)
    lines = []
    for event in events:
        lines.append([Line(currency, amount, then.get(currency, 0)) for currency, amount in event.changes.items()])
        for currency, amount in event.changes.items():
            then[currency] = then.get(currency, 0) - amount
    return lines
