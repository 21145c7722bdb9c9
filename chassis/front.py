"""What the public port says of all services behind it.

The edge cannot see which service a question about health is for, so one service answers for all: it asks the replicas
of the others, and shows what they say as health of its own. It reflects the public API, whoever serves it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2

from chassis import rpc
from chassis.api import public_services

ASK_EVERY_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 1.0
_HEALTH: Final[Any] = health_pb2.DESCRIPTOR.services_by_name["Health"]


def public_names() -> list[str]:
    """The full names of the services that the public port reflects."""
    return [service.descriptor.full_name for service in public_services()]


async def keep_public_health(server: rpc.Server, own: str, peers: Mapping[str, Sequence[str]]) -> None:
    """Report the public services of others as `server`'s own, until cancelled; `own` is who we are."""
    others = [service for service in public_services() if service.served_by != own]
    async with AsyncExitStack() as stack:
        replicas = {
            name: [
                rpc.stub(await stack.enter_async_context(rpc.channel(address)), _HEALTH)
                for address in peers.get(name, ())
            ]
            for name in {service.served_by for service in others}
        }
        while True:
            answers = await asyncio.gather(
                *(_serves(replicas[service.served_by], service.descriptor.full_name) for service in others)
            )
            for service, serving in zip(others, answers, strict=True):
                await server.set_health(service.descriptor.full_name, serving)
            await asyncio.sleep(ASK_EVERY_SECONDS)


async def _serves(replicas: Sequence[rpc.Stub], name: str) -> bool:
    """Whether one of the replicas says so at least."""
    return any(await asyncio.gather(*(_says_serving(replica, name) for replica in replicas)))


async def _says_serving(replica: Any, name: str) -> bool:
    try:
        answer = await replica.Check(health_pb2.HealthCheckRequest(service=name), timeout=ANSWER_SECONDS)
    except grpc.aio.AioRpcError:
        return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
