"""levata.ledger.v1.Entries: the internal call that takes entries."""

from typing import Final
from uuid import UUID

from levata.ledger.v1 import entries_pb2

from chassis.rpc import Access, Call, Server
from chassis.together import answer_each
from services.ledger.app.entries import Asked, EntryDesk, refusal_reason
from services.ledger.domain.entries import Entrant
from services.ledger.domain.journal import Currency

_ENTRIES: Final = entries_pb2.DESCRIPTOR.services_by_name["Entries"]


def serve(server: Server, desk: EntryDesk) -> None:
    """Add the internal calls about entries to a server."""
    server.add(_ENTRIES, EntriesApi(desk), Access.by("matchmaker", "tools"))


class EntriesApi:
    """levata.ledger.v1.Entries."""

    def __init__(self, desk: EntryDesk) -> None:
        self._desk = desk

    async def hold(self, request: entries_pb2.HoldRequest, call: Call) -> entries_pb2.HoldResponse:
        asked = [
            Asked(UUID(each.account_id), each.room, Currency(each.coffee) if each.coffee else None)
            for each in request.entrants
        ]
        entrants = await self._desk.hold(UUID(request.game_id), asked)
        return entries_pb2.HoldResponse(entrants=map(_entered, entrants))

    async def hold_all(self, request: entries_pb2.HoldAllRequest, call: Call) -> entries_pb2.HoldAllResponse:
        response = entries_pb2.HoldAllResponse()
        await answer_each((self.hold(game, call) for game in request.games), response.games.add, "held")
        return response

    async def purses(self, request: entries_pb2.PursesRequest, call: Call) -> entries_pb2.PursesResponse:
        free = await self._desk.purses([UUID(account_id) for account_id in request.account_ids])
        return entries_pb2.PursesResponse(
            purses=[
                entries_pb2.Purse(
                    account_id=account_id,
                    free={currency.value: amount for currency, amount in free[UUID(account_id)].items()},
                )
                for account_id in request.account_ids
            ]
        )


def _entered(entrant: Entrant) -> entries_pb2.Entered:
    return entries_pb2.Entered(
        account_id=str(entrant.account),
        refusal="" if entrant.refusal is None else refusal_reason(entrant.refusal),
        coins=entrant.terms.coins,
        gold=entrant.terms.gold,
        prize=entrant.terms.prize,
        coffee="" if entrant.coffee is None else entrant.coffee.value,
    )
