"""Scores on leaderboards, and the places that follow from them.

A score is always made anew from the rows that it sums, so that the order in which they came does not matter. Places are
counted with `score_block`, which says how many scores there are from one score on to the next block's first: the sum of
the blocks before one's own, and those before one in it. A block that grows too big is cut.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Final, TypeAlias
from uuid import UUID

import asyncpg

from chassis.database import Session
from rules.values import value
from services.league.domain.boards import Board, Contest, Score, daily_board, friendly_board, league_board
from services.league.domain.classes import LeagueClass
from services.league.projections.bulk import BULK_SECONDS

# Both the blocks of a board of a million and what is in one of them are counted within a millisecond.
BLOCK_SCORES: Final = 1_000
BLOCK_SCORES_MAX: Final = 2_000

# Before every score.
FIRST: Final = "(-9223372036854775807, 0, '00000000-0000-0000-0000-000000000000'::uuid)"

_BOARDS: Final = """
    select b.board, b.contest, b.begins, b.division
    from unnest($1::text[], $2::date[], $3::text[]) as w (contest, begins, division)
    join board b using (contest, begins, division)"""
_ADD_BOARDS: Final = """
    insert into board (contest, begins, division)
    select * from unnest($1::text[], $2::date[], $3::text[]) order by 1, 2, 3
    on conflict do nothing"""
_FIRST_BLOCKS: Final = f"""
    insert into score_block (build, board, minus_points, reached_us, account_id, players)
    select $1, b.board, f.*, 0 from unnest($2::int[]) as b (board), (values {FIRST}) as f
    where not exists (select from score_block s where s.build = $1 and s.board = b.board)
    on conflict do nothing"""

# A score without points is none. The statement sees the scores as they were before it.
_PUT: Final = """
    with wanted as (
        select * from unnest($2::int[], $3::uuid[], $4::bigint[], $5::bigint[])
            as w (board, account_id, points, reached_us)
    ), old as (
        select s.board, s.minus_points, s.reached_us, s.account_id
        from score s join wanted w on s.build = $1 and s.board = w.board and s.account_id = w.account_id
    ), removed as (
        delete from score s using wanted w
        where s.build = $1 and s.board = w.board and s.account_id = w.account_id and w.points is null
    ), kept as (
        insert into score (build, board, account_id, points, reached_us)
        select $1, board, account_id, points, reached_us from wanted where points is not null
        on conflict (build, board, account_id) do update set points = excluded.points, reached_us = excluded.reached_us
        where (score.points, score.reached_us) is distinct from (excluded.points, excluded.reached_us)
    ), moves as (
        select board, minus_points, reached_us, account_id, -1 as players from old
        union all
        select board, -points, reached_us, account_id, 1 from wanted where points is not null
    ), changed as (
        select b.board, b.minus_points, b.reached_us, b.account_id, sum(m.players) as players
        from moves m cross join lateral (
            select board, minus_points, reached_us, account_id from score_block s
            where s.build = $1 and s.board = m.board
              and (s.minus_points, s.reached_us, s.account_id) <= (m.minus_points, m.reached_us, m.account_id)
            order by s.minus_points desc, s.reached_us desc, s.account_id desc limit 1
        ) b
        group by 1, 2, 3, 4
        having sum(m.players) <> 0
    )
    update score_block b set players = b.players + c.players
    from changed c
    where b.build = $1 and b.board = c.board
      and (b.minus_points, b.reached_us, b.account_id) = (c.minus_points, c.reached_us, c.account_id)
    returning b.board, b.minus_points, b.reached_us, b.account_id, b.players"""

# A block's scores are those from its first on, and before the next block's.
_NEXT_BLOCK: Final = """
    select minus_points, reached_us, account_id from score_block
    where build = $1 and board = $2 and (minus_points, reached_us, account_id) > ($3, $4, $5)
    order by minus_points, reached_us, account_id limit 1"""
_CUT: Final = """
    with members as (
        select minus_points, reached_us, account_id,
               row_number() over (order by minus_points, reached_us, account_id) - 1 as number,
               count(*) over () as players
        from score
        where build = $1 and board = $2 and (minus_points, reached_us, account_id) >= ($3, $4, $5)
          and (minus_points, reached_us, account_id) < ($6, $7, $8)
    ), shortened as (
        update score_block b set players = least(players, $9)
        where build = $1 and board = $2 and (minus_points, reached_us, account_id) = ($3, $4, $5)
    )
    insert into score_block (build, board, minus_points, reached_us, account_id, players)
    select $1, $2, minus_points, reached_us, account_id, least($9, players - number)
    from members where number > 0 and number % $9 = 0"""
_LAST: Final = (2**63 - 1, 2**63 - 1, UUID(int=2**128 - 1))

_LEAGUE_TOTALS: Final = """
    select t.account_id, t.week, coalesce(c.class, 0) as class, p.points, p.reached_us
    from unnest($2::uuid[], $3::date[]) as t (account_id, week)
    left join member_class c on c.build = $1 and c.account_id = t.account_id
    cross join lateral (
        select sum(coins)::bigint as points, max(finished_us) as reached_us from prize
        where build = $1 and account_id = t.account_id and week = t.week and refund_fact_no is null
    ) p"""
_FRIENDLY_TOTALS: Final = """
    select t.account_id, t.week, r.points, r.reached_us
    from unnest($2::uuid[], $3::date[]) as t (account_id, week)
    cross join lateral (
        select sum(friendly_points)::bigint as points, max(finished_us) as reached_us from seat_result
        where build = $1 and account_id = t.account_id and friendly_week = t.week and friendly_points > 0
    ) r"""
_DAILY_TOTALS: Final = """
    select t.account_id, t.day, t.game_type, r.daily_score::bigint as points, r.finished_us as reached_us
    from unnest($2::uuid[], $3::date[], $4::text[]) as t (account_id, day, game_type)
    left join daily_attempt a
        on a.build = $1 and a.account_id = t.account_id and a.day = t.day and a.game_type = t.game_type
    left join seat_result r
        on r.build = $1 and r.game_id = a.game_id and r.account_id = t.account_id and r.daily_score is not null"""


@value
class LeagueScore:
    """What an account won in a week of the league."""

    account_id: UUID
    week: date


@value
class FriendlyScore:
    """What an account reached in a week at friendly tables."""

    account_id: UUID
    week: date


@value
class DailyScore:
    """What an account reached in a day's game."""

    account_id: UUID
    day: date
    game_type: str


