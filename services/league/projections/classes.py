"""Classes in a build: who moves when a week closes."""

from collections.abc import Sequence
from datetime import date
from typing import Final
from uuid import UUID

from chassis.database import Session
from rules.values import value
from services.league.domain.boards import Board, Contest, Score
from services.league.domain.classes import LeagueClass, movers
from services.league.domain.terms import Terms
from services.league.projections import scores
from services.league.projections.bulk import BULK_SECONDS
from services.league.projections.scores import LeagueScore

_BOARD: Final = "select board from board where contest = 'league' and begins = $1 and division = $2"
_COUNTED: Final = "select count(*) from score where build = $1 and board = $2"
_FROM_FIRST: Final = """
    select account_id from score where build = $1 and board = $2
    order by minus_points, reached_us, account_id limit $3"""
_FROM_LAST: Final = """
    select account_id from score where build = $1 and board = $2
    order by minus_points desc, reached_us desc, account_id desc limit $3"""
_MOVE: Final = """
    insert into member_class (build, account_id, class)
    select $1, account_id, $3 from unnest($2::uuid[]) as m (account_id)
    on conflict (build, account_id) do update set class = excluded.class"""
# Of weeks that have begun but not been closed: those were put on the board of the class of before.
_LATER: Final = """
    select b.begins, b.division, s.account_id
    from board b join score s on s.build = $1 and s.board = b.board
    join unnest($3::uuid[]) as m (account_id) on m.account_id = s.account_id
    where b.contest = 'league' and b.begins > $2"""


@value
class ClosedClass:
    """A class when its week was closed."""

    league_class: LeagueClass
    # How many won a prize in the week.
    counted: int
    # The first by rank, as many as the ledger rewards.
    podium: tuple[UUID, ...]


@value
class Move:
    """An account goes to another class."""

    account_id: UUID
    before: LeagueClass
    after: LeagueClass


async def close_classes(session: Session, build: int, week: date, terms: Terms) -> tuple[list[ClosedClass], list[Move]]:
    """Move who goes up or down by a week's standings; answers with them and with the moves."""
    closed, moves = [], []
    for league_class in LeagueClass:
        board = await session.fetchval(_BOARD, week, league_class.label)
        if board is None:
            closed.append(ClosedClass(league_class, 0, ()))
            continue
        counted = await session.fetchval(_COUNTED, build, board, timeout=BULK_SECONDS)
        moving = movers(league_class, counted, terms.on(week))
        first = await _accounts(session, _FROM_FIRST, build, board, max(moving.up, terms.rewarded))
        last = await _accounts(session, _FROM_LAST, build, board, moving.down)
        closed.append(ClosedClass(league_class, counted, tuple(first[: terms.rewarded])))
        moves += [Move(account, league_class, LeagueClass(league_class + 1)) for account in first[: moving.up]]
        moves += [Move(account, league_class, LeagueClass(league_class - 1)) for account in last]
    for league_class in LeagueClass:
        accounts = [move.account_id for move in moves if move.after is league_class]
        if accounts:
            await session.execute(_MOVE, build, accounts, league_class, timeout=BULK_SECONDS)
    return closed, moves


async def move_later_scores(session: Session, build: int, week: date, moves: Sequence[Move]) -> None:
    """Put what the movers have won in later weeks on the boards of their new classes."""
    accounts = [move.account_id for move in moves]
    rows = await session.fetch(_LATER, build, week, accounts, timeout=BULK_SECONDS)
    gone: list[tuple[Board, UUID, Score | None]] = [
        (Board(Contest.LEAGUE, row["begins"], row["division"]), row["account_id"], None) for row in rows
    ]
    await scores.put(session, build, gone)
    await scores.refresh(session, build, {LeagueScore(row["account_id"], row["begins"]) for row in rows})


async def _accounts(session: Session, query: str, build: int, board: int, limit: int) -> list[UUID]:
    rows = await session.fetch(query, build, board, limit, timeout=BULK_SECONDS) if limit else []
    return [row["account_id"] for row in rows]
