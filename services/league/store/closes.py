"""Closes of weeks, as this service's own log of events."""

from datetime import date
from typing import Final, NamedTuple
from uuid import UUID

from chassis.database import Session
from services.league.domain.weeks import NOTHING, Close, HeardUpTo

_CLOSES: Final = "select week, games_fact, games_missing, ledger_fact, ledger_missing from week_close order by week"
_LAST: Final = "select max(week) from week_close"
_CLOSE: Final = """
    insert into week_close (
        week, games_incarnation, games_fact, ledger_incarnation, ledger_fact, games_missing, ledger_missing,
        unpaid_facts
    )
    values ($1, $2, $3, $4, $5, $6, $7, $8)"""


class Logs(NamedTuple):
    """Which logs a close is about."""

    games: UUID
    ledger: UUID


async def closes(session: Session) -> list[Close]:
    """All of them, earlier weeks first."""
    return [
        Close(
            row["week"],
            HeardUpTo(row["games_fact"], frozenset(row["games_missing"])),
            HeardUpTo(row["ledger_fact"], frozenset(row["ledger_missing"])),
        )
        for row in await session.fetch(_CLOSES)
    ]


async def last_closed(session: Session) -> date | None:
    """The last closed week."""
    week: date | None = await session.fetchval(_LAST)
    return week


async def closes_before_now(session: Session) -> list[Close]:
    """The same for facts that are heard now: whatever their numbers, no week was closed with them."""
    return [Close(close.week, NOTHING, NOTHING) for close in await closes(session)]


async def append(session: Session, close: Close, logs: Logs, unpaid_facts: list[int]) -> None:
    """Close a week: the next one, or the database refuses."""
    await session.execute(
        _CLOSE,
        close.week,
        logs.games,
        close.games.fact,
        logs.ledger,
        close.ledger.fact,
        sorted(close.games.missing),
        sorted(close.ledger.missing),
        unpaid_facts,
    )
