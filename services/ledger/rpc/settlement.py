"""levata.ledger.v1.Settlement: what the league asks before it closes a week."""

from typing import Final
from uuid import UUID

from levata.ledger.v1 import settlement_pb2

from chassis.rpc import Access, Call, Server
from services.ledger.app.settlement import Followed, settled

_SETTLEMENT: Final = settlement_pb2.DESCRIPTOR.services_by_name["Settlement"]


def serve(server: Server, followed: Followed) -> None:
    """Add the call to a server."""
    server.add(_SETTLEMENT, SettlementApi(followed), Access.by("league"))


class SettlementApi:
    """levata.ledger.v1.Settlement."""

    def __init__(self, followed: Followed) -> None:
        self._followed = followed

    async def settled(self, request: settlement_pb2.SettledRequest, call: Call) -> settlement_pb2.SettledResponse:
        stand = await settled(self._followed, UUID(request.games_incarnation), request.games_fact)
        response = settlement_pb2.SettledResponse(incarnation=str(stand.incarnation), last=stand.last)
        for fact in stand.parked:
            response.parked.add(number=fact.number, game_id=fact.game_id, discarded=fact.discarded)
        return response
