"""levata.matchmaker.v1.Matchmaker: rooms, quick play, solo and daily."""

from typing import Final
from uuid import UUID

from levata.matchmaker.v1 import matchmaker_pb2

from chassis.rpc import Access, Call, Server
from services.matchmaker.app.alone import Alone
from services.matchmaker.app.friendly import FriendlyTables
from services.matchmaker.app.quick_play import OwnRoom, Player, QuickPlay
from services.matchmaker.domain.rooms import WhyNot
from services.matchmaker.rpc.me import ticket_message

_SERVICE: Final = matchmaker_pb2.DESCRIPTOR.services_by_name["Matchmaker"]
_WHY_NOT: Final = {
    WhyNot.GUEST: matchmaker_pb2.WHY_NOT_GUEST,
    WhyNot.LEVEL: matchmaker_pb2.WHY_NOT_LEVEL,
    WhyNot.VIP_DAY: matchmaker_pb2.WHY_NOT_VIP_DAY,
    WhyNot.COINS: matchmaker_pb2.WHY_NOT_COINS,
    WhyNot.GOLD: matchmaker_pb2.WHY_NOT_GOLD,
}


def serve(server: Server, quick_play: QuickPlay, tables: FriendlyTables, alone: Alone) -> None:
    """Add the service to a server."""
    server.add(_SERVICE, MatchmakerApi(quick_play, tables, alone), Access.PLAYER)


class MatchmakerApi:
    """levata.matchmaker.v1.Matchmaker."""

    def __init__(self, quick_play: QuickPlay, tables: FriendlyTables, alone: Alone) -> None:
        self._quick_play = quick_play
        self._tables = tables
        self._alone = alone

    async def rooms(self, request: matchmaker_pb2.RoomsRequest, call: Call) -> matchmaker_pb2.RoomsResponse:
        rank, rooms = await self._quick_play.rooms(player_of(call))
        return matchmaker_pb2.RoomsResponse(rooms=map(_room_message, rooms), level=rank.level, xp=rank.xp)

    async def enqueue(self, request: matchmaker_pb2.EnqueueRequest, call: Call) -> matchmaker_pb2.EnqueueResponse:
        standing = await self._quick_play.enqueue(
            player_of(call), request.room, request.game_type, request.variant, request.coffee
        )
        return matchmaker_pb2.EnqueueResponse(ticket=ticket_message(standing))

    async def cancel_ticket(
        self, request: matchmaker_pb2.CancelTicketRequest, call: Call
    ) -> matchmaker_pb2.CancelTicketResponse:
        await self._quick_play.cancel(player_of(call).account, UUID(request.ticket_id))
        return matchmaker_pb2.CancelTicketResponse()

    async def add_nonce(self, request: matchmaker_pb2.AddNonceRequest, call: Call) -> matchmaker_pb2.AddNonceResponse:
        account, game_id = player_of(call).account, UUID(request.game_id)
        if not await self._quick_play.add_nonce(account, game_id, request.nonce):
            await self._tables.answer(account, game_id, request.nonce)
        return matchmaker_pb2.AddNonceResponse()

    async def here(self, request: matchmaker_pb2.HereRequest, call: Call) -> matchmaker_pb2.HereResponse:
        await self._quick_play.here(player_of(call).account)
        return matchmaker_pb2.HereResponse()

    async def solo(self, request: matchmaker_pb2.SoloRequest, call: Call) -> matchmaker_pb2.SoloResponse:
        game = await self._alone.solo(
            player_of(call),
            UUID(request.request_id),
            request.game_type,
            request.variant,
            request.seats,
            request.bot_level,
        )
        return matchmaker_pb2.SoloResponse(game_id=str(game.game_id), commitment=game.commitment)

    async def daily(self, request: matchmaker_pb2.DailyRequest, call: Call) -> matchmaker_pb2.DailyResponse:
        practice = UUID(request.practice_request_id) if request.practice_request_id else None
        game = await self._alone.daily(player_of(call), request.game_type, practice)
        return matchmaker_pb2.DailyResponse(game_id=str(game.game_id), commitment=game.commitment, day=game.day)


def player_of(call: Call) -> Player:
    """Who calls."""
    return Player(UUID(call.who.subject), call.who.guest)


def _room_message(own: OwnRoom) -> matchmaker_pb2.Room:
    room = own.room
    return matchmaker_pb2.Room(
        number=room.number,
        name=room.name,
        level=room.level,
        coins=room.coins,
        gold=room.gold,
        prize=room.prize,
        vip=room.vip,
        why_not=[_WHY_NOT[reason] for reason in own.why_not],
        next_vip_day="" if own.next_vip_day is None else own.next_vip_day.isoformat(),
    )