Touched: TypeAlias = set[LeagueScore | FriendlyScore | DailyScore]
# None where an account has none.
Scores: TypeAlias = Sequence[tuple[Board, UUID, Score | None]]


async def refresh(session: Session, build: int, touched: Touched) -> None:
    """Make these scores anew from what they sum."""
    scores = [
        *await _league(session, build, [each for each in touched if isinstance(each, LeagueScore)]),
        *await _friendly(session, build, [each for each in touched if isinstance(each, FriendlyScore)]),
        *await _daily(session, build, [each for each in touched if isinstance(each, DailyScore)]),
    ]
    await put(session, build, scores)


async def _league(session: Session, build: int, of: Sequence[LeagueScore]) -> Scores:
    if not of:
        return []
    rows = await session.fetch(_LEAGUE_TOTALS, build, [each.account_id for each in of], [each.week for each in of])
    return [(league_board(row["week"], LeagueClass(row["class"])), row["account_id"], _score(row)) for row in rows]


async def _friendly(session: Session, build: int, of: Sequence[FriendlyScore]) -> Scores:
    if not of:
        return []
    rows = await session.fetch(_FRIENDLY_TOTALS, build, [each.account_id for each in of], [each.week for each in of])
    return [(friendly_board(row["week"]), row["account_id"], _score(row)) for row in rows]


async def _daily(session: Session, build: int, of: Sequence[DailyScore]) -> Scores:
    if not of:
        return []
    rows = await session.fetch(
        _DAILY_TOTALS,
        build,
        [each.account_id for each in of],
        [each.day for each in of],
        [each.game_type for each in of],
    )
    return [(daily_board(row["day"], row["game_type"]), row["account_id"], _score(row)) for row in rows]


async def put(session: Session, build: int, scores: Scores) -> None:
    """Put scores on their boards, or take them off."""
    if not scores:
        return
    numbers = await board_numbers(session, {board for board, _, _ in scores})
    await session.execute(_FIRST_BLOCKS, build, sorted(set(numbers.values())))
    changed = await session.fetch(
        _PUT,
        build,
        [numbers[board] for board, _, _ in scores],
        [account for _, account, _ in scores],
        [score and score.points for _, _, score in scores],
        [score and score.reached_at_us for _, _, score in scores],
    )
    for board, minus_points, reached_us, account_id, players in changed:
        if players > BLOCK_SCORES_MAX:
            await _cut(session, build, board, (minus_points, reached_us, account_id))


async def board_numbers(session: Session, boards: Collection[Board]) -> Mapping[Board, int]:
    """The numbers of boards, which get one if they have none."""
    columns = (
        [board.contest.value for board in boards],
        [board.begins for board in boards],
        [board.division for board in boards],
    )
    rows = await session.fetch(_BOARDS, *columns)
    if len(rows) < len(boards):
        await session.execute(_ADD_BOARDS, *columns)
        rows = await session.fetch(_BOARDS, *columns)
    return {Board(Contest(contest), begins, division): number for number, contest, begins, division in rows}


async def _cut(session: Session, build: int, board: int, first: tuple[int, int, UUID]) -> None:
    after = await session.fetchrow(_NEXT_BLOCK, build, board, *first)
    await session.execute(_CUT, build, board, *first, *(after or _LAST), BLOCK_SCORES, timeout=BULK_SECONDS)


def _score(row: "asyncpg.Record") -> Score | None:
    return None if row["points"] is None else Score(row["account_id"], row["points"], row["reached_us"])
