"""The projection of finished games, in builds: one is live, and another may be made beside it.

Every effect is unique by what it means, a seat of a game, so that a fact that comes again changes nothing. That is what
lets a rebuild and the consumer meet in the middle.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from chassis.database import Session
from services.league.app import Difference
from services.league.domain import FinishedGame

# The live build is looked up by the statement itself. Who calls holds the consumer's checkpoint, for which a switch
# waits, so that it is still the live one when the effect commits.
_ADD: Final = """
    with target as (
        select coalesce($1::int, (select build from live_build)) as build
    ), fresh as (
        insert into seat_result (build, game_id, seat, account_id, game_type, place)
        select target.build, result.*
        from target, unnest($2::uuid[], $3::int[], $4::uuid[], $5::text[], $6::int[]) as result
        on conflict do nothing
        returning build, account_id, game_type, place
    )
    insert into place_count (build, account_id, game_type, place, games)
    select build, account_id, game_type, place, count(*) from fresh group by build, account_id, game_type, place
    -- In one order, so that nobody waits for each other.
    order by account_id, game_type, place
    on conflict (build, account_id, game_type, place) do update set games = place_count.games + excluded.games"""

# By table: the columns that make a row the same row, and those that are compared besides.
_TABLES: Final = {
    "seat_result": (("game_id", "seat"), ("account_id", "game_type", "place")),
    "place_count": (("account_id", "game_type", "place"), ("games",)),
}


def _compared(table: str, key: tuple[str, ...], values: tuple[str, ...]) -> str:
    columns = ", ".join((*key, *values))
    return f"""
        with before as (select {columns} from {table} where build = (select build from live_build)),
            after as (select {columns} from {table} where build = $1)
        select to_jsonb(before)::text as before, to_jsonb(after)::text as after,
               before is distinct from after as differs
        from before full join after using ({", ".join(key)})"""


_COMPARED: Final = {table: _compared(table, key, values) for table, (key, values) in _TABLES.items()}

_DELETE_DEAD_ROWS: Final = """
    with deleted as (
        delete from {table} where ctid in (
            select ctid from {table} where build <> (select build from live_build) limit 10000
        )
        returning 1
    )
    select count(*) from deleted"""

# Enough to see what is wrong; how many there are in all is counted besides.
DIFFERENCES_SHOWN_MAX: Final = 1_000
# A table of some millions of rows; the consumer waits meanwhile.
COMPARE_SECONDS: Final = 300


class Comparison(NamedTuple):
    """Two builds side by side."""

    # Of both together, each pair counted once.
    rows: int
    differing: int
    # The first of those that differ.
    shown: list[Difference]


async def add(session: Session, games: Iterable[FinishedGame], build: int | None = None) -> None:
    """Count finished games in a build, by default the live one, each seat unless it is there already."""
    rows = [
        (game.game_id, result.seat, result.account_id, game.game_type, result.place)
        for game in games
        for result in game.results
    ]
    if rows:
        await session.execute(_ADD, build, *zip(*rows, strict=True))


async def begin_build(session: Session) -> int:
    """A build without rows."""
    build = await session.fetchval("insert into build default values returning build")
    assert isinstance(build, int)
    return build


async def switch(session: Session, build: int) -> None:
    """Make this build the live one."""
    await session.execute("update live_build set build = $1", build)


async def compare(session: Session, build: int) -> Comparison:
    """Hold the live build and this one side by side, row by row; in a transaction."""
    await session.execute(f"set local statement_timeout = '{COMPARE_SECONDS}s'")
    rows = differing = 0
    shown: list[Difference] = []
    for table, query in _COMPARED.items():
        counting = f"select count(*), count(*) filter (where differs) from ({query}) as compared"
        counts = await session.fetchrow(counting, build, timeout=COMPARE_SECONDS)
        assert counts is not None
        rows += counts[0]
        differing += counts[1]
        if counts[1]:
            showing = f"select before, after from ({query}) as compared where differs limit $2"
            room = DIFFERENCES_SHOWN_MAX - len(shown)
            records = await session.fetch(showing, build, room, timeout=COMPARE_SECONDS)
            shown += [Difference(table, record["before"] or "", record["after"] or "") for record in records]
    return Comparison(rows, differing, shown)


async def drop_dead_builds(session: Session) -> None:
    """Remove every build but the live one, little by little; broken off, it goes on the next time."""
    for table in _TABLES:
        while await session.fetchval(_DELETE_DEAD_ROWS.format(table=table)):
            pass
    await session.execute("delete from build where build <> (select build from live_build)")
