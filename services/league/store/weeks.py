"""Closing a week in Postgres: one transaction in which nobody else adds anything."""

from collections.abc import Sequence
from datetime import date
from typing import Final
from uuid import UUID

import structlog
from levata.league.v1 import facts_pb2

from chassis.database import Pool, Session
from chassis.facts import publish
from chassis.log import NewFact
from services.league.app.closing import DueWeek, Now
from services.league.app.standings import Moved, nobody_is_told
from services.league.domain.terms import Terms
from services.league.domain.weeks import Close, HeardUpTo
from services.league.projections.builds import live_build
from services.league.projections.bulk import BULK_SECONDS, bulk
from services.league.projections.classes import ClosedClass, Move, close_classes, move_later_scores
from services.league.store import closes
from services.league.store.closes import Logs
from services.league.store.names import GAMES_CONSUMER, LEDGER_CONSUMER

log = structlog.get_logger(__name__)

# Of hundreds of thousands who move: in one statement.
PUBLISH_FACTS: Final = 10_000

# Whoever adds to the projection holds one of them.
_LOCK: Final = """
    select consumer, incarnation, last from consumer_checkpoint
    where consumer = any($1) order by consumer for update"""
_NOW: Final = """
    select (extract(epoch from levata_now()) * 1000000)::bigint, (select max(week) from week_close)"""
_MISSING: Final = "select fact_no from parked_fact where consumer = $1 and fact_no <= $2"


class PostgresWeeks:
    """Implements `app.closing.Weeks`."""

    def __init__(self, pool: Pool, terms: Terms, moved: Moved = nobody_is_told) -> None:
        self._pool = pool
        self._terms = terms
        self._moved = moved

    async def now(self) -> Now:
        """How things stand."""
        row = await self._pool.fetchrow(_NOW)
        assert row is not None
        return Now(*row)

    async def close(self, due: DueWeek) -> bool:
        """Close a week, unless something of it has not been counted yet; whether it is closed now, by whomever."""
        async with self._pool.acquire() as session, bulk(session):
            heard = {
                row["consumer"]: (row["incarnation"], row["last"])
                for row in await session.fetch(_LOCK, [GAMES_CONSUMER, LEDGER_CONSUMER], timeout=BULK_SECONDS)
            }
            # Whoever was here before has closed it.
            last = await closes.last_closed(session)
            if last is not None and last >= due.week:
                return True
            games = _reached(heard.get(GAMES_CONSUMER), due.games.incarnation, due.games.last)
            ledger = _reached(heard.get(LEDGER_CONSUMER), due.ledger.incarnation, due.ledger.last)
            if games is None or ledger is None:
                return False
            close = Close(
                due.week,
                HeardUpTo(due.games.last, await _missing(session, GAMES_CONSUMER, due.games.last)),
                # All that was heard has been counted, be it more than was asked for.
                HeardUpTo(ledger, await _missing(session, LEDGER_CONSUMER, ledger)),
            )
            logs = Logs(due.games.incarnation, due.ledger.incarnation)
            await closes.append(session, close, logs, list(due.ledger.unpaid_facts))
            build = await live_build(session)
            classes, moves = await close_classes(session, build, due.week, self._terms)
            await move_later_scores(session, build, due.week, moves)
            told = [*_moved(due.week, moves), _closed(close, classes)]
            for start in range(0, len(told), PUBLISH_FACTS):
                await publish(session, told[start : start + PUBLISH_FACTS])
        log.info(
            "week closed",
            week=due.week.isoformat(),
            games_fact=close.games.fact,
            ledger_fact=close.ledger.fact,
            counted=sum(each.counted for each in classes),
            moved=len(moves),
        )
        self._moved([move.account_id for move in moves])
        return True


def _reached(heard: tuple[UUID | None, int] | None, incarnation: UUID, fact: int) -> int | None:
    """How far a log was heard, if that is far enough."""
    if heard is None or heard[0] != incarnation or heard[1] < fact:
        return None
    return heard[1]


async def _missing(session: Session, consumer: str, up_to: int) -> frozenset[int]:
    return frozenset(row["fact_no"] for row in await session.fetch(_MISSING, consumer, up_to))


def _closed(close: Close, classes: Sequence[ClosedClass]) -> NewFact:
    week = close.week.isoformat()
    fact = facts_pb2.LeagueFact(week=week)
    fact.week_closed.games_fact = close.games.fact
    fact.week_closed.ledger_fact = close.ledger.fact
    for each in classes:
        fact.week_closed.classes.add(
            name=each.league_class.label, counted=each.counted, podium_account_ids=map(str, each.podium)
        )
    return NewFact(f"levata.league.week_closed.{week}", fact.SerializeToString())


def _moved(week: date, moves: Sequence[Move]) -> list[NewFact]:
    told = []
    for move in moves:
        change = facts_pb2.ClassChangedFact(to=move.after.label, **{"from": move.before.label})
        fact = facts_pb2.LeagueFact(week=week.isoformat(), account_id=str(move.account_id))
        kind = "promoted" if move.after > move.before else "relegated"
        getattr(fact, kind).CopyFrom(change)
        told.append(NewFact(f"levata.league.{kind}.{move.account_id}", fact.SerializeToString()))
    return told
