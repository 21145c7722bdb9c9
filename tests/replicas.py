"""Replicas that record what reaches them, to see what the edge does with a call: which replica gets it, and how often.

They answer as they are told to. Everything that a service of ours would do is tested with the service itself.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import grpc
from grpc_health.v1 import health_pb2

from chassis.settings import Address
from tools.embedded.process import free_port

# Streams hold a thread each.
THREADS = 64
HEALTH_CHECK = "/grpc.health.v1.Health/Check"


class Received(NamedTuple):
    """A call that reached a replica."""

    method: str
    metadata: dict[str, str]


class Replica(grpc.GenericRpcHandler):
    """One gRPC server that takes every method as a stream of bytes in both directions."""

    def __init__(self) -> None:
        self.address = Address("127.0.0.1", free_port())
        self.received: list[Received] = []
        # What calls are answered with.
        self.status = grpc.StatusCode.OK
        self.health: Any = health_pb2.HealthCheckResponse.SERVING
        # Set to let the calls end that `holds` keeps.
        self.holds = False
        self.released = threading.Event()
        self._server: Any = None

    def start(self) -> None:
        """Listen, on the same port each time."""
        options = [("grpc.so_reuseport", 0)]
        self._server = grpc.server(ThreadPoolExecutor(THREADS), handlers=[self], options=options)
        self._server.add_insecure_port(str(self.address))
        self._server.start()

    def stop(self) -> None:
        """Close every connection."""
        self.released.set()
        self._server.stop(0).wait()

    def reset(self) -> None:
        """As it was at the start."""
        self.received.clear()
        self.status, self.health, self.holds = grpc.StatusCode.OK, health_pb2.HealthCheckResponse.SERVING, False
        self.released.clear()

    def count(self, method: str) -> int:
        """How many calls of the method (a full path) came."""
        return sum(call.method == method for call in self.received)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method = handler_call_details.method
        if method == HEALTH_CHECK:
            return grpc.unary_unary_rpc_method_handler(
                lambda _request, _context: health_pb2.HealthCheckResponse(status=self.health),
                health_pb2.HealthCheckRequest.FromString,
                health_pb2.HealthCheckResponse.SerializeToString,
            )
        metadata = {key: str(value) for key, value in handler_call_details.invocation_metadata}
        self.received.append(Received(method, metadata))
        return grpc.stream_stream_rpc_method_handler(self._answer)

    def _answer(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        # An answer that came before the request had ended might fail in the client's own core.
        for _ in requests:
            pass
        if self.holds:
            yield b""
            self.released.wait()
        elif self.status is grpc.StatusCode.OK:
            yield b""
        else:
            context.abort(self.status, "as it was told")
