"""The replicas of another service: any of them will do."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import structlog
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from chassis.errors import in_a_line
from chassis.rpc import Stub, Token, channel, stub

log = structlog.get_logger(__name__)


class Peers:
    """Asks one replica, and the others in turn while it gets no answer. Only for what may be asked twice."""

    def __init__(self, replicas: Sequence[Stub]) -> None:
        assert replicas, "a service has at least one replica"
        self._replicas = list(replicas)

    @classmethod
    @asynccontextmanager
    async def at(cls, addresses: Sequence[str], token: Token, service: ServiceDescriptor) -> AsyncIterator["Peers"]:
        """The replicas at these addresses, called with this token."""
        async with AsyncExitStack() as stack:
            channels = [await stack.enter_async_context(channel(address, token)) for address in addresses]
            yield cls([stub(opened, service) for opened in channels])

    async def ask(self, rpc: str, request: Message, seconds: float) -> Any:
        """The answer of the first replica that gives one in time; it is asked first the next time too."""
        for _ in self._replicas[1:]:
            first = self._replicas[0]
            try:
                return await getattr(first, rpc)(request, timeout=seconds)
            except grpc.aio.AioRpcError as error:
                log.warning("a replica does not answer", rpc=rpc, error=in_a_line(error))
                if self._replicas[0] is first:
                    self._replicas.append(self._replicas.pop(0))
        return await getattr(self._replicas[0], rpc)(request, timeout=seconds)
