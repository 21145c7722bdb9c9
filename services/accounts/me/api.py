"""levata.me.v1.Me."""

from typing import Final
from uuid import UUID

from levata.me.v1 import me_pb2

from chassis.rpc import Access, Call, Server
from services.accounts.me.hub import Hub

_SERVICE: Final = me_pb2.DESCRIPTOR.services_by_name["Me"]


def serve(server: Server, hub: Hub) -> None:
    """Add the service to a server."""
    server.add(_SERVICE, MeApi(hub), Access.PLAYER)


class MeApi:
    """levata.me.v1.Me."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def watch(self, request: me_pb2.WatchRequest, call: Call) -> None:
        await self._hub.watch(UUID(call.who.subject), call.write)
