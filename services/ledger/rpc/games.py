"""The table service, as the ledger asks it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

import grpc
from levata.table.v1 import games_pb2

from chassis.errors import Refused, in_a_line, status_of
from chassis.peers import Peers
from chassis.rpc import Token

CALL_SECONDS: Final = 5.0

_GAMES: Final = games_pb2.DESCRIPTOR.services_by_name["Games"]


class RemoteGames:
    """Implements `app.old_holds.Games`."""

    def __init__(self, replicas: Peers) -> None:
        self._replicas = replicas

    @classmethod
    @asynccontextmanager
    async def at(cls, addresses: Sequence[str], token: Token) -> AsyncIterator["RemoteGames"]:
        """The table service whose replicas are at these addresses."""
        async with Peers.at(addresses, token, _GAMES) as replicas:
            yield cls(replicas)

    async def settle(self, game_id: UUID) -> None:
        """Close the id for good unless the game was created."""
        try:
            await self._replicas.ask("Cancel", games_pb2.CancelRequest(game_id=str(game_id)), CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            status = status_of(error)
            if status is not None:
                raise Refused.from_status(status) from error
            # The network, or grpc itself.
            raise Refused("TEMPORARILY_UNAVAILABLE", grpc.StatusCode.UNAVAILABLE, in_a_line(error)) from error
