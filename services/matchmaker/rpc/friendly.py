"""levata.matchmaker.v1.FriendlyTables."""

from typing import Final
from uuid import UUID

from levata.matchmaker.v1 import friendly_pb2 as pb

from chassis.rpc import Access, Call, Server
from services.matchmaker.app.friendly import FriendlyTables
from services.matchmaker.domain.friendly import Options
from services.matchmaker.rpc.api import player_of
from services.matchmaker.rpc.me import friendly_message

_SERVICE: Final = pb.DESCRIPTOR.services_by_name["FriendlyTables"]
PAGE_TABLES: Final = 50


def serve(server: Server, tables: FriendlyTables) -> None:
    """Add the service to a server."""
    server.add(_SERVICE, FriendlyTablesApi(tables), Access.PLAYER)


class FriendlyTablesApi:
    """levata.matchmaker.v1.FriendlyTables."""

    def __init__(self, tables: FriendlyTables) -> None:
        self._tables = tables

    async def open_table(self, request: pb.OpenTableRequest, call: Call) -> pb.OpenTableResponse:
        told = await self._tables.open(player_of(call), UUID(request.request_id), _options(request.options))
        return pb.OpenTableResponse(table=friendly_message(told))

    async def list_tables(self, request: pb.ListTablesRequest, call: Call) -> pb.ListTablesResponse:
        limit = request.page_size or PAGE_TABLES
        before = UUID(request.page_token) if request.page_token else None
        page = self._tables.running if request.running else self._tables.waiting
        found = await page(request.game_type, request.free_only, before, limit)
        last = found[-1].table if len(found) == limit else None
        # Those that wait are in the order of their ids, those that are played in that of their games'.
        token = last and (last.game_id if request.running else last.table_id)
        return pb.ListTablesResponse(
            tables=map(friendly_message, found), next_page_token="" if token is None else str(token)
        )

    async def get_table(self, request: pb.GetTableRequest, call: Call) -> pb.GetTableResponse:
        if request.WhichOneof("by") == "code":
            told = await self._tables.by_code(request.code)
        else:
            told = await self._tables.get(UUID(request.table_id))
        # What is said there is for who sits there.
        seen = told if told.table.seat_of(player_of(call).account) is not None else told._replace(lines=())
        return pb.GetTableResponse(table=friendly_message(seen))

    async def sit(self, request: pb.SitRequest, call: Call) -> pb.SitResponse:
        seat = request.seat if request.HasField("seat") else None
        told = await self._tables.sit(player_of(call), UUID(request.table_id), seat)
        return pb.SitResponse(table=friendly_message(told))

    async def stand(self, request: pb.StandRequest, call: Call) -> pb.StandResponse:
        await self._tables.stand(player_of(call).account, UUID(request.table_id))
        return pb.StandResponse()

    async def ready(self, request: pb.ReadyRequest, call: Call) -> pb.ReadyResponse:
        await self._tables.be_ready(player_of(call).account, UUID(request.table_id), request.ready)
        return pb.ReadyResponse()

    async def say_at_table(self, request: pb.SayAtTableRequest, call: Call) -> pb.SayAtTableResponse:
        line_no = await self._tables.say(player_of(call).account, UUID(request.table_id), request.text)
        return pb.SayAtTableResponse(line_no=line_no)

    async def remove_player(self, request: pb.RemovePlayerRequest, call: Call) -> pb.RemovePlayerResponse:
        await self._tables.remove(player_of(call).account, UUID(request.table_id), UUID(request.account_id))
        return pb.RemovePlayerResponse()

    async def set_bot(self, request: pb.SetBotRequest, call: Call) -> pb.SetBotResponse:
        await self._tables.set_bot(player_of(call).account, UUID(request.table_id), request.seat, request.bot_level)
        return pb.SetBotResponse()

    async def set_options(self, request: pb.SetOptionsRequest, call: Call) -> pb.SetOptionsResponse:
        await self._tables.set_options(player_of(call).account, UUID(request.table_id), _options(request.options))
        return pb.SetOptionsResponse()

    async def deal(self, request: pb.DealRequest, call: Call) -> pb.DealResponse:
        prepared = await self._tables.deal(player_of(call).account, UUID(request.table_id))
        return pb.DealResponse(game_id=str(prepared.game_id), commitment=prepared.commitment)

    async def rematch(self, request: pb.RematchRequest, call: Call) -> pb.RematchResponse:
        told = await self._tables.rematch(player_of(call), UUID(request.game_id))
        return pb.RematchResponse(table=friendly_message(told))


def _options(options: pb.TableOptions) -> Options:
    return Options(options.game_type, options.variant, options.bid_seconds, options.spectator_delay_seconds)
