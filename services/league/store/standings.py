"""Where accounts stand, read from the live build.

Each question is one statement: between two the build may be switched, and that of before is gone at once.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final
from uuid import UUID

import asyncpg

from chassis.database import Pool, refusing_while_away
from services.league.app.standings import (
    NEIGHBOURS_MAX,
    TOP_MAX,
    Around,
    Cause,
    Explained,
    Number,
    OwnWeek,
    Placed,
    Reached,
    StreakOf,
    Xp,
)
from services.league.domain.boards import Board, Contest
from services.league.domain.classes import LeagueClass
from services.league.domain.progress import Outcome, Progress

# Not joined: the planner would count on thousands of them.
_LIVE: Final = "(select build from live_build)"
# How many scores are before one: those of the blocks before its own, and those before it in its own.
_PLACE: Final = """(
    select 1 + coalesce((
        select sum(b.players) from score_block b
        where b.build = s.build and b.board = s.board
          and (b.minus_points, b.reached_us, b.account_id) < (own.minus_points, own.reached_us, own.account_id)
    ), 0)::bigint + (
        select count(*) from score o
        where o.build = s.build and o.board = s.board
          and (o.minus_points, o.reached_us, o.account_id) >= (own.minus_points, own.reached_us, own.account_id)
          and (o.minus_points, o.reached_us, o.account_id) < (s.minus_points, s.reached_us, s.account_id)
    )
    from score_block own
    where own.build = s.build and own.board = s.board
      and (own.minus_points, own.reached_us, own.account_id) <= (s.minus_points, s.reached_us, s.account_id)
    order by own.minus_points desc, own.reached_us desc, own.account_id desc limit 1
)"""
_PLAYERS: Final = f"""
    coalesce((select sum(players) from score_block k where k.build = {_LIVE} and k.board = board.board), 0)::bigint"""
# At friendly tables and in the league a week is over when it was closed, and a day when nobody can play it any more.
_CLOSED: Final = "board.contest <> 'daily' and exists (select from week_close where week = board.begins)"

_REACHED: Final = f"""
    select a.account_id, p.xp, p.last_fact, p.last_podium, p.before_fact, p.before_podium,
           coalesce(c.class, 0) as class, s.points, s.reached_us, {_PLACE} as place, {_PLAYERS} as players,
           moment.number
    from (
        -- How many transactions had ended by now: whatever changes a standing raises it.
        select pg_snapshot_xmax(s)::text::bigint - (select count(*) from pg_snapshot_xip(s)) as number
        from pg_current_snapshot() s
    ) moment
    cross join unnest($1::uuid[]) with ordinality as a (account_id, number)
    left join progress p on p.build = {_LIVE} and p.account_id = a.account_id
    left join member_class c on c.build = {_LIVE} and c.account_id = a.account_id
    left join board on board.contest = 'league' and board.begins = $2
        and board.division = ($3::text[])[coalesce(c.class, 0) + 1]
    left join score s on s.build = {_LIVE} and s.board = board.board and s.account_id = a.account_id
    order by a.number"""
_DELETED: Final = "select exists (select from deleted_account where account_id = $1)"
_CLASS: Final = f"""
    select class from member_class where build = {_LIVE} and account_id = $1"""
_GONE: Final = "exists (select from deleted_account d where d.account_id = lines.account_id)"
_KNOWN: Final = f"""
    known as (
        select {_LIVE} as build, board.board, {_PLAYERS} as players, {_CLOSED} as closed
        from board
        where contest = $1 and begins = $2 and division = $3
    )"""
# One's own line with its place, and the lines around it, in order; without accounts if there is no such line. As many
# as anybody may ask for: with a limit that it does not know the planner would plan each call anew.
_AROUND: Final = f"""
    with {_KNOWN}, own as (
        select s.*, {_PLACE} as place
        from known join score s on s.build = known.build and s.board = known.board and s.account_id = $4
    ), lines as (
        select account_id, points, reached_us, minus_points from own
        union all
        select o.* from own cross join lateral (
            select account_id, points, reached_us, minus_points from score s
            where s.build = own.build and s.board = own.board
              and (s.minus_points, s.reached_us, s.account_id) < (own.minus_points, own.reached_us, own.account_id)
            order by s.minus_points desc, s.reached_us desc, s.account_id desc limit {NEIGHBOURS_MAX}
        ) o
        union all
        select o.* from own cross join lateral (
            select account_id, points, reached_us, minus_points from score s
            where s.build = own.build and s.board = own.board
              and (s.minus_points, s.reached_us, s.account_id) > (own.minus_points, own.reached_us, own.account_id)
            order by s.minus_points, s.reached_us, s.account_id limit {NEIGHBOURS_MAX}
        ) o
    )
    select known.players, known.closed, own.place, lines.account_id, lines.points, lines.reached_us, {_GONE} as gone
    from known left join own on true left join lines on true
    order by lines.minus_points, lines.reached_us, lines.account_id"""
_TOP: Final = f"""
    with {_KNOWN}
    select known.players, known.closed, lines.account_id, lines.points, lines.reached_us, {_GONE} as gone
    from known left join lateral (
        select account_id, points, reached_us, minus_points from score s
        where s.build = known.build and s.board = known.board
        order by minus_points, reached_us, account_id limit {TOP_MAX}
    ) lines on true
    order by lines.minus_points, lines.reached_us, lines.account_id"""
_OWN_WEEKS: Final = f"""
    select board.begins, board.division, {_PLACE} as place, s.points, {_PLAYERS} as players, {_CLOSED} as closed
    from score s join board on board.board = s.board
    where s.build = {_LIVE} and s.account_id = $1 and board.contest = 'league' and board.begins < $2
    order by board.begins desc limit $3"""


def _explained(total: str, causes: str) -> str:
    """A number and its causes in one statement; without causes their part is null."""
    return f"""
        select number.total, cause.*
        from (select coalesce(({total}), 0)::bigint as total) number left join lateral ({causes}) cause on true
        order by cause.fact desc"""


_POINTS: Final = f"""
    select points from score join board using (board) where build = {_LIVE} and account_id = $1 and begins = $4"""
_EXPLAINED_XP: Final = _explained(
    f"select xp from progress where build = {_LIVE} and account_id = $1",
    f"""
    select game_id, fact_no as fact, finished_us, xp as amount, false as taken_back, coalesce(podium, false) as podium
    from seat_result
    where build = {_LIVE} and account_id = $1 and fact_no < $2 and xp > 0
    order by fact_no desc limit $3""",
)
# One is on one board of a week of the league, whatever the class was.
_EXPLAINED_LEAGUE: Final = _explained(
    f"{_POINTS} and contest = 'league'",
    f"""
    select game_id, coalesce(fact_no, refund_fact_no) as fact, finished_us,
           case when refund_fact_no is null then coins else 0 end as amount,
           refund_fact_no is not null as taken_back, true as podium
    from prize
    where build = {_LIVE} and account_id = $1 and coalesce(fact_no, refund_fact_no) < $2 and week = $4
    order by fact desc limit $3""",
)
_EXPLAINED_FRIENDLY: Final = _explained(
    f"{_POINTS} and contest = 'friendly'",
    f"""
    select game_id, fact_no as fact, finished_us, friendly_points as amount, false as taken_back, false as podium
    from seat_result
    where build = {_LIVE} and account_id = $1 and fact_no < $2 and friendly_week = $4 and friendly_points > 0
    order by fact_no desc limit $3""",
)
_EXPLAINED_DAILY: Final = _explained(
    f"{_POINTS} and contest = 'daily' and division = $5",
    f"""
    select r.game_id, r.fact_no as fact, r.finished_us, r.daily_score as amount, false as taken_back, false as podium
    from daily_attempt a
    join seat_result r on r.build = a.build and r.game_id = a.game_id and r.account_id = a.account_id
    where a.build = {_LIVE} and a.account_id = $1 and a.day = $4 and a.game_type = $5
      and r.fact_no < $2 and r.daily_score is not null
    limit $3""",
)
# No number: what made it what it is.
_EXPLAINED_STREAK: Final = _explained(
    "0",
    f"""
    select * from (
        select game_id, fact_no as fact, finished_us, 0 as amount, false as taken_back, podium
        from seat_result where build = {_LIVE} and account_id = $1 and podium is not null
        union all
        select game_id, fact_no, finished_us, 0, false, false
        from left_game where build = {_LIVE} and account_id = $1
    ) both_kinds
    where fact < $2
    order by fact desc limit least($3, 2)""",
)


class PostgresStandings:
    """Implements `app.standings.Standings`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def now_us(self) -> int:
        """The database's time."""
        with refusing_while_away():
            now: int = await self._pool.fetchval("select (extract(epoch from levata_now()) * 1000000)::bigint")
        return now

    async def reached(self, accounts: Sequence[UUID], week: date) -> list[Reached]:
        """Of each account, in the order asked."""
        labels = [each.label for each in LeagueClass]
        with refusing_while_away():
            rows = await self._pool.fetch(_REACHED, accounts, week, labels)
        return [
            Reached(
                row["account_id"],
                _progress(row),
                LeagueClass(row["class"]),
                None
                if row["points"] is None
                else Placed(row["place"], row["account_id"], row["points"], row["reached_us"]),
                row["players"],
                row["number"],
            )
            for row in rows
        ]

    async def is_deleted(self, account: UUID) -> bool:
        """Whether an account is no more."""
        with refusing_while_away():
            return bool(await self._pool.fetchval(_DELETED, account))

    async def class_of(self, account: UUID) -> LeagueClass:
        """An account's class."""
        with refusing_while_away():
            return LeagueClass(await self._pool.fetchval(_CLASS, account) or 0)

    async def around(self, board: Board, account: UUID, neighbours: int) -> Around:
        """An account's line and its neighbours'."""
        with refusing_while_away():
            rows = await self._pool.fetch(_AROUND, *_key(board), account)
        own = next((nth for nth, row in enumerate(rows) if row["account_id"] == account), 0)
        first = max(0, own - neighbours)
        return _part(rows[first : own + neighbours + 1], (rows[own]["place"] or 0) - own + first if rows else 0)

    async def top(self, board: Board, limit: int) -> Around:
        """The first lines."""
        with refusing_while_away():
            rows = await self._pool.fetch(_TOP, *_key(board))
        return _part(rows[:limit], 1)

    async def weeks(self, account: UUID, before: date, limit: int) -> list[OwnWeek]:
        """Weeks of the league in which an account counted, the latest first."""
        with refusing_while_away():
            rows = await self._pool.fetch(_OWN_WEEKS, account, before, limit)
        return [
            OwnWeek(
                row["begins"],
                LeagueClass[row["division"].upper()],
                row["place"],
                row["points"],
                row["players"],
                row["closed"],
            )
            for row in rows
        ]

    async def causes(self, account: UUID, number: Number, before_fact: int, limit: int) -> Explained:
        """What a number is made of, the latest first."""
        query, arguments = _explaining(number)
        with refusing_while_away():
            rows = await self._pool.fetch(query, account, before_fact, limit + 1, *arguments)
        causes = [Cause(*cause) for _, *cause in rows if cause[0] is not None]
        return Explained(rows[0]["total"], causes[:limit], more=len(causes) > limit)


