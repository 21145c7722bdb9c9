"""The builds of the projection: one is live, and another may be made beside it."""

from typing import Final, NamedTuple

import asyncpg
import structlog

from chassis.database import Session
from services.league.app.rebuild import Difference
from services.league.projections.bulk import BULK_SECONDS
from services.league.projections.games import LEAVER_COLUMNS, RESULT_COLUMNS

log = structlog.get_logger(__name__)

# By table: the columns that make a row the same row, an id first, and those that are compared besides.
_TABLES: Final = {
    "seat_result": (RESULT_COLUMNS[:2], RESULT_COLUMNS[2:]),
    "place_count": (("account_id", "game_type", "place"), ("games",)),
    "left_game": (LEAVER_COLUMNS[:2], LEAVER_COLUMNS[2:]),
    "daily_attempt": (("account_id", "day", "game_type"), ("fact_no", "game_id")),
    "progress": (("account_id",), ("xp", "last_fact", "last_podium", "before_fact", "before_podium")),
    "prize": (
        ("game_id", "seat"),
        ("account_id", "week", "coins", "finished_us", "fact_no", "refund_fact_no"),
    ),
    "member_class": (("account_id",), ("class",)),
    "score": (("account_id", "board"), ("points", "reached_us")),
}
# What follows from other tables of the build, and is an index rather than a statement.
_INDEXES: Final = ("score_block",)
TABLES: Final = (*_TABLES, *_INDEXES)

# The consumers wait while rows are compared. So they are first by their hashes of 64 bits, put together by groups that
# the first of the key decides: a row that differs, or that only one of the two has, makes its group differ. The rows of
# such groups are then compared one by one. Postgres makes groups in several processes at once.
_GROUPS: Final = 1_024


def _group(key: tuple[str, ...]) -> str:
    return f"uuid_hash({key[0]}) & {_GROUPS - 1}"


def _hashed(table: str, key: tuple[str, ...], values: tuple[str, ...]) -> str:
    def groups(build: str) -> str:
        return f"""
            select {_group(key)} as number, count(*) as rows,
                   bit_xor(hash_record_extended(row({", ".join((*key, *values))}), 0)) as hash
            from {table} where build = {build} group by number"""

    return f"""
        select coalesce(sum(before.rows) filter (where not differs), 0)::bigint,
               array_agg(number) filter (where differs)
        from ({groups("$1")}) before full join ({groups("$2")}) after using (number)
        cross join lateral (
            select (before.hash, before.rows) is distinct from (after.hash, after.rows) as differs
        ) compared"""


def _compared(table: str, key: tuple[str, ...], values: tuple[str, ...]) -> str:
    def rows(build: str) -> str:
        return f"""
            select {", ".join((*key, *values))} from {table} where build = {build} and {_group(key)} = any($3)"""

    return f"""
        select to_jsonb(before)::text as before, to_jsonb(after)::text as after,
               before is distinct from after as differs
        from ({rows("$1")}) before full join ({rows("$2")}) after using ({", ".join(key)})"""


_HASHED: Final = {table: _hashed(table, key, values) for table, (key, values) in _TABLES.items()}
_COMPARED: Final = {table: _compared(table, key, values) for table, (key, values) in _TABLES.items()}

# Enough to see what is wrong; how many there are in all is counted besides.
DIFFERENCES_SHOWN_MAX: Final = 1_000
# Each waits a second for who uses the table.
_DROP_ATTEMPTS: Final = 5


class Comparison(NamedTuple):
    """Two builds side by side."""

    # Of both together, each pair counted once.
    rows: int
    differing: int
    # The first of those that differ.
    shown: list[Difference]


async def live_build(session: Session) -> int:
    """The build that answers.

    For who holds a consumer's checkpoint: a switch waits for that, so that it is still the live one at the commit.
    """
    build = await session.fetchval("select build from live_build")
    assert isinstance(build, int)
    return build


async def begin_build(session: Session) -> int:
    """A build without rows, of which no table has been opened."""
    build = await session.fetchval("insert into build default values returning build")
    assert isinstance(build, int)
    for table in TABLES:
        await session.execute("select make_build_table($1, $2)", table, build)
    return build


def unopened(table: str, build: int) -> str:
    """The name under which a build's rows of a table are put in before that is opened."""
    return f"{table}_{build}"


async def key_table(session: Session, table: str, build: int) -> None:
    """Give a build's rows of a table their key: of those that mean the same, the one of the first fact stays.

    This and what follows it happens in a `bulk` transaction.
    """
    await session.execute("select key_build_table($1, $2)", table, build, timeout=BULK_SECONDS)


async def index_table(session: Session, table: str, build: int) -> None:
    """Give them the other indexes; they may be read meanwhile."""
    await session.execute("select index_build_table($1, $2)", table, build, timeout=BULK_SECONDS)


async def open_table(session: Session, table: str, build: int) -> None:
    """Make them a part of the projection, with key and indexes if they have none yet."""
    await session.execute("select open_build_table($1, $2)", table, build, timeout=BULK_SECONDS)


async def switch(session: Session, build: int) -> None:
    """Make this build the live one."""
    await session.execute("update live_build set build = $1", build)


async def compare(session: Session, build: int) -> Comparison:
    """Hold the live build and this one side by side; in a `bulk` transaction."""
    live = await live_build(session)
    alike = differing = unequal = 0
    shown: list[Difference] = []
    for table, query in _HASHED.items():
        rows, groups = await session.fetchrow(query, live, build, timeout=BULK_SECONDS) or (0, None)
        alike += rows
        if groups:
            counting = f"select count(*), count(*) filter (where differs) from ({_COMPARED[table]}) as compared"
            in_groups, differ = await session.fetchrow(counting, live, build, groups, timeout=BULK_SECONDS) or (0, 0)
            unequal += in_groups
            differing += differ
            showing = f"select before, after from ({_COMPARED[table]}) as compared where differs limit $4"
            room = DIFFERENCES_SHOWN_MAX - len(shown)
            records = await session.fetch(showing, live, build, groups, room, timeout=BULK_SECONDS)
            shown += [Difference(table, record["before"] or "", record["after"] or "") for record in records]
    return Comparison(alike + unequal, differing, shown)


async def drop_dead_builds(session: Session) -> None:
    """Remove every build but the live one; what is in use without pause, or broken off, the next time."""
    dead = await session.fetch("select build from build where build <> (select build from live_build) order by build")
    for (build,) in dead:
        # One table in a transaction: who waits for one must not hold another.
        dropped = [await _drop(session, table, build) for table in TABLES]
        if all(dropped):
            await session.execute("delete from build where build = $1", build)


async def _drop(session: Session, table: str, build: int) -> bool:
    for _ in range(_DROP_ATTEMPTS):
        try:
            await session.execute("select drop_build_table($1, $2)", table, build)
        except asyncpg.LockNotAvailableError:
            continue
        return True
    log.warning("a dead build stays for now: its table is in use", build=build, table=table)
    return False
