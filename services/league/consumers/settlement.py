"""The ledger, asked how far it has followed the games."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from levata.ledger.v1 import settlement_pb2

from chassis.facts import Head
from chassis.peers import Peers
from chassis.rpc import Token
from services.league.app.closing import Settled

CALL_SECONDS: Final = 5


class RemoteLedger:
    """The ledger service over gRPC. Implements `app.closing.Ledger`."""

    def __init__(self, replicas: Peers) -> None:
        self._replicas = replicas

    @classmethod
    @asynccontextmanager
    async def at(cls, addresses: Sequence[str], token: Token) -> AsyncIterator["RemoteLedger"]:
        """The ledger whose replicas are at these addresses."""
        service = settlement_pb2.DESCRIPTOR.services_by_name["Settlement"]
        async with Peers.at(addresses, token, service) as replicas:
            yield cls(replicas)

    async def settled(self, games: Head) -> Settled:
        """Where its log stands, once it has followed the games' to there."""
        request = settlement_pb2.SettledRequest(games_incarnation=str(games.incarnation), games_fact=games.last)
        response = await self._replicas.ask("Settled", request, CALL_SECONDS)
        return Settled(UUID(response.incarnation), response.last, tuple(fact.number for fact in response.parked))
