"""levata.league.v1.Standings: what other services ask about accounts."""

from typing import Final
from uuid import UUID

from levata.league.v1 import standings_pb2

from chassis.rpc import Access, Call, Server
from services.league.app.standings import League, Rank
from services.league.store.facts import STREAKS

_STANDINGS: Final = standings_pb2.DESCRIPTOR.services_by_name["Standings"]


def serve(server: Server, league: League) -> None:
    """Add the call to a server."""
    server.add(_STANDINGS, StandingsApi(league), Access.by("matchmaker", "accounts", "table"))


class StandingsApi:
    """levata.league.v1.Standings."""

    def __init__(self, league: League) -> None:
        self._league = league

    async def ranks(self, request: standings_pb2.RanksRequest, call: Call) -> standings_pb2.RanksResponse:
        ranks = await self._league.ranks([UUID(account_id) for account_id in request.account_ids])
        return standings_pb2.RanksResponse(ranks=map(_rank_message, ranks))


def _rank_message(rank: Rank) -> standings_pb2.Rank:
    message = standings_pb2.Rank(
        account_id=str(rank.account_id),
        xp=rank.xp,
        level=rank.level,
        place=rank.place,
        standing=rank.standing,
        streak=STREAKS[rank.streak],
    )
    # A word of Python's.
    setattr(message, "class", rank.league_class.label)
    return message
