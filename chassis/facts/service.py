"""Facts over gRPC: served by each owner of a log, and read by its consumers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, Protocol
from uuid import UUID

import grpc
import structlog
from google.protobuf.message import Message
from levata.facts.v1 import facts_pb2

from chassis.facts.store import PAGE_FACTS, Fact, FactLog, Head, Page
from chassis.rpc import Call, Stub, Token, channel, stub

log = structlog.get_logger(__name__)

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

    def __init__(self, replicas: Sequence[Stub]) -> None:
        assert replicas, "an owner has at least one replica"
        self._replicas = list(replicas)

    @classmethod
    @asynccontextmanager
    async def at(cls, addresses: Sequence[str], token: Token) -> AsyncIterator["RemoteFacts"]:
        """The log of the service whose replicas are at these addresses."""
        service = facts_pb2.DESCRIPTOR.services_by_name["Facts"]
        async with AsyncExitStack() as stack:
            channels = [await stack.enter_async_context(channel(address, token)) for address in addresses]
            yield cls([stub(opened, service) for opened in channels])

    async def head(self) -> Head:
        """The newest number."""
        response = await self._ask("Head", facts_pb2.HeadRequest())
        return Head(UUID(response.incarnation), response.last)

    async def read(self, after: int, limit: int = PAGE_FACTS) -> Page:
        """Facts after a number, in order."""
        response = await self._ask("Read", facts_pb2.ReadRequest(after=after, limit=limit))
        facts = [Fact(fact.number, fact.subject, fact.payload, fact.at_us) for fact in response.facts]
        return Page(Head(UUID(response.incarnation), response.last), facts)

    async def before(self, at_us: int) -> Head:
        """The last number with a time before `at_us`; refused until that time has come."""
        response = await self._ask("Before", facts_pb2.BeforeRequest(at_us=at_us))
        return Head(UUID(response.incarnation), response.last)

    async def _ask(self, rpc: str, request: Message) -> Any:
        """The answer of the first replica that gives one; it is asked first the next time too."""
        for _ in self._replicas[1:]:
            try:
                return await getattr(self._replicas[0], rpc)(request, timeout=CALL_SECONDS)
            except grpc.aio.AioRpcError as error:
                log.warning("an owner's replica does not tell its facts", rpc=rpc, error=error.details())
                self._replicas.append(self._replicas.pop(0))
        return await getattr(self._replicas[0], rpc)(request, timeout=CALL_SECONDS)
