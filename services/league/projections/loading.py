"""A build filled in bulk: rows as facts tell them, put in without indexes, and then all that follows from them.

What the consumers do fact by fact (`games`, `prizes`, `scores`, `classes`) is done here for all facts at once, to the
same rows.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from itertools import accumulate
from typing import Final

from chassis.database import Session
from services.league.domain.boards import league_board
from services.league.domain.classes import LeagueClass, movers
from services.league.domain.games import leavers, results
from services.league.domain.terms import Terms
from services.league.projections.builds import TABLES, index_table, key_table, open_table, unopened
from services.league.projections.bulk import BULK_SECONDS
from services.league.projections.games import LEAVER_COLUMNS, RESULT_COLUMNS, Attempt, Played, leaver_row, result_row
from services.league.projections.prizes import Prize
from services.league.projections.scores import BLOCK_SCORES, FIRST, board_numbers

# Games

_ATTEMPT_COLUMNS: Final = ("account_id", "day", "game_type", "fact_no", "game_id")
_PLACE_COUNTS: Final = """
    insert into {place_count} (build, account_id, game_type, place, games)
    select $1, account_id, game_type, place, count(*) from seat_result where build = $1 group by 2, 3, 4"""
# The same account may have left a game and held a seat at its end.
_PROGRESS: Final = """
    insert into {progress} (build, account_id, xp, last_fact, last_podium, before_fact, before_podium)
    with outcome as (
        select account_id, fact_no, podium from seat_result where build = $1 and podium is not null
        union
        select account_id, fact_no, false from left_game where build = $1
    ), latest as (
        select *, row_number() over (partition by account_id order by fact_no desc, podium) as nth from outcome
    ), streak as (
        select account_id,
               max(fact_no) filter (where nth = 1) as last_fact,
               bool_or(podium) filter (where nth = 1) as last_podium,
               max(fact_no) filter (where nth = 2) as before_fact,
               bool_or(podium) filter (where nth = 2) as before_podium
        from latest where nth <= 2 group by account_id
    ), earned as (
        select account_id, sum(xp) as xp from seat_result where build = $1 group by account_id
    )
    select $1, account_id, coalesce(xp, 0), last_fact, last_podium, before_fact, before_podium
    from earned full join streak using (account_id)"""


async def load_games(
    session: Session, build: int, played: Iterable[Played], attempts: Iterable[Attempt], terms: Terms
) -> None:
    """Put in what finished games brought, and attempts at dailies."""
    seats, left = [], []
    for game, week in played:
        seats += [result_row(game, week, result) for result in results(game, terms)]
        left += [leaver_row(game, account) for account in leavers(game)]
    began = [(each.account_id, each.day, each.game_type, each.fact, each.game_id) for each in attempts]
    for table, columns, rows in (
        ("seat_result", RESULT_COLUMNS, seats),
        ("left_game", LEAVER_COLUMNS, left),
        ("daily_attempt", _ATTEMPT_COLUMNS, began),
    ):
        await _copy(session, unopened(table, build), columns, rows)


async def finish_games(session: Session, build: int) -> None:
    """Make what follows from games, all of which have been put in."""
    for table in ("seat_result", "left_game", "daily_attempt"):
        await open_table(session, table, build)
    for table, statement in (("place_count", _PLACE_COUNTS), ("progress", _PROGRESS)):
        await session.execute(_of(build, statement), build, timeout=BULK_SECONDS)
        await open_table(session, table, build)


# Prizes

# What went back, until all prizes are there.
_MAKE_WENT_BACK: Final = f"""
    drop table if exists pg_temp.went_back;
    create temp table went_back as select {", ".join(Prize._fields)} from prize with no data"""
_TAKE_BACK: Final = """
    update {prize} p set refund_fact_no = w.fact_no
    from (select game_id, seat, week, min(fact_no) as fact_no from went_back group by 1, 2, 3) w
    where (p.game_id, p.seat, p.week) = (w.game_id, w.seat, w.week)"""
# Of prizes that were never told of.
_KEEP_REST: Final = """
    insert into {prize} (game_id, seat, account_id, week, coins, finished_us, refund_fact_no)
    select distinct on (game_id, seat) game_id, seat, account_id, week, coins, finished_us, fact_no
    from went_back w where not exists (select from {prize} p where (p.game_id, p.seat) = (w.game_id, w.seat))
    order by game_id, seat, fact_no"""


async def begin_prizes(session: Session) -> None:
    """Before the first prizes are put in; on the session that puts them in."""
    await session.execute(_MAKE_WENT_BACK)


async def load_prizes(session: Session, build: int, paid: Sequence[Prize], went_back: Sequence[Prize]) -> None:
    """Put in prizes, and those that were taken back."""
    await _copy(session, unopened("prize", build), Prize._fields, paid)
    await _copy(session, "went_back", Prize._fields, went_back)


async def finish_prizes(session: Session, build: int) -> None:
    """Take back what was taken back, all prizes having been put in. They can be summed then, but are not opened."""
    for statement in (_TAKE_BACK, _KEEP_REST):
        await session.execute(_of(build, statement), timeout=BULK_SECONDS)
    await session.execute("drop table went_back")
    await key_table(session, "prize", build)


async def index_prizes(session: Session, build: int) -> None:
    """Give finished prizes their other indexes; scores may be made meanwhile."""
    await index_table(session, "prize", build)


async def open_prizes(session: Session, build: int) -> None:
    """Make them a part of the projection."""
    await open_table(session, "prize", build)


# Scores and classes

_FRIENDLY_BOARDS: Final = """
    insert into board (contest, begins, division)
    select distinct 'friendly', friendly_week, '' from seat_result where build = $1 and friendly_points > 0
    on conflict do nothing"""
_FRIENDLY: Final = """
    insert into {score} (build, board, account_id, points, reached_us)
    select $1, b.board, r.account_id, r.points, r.reached_us
    from (
        select account_id, friendly_week, sum(friendly_points) as points, max(finished_us) as reached_us
        from seat_result where build = $1 and friendly_points > 0 group by 1, 2
    ) r
    join board b on b.contest = 'friendly' and b.begins = r.friendly_week and b.division = ''"""
_DAILY_BOARDS: Final = """
    insert into board (contest, begins, division)
    select distinct 'daily', day, game_type from daily_attempt where build = $1
    on conflict do nothing"""
_DAILY: Final = """
    insert into {score} (build, board, account_id, points, reached_us)
    select $1, b.board, a.account_id, r.daily_score, r.finished_us
    from daily_attempt a
    join seat_result r
        on r.build = $1 and r.game_id = a.game_id and r.account_id = a.account_id and r.daily_score is not null
    join board b on b.contest = 'daily' and b.begins = a.day and b.division = a.game_type
    where a.build = $1"""

_WEEKS: Final = "select distinct week from {prize} where refund_fact_no is null"
# Of prizes that have not been opened yet.
_TOTALS: Final = """
    with total as (
        select p.account_id, p.points, p.reached_us, coalesce(c.class, 0) as class
        from (
            select account_id, sum(coins)::bigint as points, max(finished_us) as reached_us
            from {prize} where week = $2 and refund_fact_no is null group by account_id
        ) p
        left join member_class c on c.build = $1 and c.account_id = p.account_id
    )"""
_COUNTED: Final = f"{_TOTALS} select class, count(*) as counted from total group by class"
# Sorts as class and place do where two differ in it: those of very many points do not, nor do equals within 64
# microseconds. Postgres sorts a million rows by one number first in half the time that it takes by several.
_IN_ORDER: Final = """
    class::bigint << 61 | case when points < 1 << 27 then
        ((1 << 27) - 1 - points) << 34
        | least(greatest(reached_us - ($2 - date '1970-01-01') * 86400000000, 0), (1::bigint << 40) - 1) >> 6
    else 0 end"""
_PLACES: Final = f"{_IN_ORDER}, class, points desc, reached_us, account_id"
# In the order of places, so that scores lie and are indexed in it: what is sorted already is sorted quickly.
_LEAGUE: Final = f"""
    {_TOTALS}
    insert into {{score}} (build, board, account_id, points, reached_us)
    select $1, ($3::int[])[class + 1], account_id, points, reached_us from total order by {_PLACES}"""
# By class: the last place that goes up, the last that does not go down, and how many there are before its first.
_MOVE: Final = f"""
    {_TOTALS}
    insert into member_class (build, account_id, class)
    select $1, account_id, class + case when place <= ($3::int[])[class + 1] then 1 else -1 end
    from (
        select account_id, class, row_number() over (order by {_PLACES}) - ($5::int[])[class + 1] as place from total
    ) ranked
    where place <= ($3::int[])[class + 1] or place > ($4::int[])[class + 1]
    on conflict (build, account_id) do update set class = excluded.class"""

_RANK: Final = "s.minus_points, s.reached_us, s.account_id"
_FROM_BLOCK: Final = f"s.board = b.board and ({_RANK}) >= (b.minus_points, b.reached_us, b.account_id)"
# Each block's first is the one so many after that of the block before, found by the index that scores have by then.
_BLOCKS: Final = f"""
    insert into {{score_block}} (build, board, minus_points, reached_us, account_id, players)
    with recursive block (board, minus_points, reached_us, account_id) as (
        select b.board, f.minus_points, f.reached_us::bigint, f.account_id
        from (select distinct board from {{score}}) b, (values {FIRST}) f (minus_points, reached_us, account_id)
        union all
        select b.board, next.* from block b cross join lateral (
            select {_RANK} from {{score}} s where {_FROM_BLOCK} order by {_RANK} offset {BLOCK_SCORES} limit 1
        ) next
    )
    select $1, b.*, case
        when lead(board) over (partition by board order by minus_points, reached_us, account_id) is not null
            then {BLOCK_SCORES}
        else (select count(*) from {{score}} s where {_FROM_BLOCK})
    end
    from block b"""


async def make_scores(session: Session, build: int, closed: Collection[date], terms: Terms) -> None:
    """Make all scores, games and prizes being finished: each closed week's decide about the classes of the next."""
    await open_table(session, "member_class", build)
    for statement in (_FRIENDLY_BOARDS, _FRIENDLY, _DAILY_BOARDS, _DAILY):
        await session.execute(_of(build, statement), build, timeout=BULK_SECONDS)
    weeks = {row["week"] for row in await session.fetch(_of(build, _WEEKS), timeout=BULK_SECONDS)}
    for week in sorted({*closed, *weeks}):
        numbers = await board_numbers(session, [league_board(week, each) for each in LeagueClass])
        boards = [numbers[league_board(week, each)] for each in LeagueClass]
        await session.execute(_of(build, _LEAGUE), build, week, boards, timeout=BULK_SECONDS)
        if week in closed:
            await _move(session, build, week, terms)


