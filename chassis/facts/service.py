"""Facts over gRPC: served by each owner of a log, and read by its consumers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol
from uuid import UUID

from levata.facts.v1 import facts_pb2

from chassis.facts.store import PAGE_FACTS, Fact, FactLog, Head, Page
from chassis.peers import Peers
from chassis.rpc import Call, Token

CALL_SECONDS: Final = 5


class FactsService:
    """The service `levata.facts.v1.Facts`; for callers of the service role only."""

    def __init__(self, facts: FactLog) -> None:
        self._facts = facts

    async def head(self, request: facts_pb2.HeadRequest, call: Call) -> facts_pb2.HeadResponse:
        """The log's incarnation and its last number."""
        head = await self._facts.head()
        return facts_pb2.HeadResponse(incarnation=str(head.incarnation), last=head.last)

    async def read(self, request: facts_pb2.ReadRequest, call: Call) -> facts_pb2.ReadResponse:
        """A page of facts after a number."""
        page = await self._facts.read(request.after, request.limit or PAGE_FACTS)
        response = facts_pb2.ReadResponse(incarnation=str(page.head.incarnation), last=page.head.last)
        for fact in page.facts:
            response.facts.add(number=fact.number, subject=fact.subject, payload=fact.payload, at_us=fact.at_us)
        return response

    async def before(self, request: facts_pb2.BeforeRequest, call: Call) -> facts_pb2.BeforeResponse:
        """The last number with a time before the asked one."""
        head = await self._facts.before(request.at_us)
        return facts_pb2.BeforeResponse(incarnation=str(head.incarnation), last=head.last)


class FactsOwner(Protocol):
    """Where a consumer reads the truth: `RemoteFacts`, or a `FactLog` in the owner's own process."""

    async def head(self) -> Head:
        """The newest number."""

    async def read(self, after: int, limit: int = PAGE_FACTS) -> Page:
        """Facts after a number, in order."""


class RemoteFacts:
    """The owner's log over gRPC: any of its replicas will do."""

    def __init__(self, replicas: Peers) -> None:
        self._replicas = replicas

    @classmethod
    @asynccontextmanager
    async def at(cls, addresses: Sequence[str], token: Token) -> AsyncIterator["RemoteFacts"]:
        """The log of the service whose replicas are at these addresses."""
        async with Peers.at(addresses, token, facts_pb2.DESCRIPTOR.services_by_name["Facts"]) as replicas:
            yield cls(replicas)

    async def head(self) -> Head:
        """The newest number."""
        response = await self._replicas.ask("Head", facts_pb2.HeadRequest(), CALL_SECONDS)
        return Head(UUID(response.incarnation), response.last)

    async def read(self, after: int, limit: int = PAGE_FACTS) -> Page:
        """Facts after a number, in order."""
        request = facts_pb2.ReadRequest(after=after, limit=limit)
        response = await self._replicas.ask("Read", request, CALL_SECONDS)
        facts = [Fact(fact.number, fact.subject, fact.payload, fact.at_us) for fact in response.facts]
        return Page(Head(UUID(response.incarnation), response.last), facts)

    async def before(self, at_us: int) -> Head:
        """The last number with a time before `at_us`; refused until that time has come."""
        response = await self._replicas.ask("Before", facts_pb2.BeforeRequest(at_us=at_us), CALL_SECONDS)
        return Head(UUID(response.incarnation), response.last)
