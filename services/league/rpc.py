"""The league service's API: messages in, use cases, messages out."""

from contextlib import aclosing
from typing import Final, assert_never
from uuid import UUID

from levata.league.v1 import league_pb2, operations_pb2

from chassis.rpc import Access, Call, Server
from services.league.app import Difference, Done, League, Progress, Step
from services.league.domain import Record

_LEAGUE: Final = league_pb2.DESCRIPTOR.services_by_name["League"]
_OPERATIONS: Final = operations_pb2.DESCRIPTOR.services_by_name["Operations"]


def serve(server: Server, league: League) -> None:
    """Add the league service's API to a server."""
    server.add(_LEAGUE, LeagueApi(league), Access.PLAYER)
    server.add(_OPERATIONS, OperationsApi(league), Access.OPERATOR)


class LeagueApi:
    """levata.league.v1.League."""

    def __init__(self, league: League) -> None:
        self._league = league

    async def get_record(self, request: league_pb2.GetRecordRequest, call: Call) -> league_pb2.GetRecordResponse:
        return _record_message(await self._league.record(UUID(request.account_id or call.who.subject)))


class OperationsApi:
    """levata.league.v1.Operations."""

    def __init__(self, league: League) -> None:
        self._league = league

    async def rebuild(self, request: operations_pb2.RebuildRequest, call: Call) -> None:
        # Closed at once when the caller leaves, and not when the garbage is collected.
        async with aclosing(self._league.rebuild(dry_run=request.dry_run)) as steps:
            async for step in steps:
                await call.write(_step_message(step))


def _record_message(record: Record) -> league_pb2.GetRecordResponse:
    games = [
        league_pb2.GameRecord(game_type=game.game_type, games_played=game.games_played, places=game.places)
        for game in record.games
    ]
    return league_pb2.GetRecordResponse(account_id=str(record.account_id), records=games, as_of_fact=record.as_of_fact)


def _step_message(step: Step) -> operations_pb2.RebuildResponse:
    match step:
        case Progress(fact, head):
            progress = operations_pb2.RebuildProgress(fact=fact, head=head)
            return operations_pb2.RebuildResponse(progress=progress)
        case Difference(table, before, after):
            difference = operations_pb2.RowDifference(table=table, before=before, after=after)
            return operations_pb2.RebuildResponse(difference=difference)
        case Done(fact, rows, differences, switched):
            done = operations_pb2.RebuildDone(fact=fact, rows=rows, differences=differences, switched=switched)
            return operations_pb2.RebuildResponse(done=done)
        case _:
            assert_never(step)
