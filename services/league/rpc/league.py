"""levata.league.v1.League: what players ask."""

from datetime import date
from typing import Final
from uuid import UUID

import grpc
from levata.league.v1 import league_pb2

from chassis.errors import FieldViolation, Refused
from chassis.rpc import Access, Call, Server
from services.league.app.records import Records
from services.league.app.standings import Cause, League, Number, OwnWeek, Placed, Rank, StreakOf, Xp
from services.league.domain.boards import Board, Contest
from services.league.domain.classes import LeagueClass
from services.league.domain.records import Record
from services.league.store.facts import STREAKS

_LEAGUE: Final = league_pb2.DESCRIPTOR.services_by_name["League"]


def serve(server: Server, records: Records, league: League) -> None:
    """Add the public API to a server."""
    server.add(_LEAGUE, LeagueApi(records, league), Access.PLAYER)


class LeagueApi:
    """levata.league.v1.League."""

    def __init__(self, records: Records, league: League) -> None:
        self._records = records
        self._league = league

    async def get_record(self, request: league_pb2.GetRecordRequest, call: Call) -> league_pb2.GetRecordResponse:
        return _record_message(await self._records.of(await self._asked(request.account_id, call)))

    async def get_profile(self, request: league_pb2.GetProfileRequest, call: Call) -> league_pb2.GetProfileResponse:
        (rank,) = await self._league.ranks([await self._asked(request.account_id, call)])
        return _profile_message(rank)

    async def get_standing(self, request: league_pb2.GetStandingRequest, call: Call) -> league_pb2.GetStandingResponse:
        account = _caller(call)
        board = await self._board(request.board, account)
        around = await self._league.around(board, account, request.neighbours)
        lines = list(map(_line, around.lines))
        own = next((line for line in lines if line.account_id == str(account)), None)
        return league_pb2.GetStandingResponse(
            board=_board_message(board), own=own, around=lines, players=around.players, closed=around.closed
        )

    async def list_top(self, request: league_pb2.ListTopRequest, call: Call) -> league_pb2.ListTopResponse:
        board = await self._board(request.board, _caller(call))
        top = await self._league.top(board, request.limit)
        return league_pb2.ListTopResponse(
            board=_board_message(board), top=map(_line, top.lines), players=top.players, closed=top.closed
        )

    async def list_weeks(self, request: league_pb2.ListWeeksRequest, call: Call) -> league_pb2.ListWeeksResponse:
        weeks = await self._league.weeks(_caller(call), _day(request.before, "before"))
        return league_pb2.ListWeeksResponse(weeks=map(_week_message, weeks))

    async def explain(self, request: league_pb2.ExplainRequest, call: Call) -> league_pb2.ExplainResponse:
        account = _caller(call)
        number: Number
        match request.WhichOneof("number"):
            case "xp":
                number = Xp()
            case "streak":
                number = StreakOf()
            case _:
                number = await self._board(request.score, account)
        explained = await self._league.explain(account, number, request.before_fact)
        return league_pb2.ExplainResponse(
            causes=map(_cause_message, explained.causes), total=explained.total, more=explained.more
        )

    async def _asked(self, account_id: str, call: Call) -> UUID:
        """Whom a call asks about: by default its caller, and nobody who is no more."""
        account = UUID(account_id) if account_id else _caller(call)
        await self._league.refuse_deleted(account)
        return account

    async def _board(self, asked: league_pb2.Board, account: UUID) -> Board:
        match asked.WhichOneof("contest"):
            case "league":
                label = getattr(asked.league, "class")
                league_class = LeagueClass[label.upper()] if label else None
                week = _monday(asked.league.week, "board.league.week")
                return await self._league.board(Contest.LEAGUE, account, week, league_class, "")
            case "friendly":
                week = _monday(asked.friendly.week, "board.friendly.week")
                return await self._league.board(Contest.FRIENDLY, account, week, None, "")
            case _:
                day = _day(asked.daily.day, "board.daily.day")
                return await self._league.board(Contest.DAILY, account, day, None, asked.daily.game_type)


def _caller(call: Call) -> UUID:
    return UUID(call.who.subject)


def _day(text: str, field: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise _invalid(field, "is no day") from None


def _monday(text: str, field: str) -> date | None:
    day = _day(text, field)
    if day is not None and day.weekday() != 0:
        raise _invalid(field, "is no Monday")
    return day


def _invalid(field: str, what: str) -> Refused:
    return Refused(
        "INVALID_REQUEST",
        grpc.StatusCode.INVALID_ARGUMENT,
        f"{field}: {what}",
        violations=[FieldViolation(field, what)],
    )


def _record_message(record: Record) -> league_pb2.GetRecordResponse:
    games = [
        league_pb2.GameRecord(game_type=game.game_type, games_played=game.games_played, places=game.places)
        for game in record.games
    ]
    return league_pb2.GetRecordResponse(account_id=str(record.account_id), records=games, as_of_fact=record.as_of_fact)


def _profile_message(rank: Rank) -> league_pb2.GetProfileResponse:
    message = league_pb2.GetProfileResponse(
        account_id=str(rank.account_id),
        xp=rank.xp,
        level=rank.level,
        level_xp=rank.level_xp,
        next_level_xp=rank.next_level_xp,
        streak=STREAKS[rank.streak],
        place=rank.place,
        points=rank.points,
        week=rank.week.isoformat(),
    )
    # A word of Python's.
    setattr(message, "class", rank.league_class.label)
    return message


def _board_message(board: Board) -> league_pb2.Board:
    begins = board.begins.isoformat()
    match board.contest:
        case Contest.LEAGUE:
            league = league_pb2.LeagueBoard(week=begins)
            setattr(league, "class", board.division)
            return league_pb2.Board(league=league)
        case Contest.FRIENDLY:
            return league_pb2.Board(friendly=league_pb2.FriendlyBoard(week=begins))
        case Contest.DAILY:
            return league_pb2.Board(daily=league_pb2.DailyBoard(day=begins, game_type=board.division))


def _line(placed: Placed) -> league_pb2.Standing:
    return league_pb2.Standing(
        place=placed.place,
        account_id=str(placed.account_id or ""),
        points=placed.points,
        reached_at_us=placed.reached_at_us,
    )


def _week_message(week: OwnWeek) -> league_pb2.Week:
    message = league_pb2.Week(
        week=week.week.isoformat(), place=week.place, points=week.points, players=week.players, closed=week.closed
    )
    setattr(message, "class", week.league_class.label)
    return message


def _cause_message(cause: Cause) -> league_pb2.Cause:
    return league_pb2.Cause(
        game_id=str(cause.game_id),
        fact=cause.fact,
        finished_at_us=cause.finished_at_us,
        amount=cause.amount,
        taken_back=cause.taken_back,
        podium=cause.podium,
    )
