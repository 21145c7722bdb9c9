"""What facts of the ledger add to a build: prizes, each in the week in which it counts."""

from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

from chassis.database import Session, uuid_of
from services.league.projections.scores import LeagueScore, Touched

# What was taken back stays so, in whatever order the two are heard of.
_ADD_PRIZES: Final = """
    insert into prize (build, game_id, seat, account_id, week, coins, finished_us, fact_no)
    select $1, p.*
    from unnest($2::uuid[], $3::int[], $4::uuid[], $5::date[], $6::bigint[], $7::bigint[], $8::bigint[])
        as p (game_id, seat, account_id, week, coins, finished_us, fact_no)
    on conflict (build, game_id, seat) do update set fact_no = least(prize.fact_no, excluded.fact_no)"""
_DROP_PRIZES: Final = """
    insert into prize (build, game_id, seat, account_id, week, coins, finished_us, refund_fact_no)
    select $1, p.*
    from unnest($2::uuid[], $3::int[], $4::uuid[], $5::date[], $6::bigint[], $7::bigint[], $8::bigint[])
        as p (game_id, seat, account_id, week, coins, finished_us, refund_fact_no)
    on conflict (build, game_id, seat) do update
        set refund_fact_no = least(prize.refund_fact_no, excluded.refund_fact_no)
        -- Its week was closed without the refund otherwise.
        where prize.week = excluded.week"""


class Prize(NamedTuple):
    """A prize that a game of quick play paid, or that went back: a row, by the names of its columns.

    Ids are as the fact has them: the database's driver reads them, and most are never looked at here.
    """

    game_id: str
    seat: int
    account_id: str
    # In which the fact counts.
    week: date
    coins: int
    finished_us: int
    # The ledger's that told of it.
    fact_no: int


async def add_prizes(session: Session, build: int, prizes: Sequence[Prize]) -> Touched:
    """Count prizes in their weeks."""
    return await _put(session, _ADD_PRIZES, build, prizes)


async def drop_prizes(session: Session, build: int, prizes: Sequence[Prize]) -> Touched:
    """Count prizes no more: they were taken back."""
    return await _put(session, _DROP_PRIZES, build, prizes)


async def _put(session: Session, statement: str, build: int, prizes: Sequence[Prize]) -> Touched:
    # A fact that is told twice is one.
    once = {(prize.game_id, prize.seat): prize for prize in reversed(prizes)}.values()
    if once:
        await session.execute(statement, build, *zip(*once, strict=True))
    return {LeagueScore(uuid_of(prize.account_id), prize.week) for prize in once}
