"""What happened to the balances of accounts, in Postgres."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import date
from itertools import groupby
from typing import Final
from uuid import UUID

import asyncpg

from chassis.database import Pool, Session, refusing_while_away
from services.ledger.app.statement import Excerpt, Explained, Held, Part
from services.ledger.domain.grants import WEEKLY_REWARD, WeeklyRank
from services.ledger.domain.journal import Balance, Cause, CauseKind, Currency, Transfer, changes
from services.ledger.domain.statement import Event, Played

# As the index has it.
_PLAYER: Final = "case when is_house(t.debit) then t.credit else t.debit end"
_BALANCES: Final = "select currency::text, posted, held from balance where account = $1"
# What is pending has changed nothing yet, and what was let go never did. The bound is said of both tables, because the
# planner does not carry it from one to the other.
_EVENTS: Final = f"""
    with page as (
        select distinct t.number
        from transfer t join entry e using (number)
        where {_PLAYER} = $1 and t.number < $2 and e.number < $2 and e.kind in ('posted', 'post')
        order by t.number desc limit $3
    )
    select e.number, (extract(epoch from e.recorded_at) * 1000000)::bigint as at_us,
           e.cause_kind::text, e.cause_id, e.what, e.reason, t.debit, t.credit, t.currency::text, t.amount
    from page join entry e using (number) join transfer t using (number)
    where {_PLAYER} = $1
    order by e.number desc, t.line"""
# What the account had before all that is newer. Reading it each time costs a page the deeper it lies the more, some
# microseconds for each entry above it; and unlike sums that are handed on from page to page it is always right: what is
# put down about two currencies at once may become visible after what has a higher number.
_NEWER: Final = f"""
    select t.currency::text, sum(case when t.credit = $1 then t.amount else -t.amount end)::bigint
    from transfer t join entry e using (number)
    where {_PLAYER} = $1 and t.number >= $2 and e.number >= $2 and e.kind in ('posted', 'post')
    group by t.currency"""
_PLAYED: Final = """
    select g.game_id, coalesce(s.game_type, e.game_type), coalesce(s.variant, e.variant),
           coalesce(h.room, a.room, 0), coalesce(h.place, 0), nullif(a.coffee, '')
    from unnest($2::uuid[]) g (game_id)
    left join game_entry e using (game_id)
    left join entrant a on a.game_id = g.game_id and a.account_id = $1
    left join settled_game s on s.game_id = g.game_id
    left join settled_seat h on h.game_id = g.game_id and h.account_id = $1"""
_RANKS: Final = "select week, league_class, rank from weekly_rank where account_id = $1 and week = any($2)"
_PARTS: Final = f"""
    select t.currency::text, e.cause_kind::text, e.what,
           sum(case when t.credit = $1 then t.amount else -t.amount end)::bigint, count(*)
    from transfer t join entry e using (number)
    where {_PLAYER} = $1 and e.kind in ('posted', 'post')
    group by t.currency, e.cause_kind, e.what
    order by t.currency, min(t.number)"""
_HELD: Final = f"""
    select t.currency::text, e.cause_id, t.amount, (extract(epoch from e.recorded_at) * 1000000)::bigint
    from transfer t join entry e using (number)
    where {_PLAYER} = $1 and e.kind = 'pending' and not exists (select from entry r where r.resolves = e.key)
    order by t.number, t.line"""


class PostgresStatements:
    """Implements `app.statement.Statements`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def read(self, account: UUID, before: int, limit: int) -> Excerpt:
        """The newest events of an account, of those before a number."""
        async with self._moment() as session:
            balances = {currency: balance.posted for currency, balance in (await _balances(session, account)).items()}
            for currency, amount in await session.fetch(_NEWER, account, before):
                balances[Currency(currency)] -= amount
            rows = await session.fetch(_EVENTS, account, before, limit)
            of_games = {UUID(row["cause_id"]) for row in rows if row["cause_kind"] == CauseKind.GAME}
            of_weeks = {date.fromisoformat(row["cause_id"]) for row in rows if row["cause_kind"] == CauseKind.WEEK}
            played = await _played(session, account, of_games)
            ranks = await _ranks(session, account, of_weeks)
        events = [
            _event(account, list(of_entry), played, ranks) for _, of_entry in groupby(rows, lambda row: row["number"])
        ]
        return Excerpt(events, balances)

    async def explain(self, account: UUID) -> Explained:
        """What all balances of an account are made of."""
        async with self._moment() as session:
            balances = await _balances(session, account)
            parts = await session.fetch(_PARTS, account)
            held = await session.fetch(_HELD, account) if any(each.held for each in balances.values()) else ()
        return Explained(
            balances,
            [
                Part(Currency(currency), Cause(CauseKind(kind), "", what), amount, count)
                for currency, kind, what, amount, count in parts
            ],
            [Held(Currency(currency), game_id, amount, since_us) for currency, game_id, amount, since_us in held],
        )

    @asynccontextmanager
    async def _moment(self) -> AsyncIterator[Session]:
        """A transaction whose statements all see the same."""
        with refusing_while_away():
            async with (
                self._pool.acquire() as session,
                session.transaction(isolation="repeatable_read", readonly=True),
            ):
                yield session


async def _balances(session: Session, account: UUID) -> dict[Currency, Balance]:
    rows = await session.fetch(_BALANCES, account)
    return {Currency(currency): Balance(posted, held) for currency, posted, held in rows}


async def _played(session: Session, account: UUID, games: Collection[UUID]) -> dict[str, Played]:
    rows = await session.fetch(_PLAYED, account, games) if games else ()
    return {
        str(game_id): Played(game_type, variant, room, place, None if coffee is None else Currency(coffee))
        for game_id, game_type, variant, room, place, coffee in rows
    }


async def _ranks(session: Session, account: UUID, weeks: Collection[date]) -> dict[str, WeeklyRank]:
    rows = await session.fetch(_RANKS, account, weeks) if weeks else ()
    return {week.isoformat(): WeeklyRank(league_class, rank) for week, league_class, rank in rows}


def _event(account: UUID, rows: list[asyncpg.Record], played: dict[str, Played], ranks: dict[str, WeeklyRank]) -> Event:
    first = rows[0]
    cause = Cause(CauseKind(first["cause_kind"]), first["cause_id"], first["what"], first["reason"])
    return Event(
        first["number"],
        first["at_us"],
        cause,
        changes(account, [Transfer(r["debit"], r["credit"], Currency(r["currency"]), r["amount"]) for r in rows]),
        played.get(cause.id) if cause.kind is CauseKind.GAME else None,
        ranks.get(cause.id) if cause.kind is CauseKind.WEEK and cause.what == WEEKLY_REWARD else None,
    )
