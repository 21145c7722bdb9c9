"""Lines of the statement, and what was there after each of them."""

from services.ledger.domain.journal import Cause, CauseKind, Changes, Currency
from services.ledger.domain.statement import Event, Line, lines_of

COIN, GOLD = Currency.COIN, Currency.GOLD
CAUSE = Cause(CauseKind.DAY, "2026-11-12", "test")


def event(number: int, changes: Changes) -> Event:
    return Event(number, 0, CAUSE, changes)


def test_balances_are_those_after_each_line() -> None:
    events = [event(7, {COIN: -30}), event(5, {GOLD: 2, COIN: 100}), event(4, {GOLD: 1})]
    assert lines_of(events, {COIN: 75, GOLD: 3}) == [
        [Line(COIN, -30, 75)],
        [Line(GOLD, 2, 3), Line(COIN, 100, 105)],
        [Line(GOLD, 1, 1)],
    ]


def test_nothing_has_no_lines() -> None:
    assert lines_of([], {COIN: 75}) == []
