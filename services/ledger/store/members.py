"""Accounts with an address, those that are no more, and closed weeks, in Postgres."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Final
from uuid import UUID

from chassis.database import Pool, Session, refusing_while_away
from chassis.gathered import Gathered
from services.ledger.app.ports import Moved, Seen, nobody_is_told
from services.ledger.domain.catalogue import Edition
from services.ledger.domain.grants import WeeklyRank
from services.ledger.domain.journal import Entry, players_of
from services.ledger.store.journal import put_down

_ADD: Final = """
    insert into member (account_id, registered_at, mondays_until)
    values ($1, timestamptz 'epoch' + $2::bigint * interval '1 microsecond', $3)
    on conflict do nothing returning true"""
_DELETE: Final = """
    insert into deleted_account (account_id, deleted_at)
    values ($1, timestamptz 'epoch' + $2::bigint * interval '1 microsecond')
    on conflict do nothing"""
_DELETED: Final = "select account_id from deleted_account where account_id = any($1)"
_SEEN: Final = """
    select a.account, a.monday,
           exists (select from deleted_account where account_id = a.account),
           exists (select from member where account_id = a.account and mondays_until < a.monday)
    from unnest($1::uuid[], $2::date[]) a (account, monday)"""
# Who has no address is known by what was won.
_KNOWN: Final = """
    select not is_house($1)
       and (exists (select from member where account_id = $1) or exists (select from balance where account = $1))
       and not exists (select from deleted_account where account_id = $1)"""
_DUE: Final = """
    select account_id, mondays_until from member m
    where account_id = any($1) and mondays_until < $2
      and not exists (select from deleted_account d where d.account_id = m.account_id)"""
_LOCK_DUE: Final = _DUE + " order by account_id for update of m"
_MONDAY: Final = "update member set mondays_until = $2 where account_id = any($1)"
_CLOSE_WEEK: Final = """
    insert into closed_week (week, catalogue) values ($1, $2) on conflict do nothing returning true"""
_ADD_RANKS: Final = """
    insert into weekly_rank (week, account_id, league_class, rank)
    select $1, * from unnest($2::uuid[], $3::text[], $4::smallint[])"""


async def add_member(session: Session, account: UUID, registered_at_us: int, day: date) -> bool:
    """Keep an account that has an address now; whether it is new. Mondays after this day count."""
    return bool(await session.fetchval(_ADD, account, registered_at_us, day))


async def delete_account(session: Session, account: UUID, deleted_at_us: int) -> None:
    """Remember that an account is no more, a guest's too."""
    await session.execute(_DELETE, account, deleted_at_us)


async def deleted_among(session: Session, accounts: Sequence[UUID]) -> frozenset[UUID]:
    """Those that are no more."""
    return frozenset(row["account_id"] for row in await session.fetch(_DELETED, accounts))


async def close_week(session: Session, week: date, edition: Edition) -> bool:
    """Whether a week's rewards are to be paid now: once, and by this catalogue."""
    return bool(await session.fetchval(_CLOSE_WEEK, week, edition.hash))


async def add_ranks(session: Session, week: date, ranks: Mapping[UUID, WeeklyRank]) -> None:
    """Keep what the rewards of a week were for."""
    await session.execute(
        _ADD_RANKS,
        week,
        list(ranks),
        [each.league_class for each in ranks.values()],
        [each.rank for each in ranks.values()],
    )


class PostgresMembers:
    """Implements `app.ports.Members`."""

    def __init__(self, pool: Pool, moved: Moved = nobody_is_told) -> None:
        self._pool = pool
        self._moved = moved
        # Asked by every call of a player's.
        self._seen = Gathered(self._read_seen)

    async def seen(self, account: UUID, monday: date) -> Seen:
        """What there is to know of an account that calls."""
        return await self._seen.of((account, monday))

    async def _read_seen(self, asked: Sequence[tuple[UUID, date]]) -> dict[tuple[UUID, date], Seen]:
        with refusing_while_away():
            rows = await self._pool.fetch(_SEEN, *zip(*asked, strict=True))
        return {(account, monday): Seen(deleted, due) for account, monday, deleted, due in rows}

    async def is_known(self, account: UUID) -> bool:
        """Whether the ledger has heard of an account that is still there."""
        with refusing_while_away():
            return bool(await self._pool.fetchval(_KNOWN, account))

    async def bring_mondays(
        self, accounts: Sequence[UUID], monday: date, entries_of: Callable[[UUID, date], Sequence[Entry]]
    ) -> None:
        """Put down what Mondays up to this one bring."""
        with refusing_while_away():
            # Almost always nobody's is due.
            if not await self._pool.fetch(_DUE, accounts, monday):
                return
            async with self._pool.acquire() as session, session.transaction():
                due = await session.fetch(_LOCK_DUE, accounts, monday)
                entries = [entry for account, until in due for entry in entries_of(account, until)]
                decided = await put_down(session, entries)
                assert all(each.outcome.stands for each in decided), "a Monday was brought twice"
                await session.execute(_MONDAY, [row["account_id"] for row in due], monday)
        self._moved(players_of(entries))
