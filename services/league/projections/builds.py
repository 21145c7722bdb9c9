"""The builds of the projection: one is live, and another may be made beside it."""

from typing import Final, NamedTuple

from chassis.database import Session
from services.league.app.rebuild import Difference

# By table: the columns that make a row the same row, and those that are compared besides.
_TABLES: Final = {
    "seat_result": (
        ("game_id", "seat"),
        (
            "account_id",
            "game_type",
            "place",
            "mode",
            "xp",
            "podium",
            "friendly_points",
            "friendly_week",
            "daily_score",
            "fact_no",
            "finished_us",
        ),
    ),
    "place_count": (("account_id", "game_type", "place"), ("games",)),
    "left_game": (("game_id", "account_id"), ("fact_no", "finished_us")),
    "daily_attempt": (("account_id", "day", "game_type"), ("fact_no", "game_id")),
    "progress": (("account_id",), ("xp", "last_fact", "last_podium", "before_fact", "before_podium")),
    "prize": (
        ("game_id", "seat"),
        ("account_id", "week", "coins", "finished_us", "fact_no", "refund_fact_no"),
    ),
    "member_class": (("account_id",), ("class",)),
    "score": (("board", "account_id"), ("points", "reached_us")),
}
# What follows from other tables of the build, and is an index rather than a statement.
_INDEXES: Final = ("score_block",)


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


async def live_build(session: Session) -> int:
    """The build that answers.

    For who holds a consumer's checkpoint: a switch waits for that, so that it is still the live one at the commit.
    """
    build = await session.fetchval("select build from live_build")
    assert isinstance(build, int)
    return build


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
    for table in (*_TABLES, *_INDEXES):
        while await session.fetchval(_DELETE_DEAD_ROWS.format(table=table)):
            pass
    await session.execute("delete from build where build <> (select build from live_build)")