async def _move(session: Session, build: int, week: date, terms: Terms) -> None:
    rows = await session.fetch(_of(build, _COUNTED), build, week, timeout=BULK_SECONDS)
    of_class = {row["class"]: row["counted"] for row in rows}
    counted = [of_class.get(each, 0) for each in LeagueClass]
    moving = [movers(each, count, terms.on(week)) for each, count in zip(LeagueClass, counted, strict=True)]
    up = [each.up for each in moving]
    stay = [count - each.down for each, count in zip(moving, counted, strict=True)]
    before = [0, *accumulate(counted[:-1])]
    await session.execute(_of(build, _MOVE), build, week, up, stay, before, timeout=BULK_SECONDS)


async def make_blocks(session: Session, build: int) -> None:
    """Cut the boards into blocks, all scores being there."""
    await index_table(session, "score", build)
    await session.execute(_of(build, _BLOCKS), build, timeout=BULK_SECONDS)
    await open_table(session, "score_block", build)


async def key_scores(session: Session, build: int) -> None:
    """Give scores their key; blocks may be made meanwhile."""
    await key_table(session, "score", build)


async def open_scores(session: Session, build: int) -> None:
    """Make them a part of the projection."""
    await open_table(session, "score", build)


def _of(build: int, statement: str) -> str:
    """A statement about a build's tables under the names that they have before they are opened."""
    return statement.format(**{table: unopened(table, build) for table in TABLES})


async def _copy(session: Session, table: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        await session.copy_records_to_table(table, records=rows, columns=columns, timeout=BULK_SECONDS)