def _explaining(number: Number) -> tuple[str, tuple[object, ...]]:
    match number:
        case Xp():
            return _EXPLAINED_XP, ()
        case StreakOf():
            return _EXPLAINED_STREAK, ()
        case Board(Contest.LEAGUE, week, _):
            return _EXPLAINED_LEAGUE, (week,)
        case Board(Contest.FRIENDLY, week, _):
            return _EXPLAINED_FRIENDLY, (week,)
        case Board(Contest.DAILY, day, game_type):
            return _EXPLAINED_DAILY, (day, game_type)
        case _:
            # A contest that has no facts.
            raise AssertionError(number)


def _key(board: Board) -> tuple[str, date, str]:
    return board.contest.value, board.begins, board.division


def _part(rows: Sequence[asyncpg.Record], first: int) -> Around:
    """A part of a leaderboard from a place on: no row is a board that there is not, one without account has no line."""
    if not rows:
        return Around((), 0, closed=False)
    lines = [
        Placed(place, None if row["gone"] else row["account_id"], row["points"], row["reached_us"])
        for place, row in enumerate(rows, start=first)
        if row["account_id"] is not None
    ]
    return Around(lines, rows[0]["players"], rows[0]["closed"])


def _progress(row: asyncpg.Record) -> Progress:
    pairs = ((row["last_fact"], row["last_podium"]), (row["before_fact"], row["before_podium"]))
    return Progress(row["xp"] or 0, tuple(Outcome(fact, podium) for fact, podium in pairs if fact is not None))
