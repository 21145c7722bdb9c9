"""The edge: what may be called through the public port, by whom, and what may not."""

import http.client
import struct
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2
from levata.accounts.v1 import accounts_pb2
from levata.facts.v1 import facts_pb2
from levata.league.v1 import league_pb2
from levata.table.v1 import games_pb2

from chassis.rpc import channel, stub
from chassis.settings import Address
from tools.embedded.envoy import EmbeddedEnvoy
from tools.embedded.part import PartFailed
from tools.embedded.process import free_port
from tools.up.service import ServiceProcess

ACCOUNTS = accounts_pb2.DESCRIPTOR.services_by_name["Accounts"]


@pytest.fixture(scope="module")
def edge(
    module_start_service: Callable[..., ServiceProcess], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedEnvoy]:
    """An edge in front of two replicas of accounts, one of which is not there; the other services are missing."""
    accounts = module_start_service("accounts")
    replicas = {"accounts": [accounts.address, Address("127.0.0.1", free_port())]}
    envoy = EmbeddedEnvoy(tmp_path_factory.mktemp("with a space"), Address("127.0.0.1", free_port()), replicas)
    envoy.start()
    yield envoy
    envoy.stop()


async def test_grpc_reaches_the_replica_that_is_there(edge: EmbeddedEnvoy) -> None:
    async with channel(str(edge.address)) as public:
        accounts = stub(public, ACCOUNTS)
        for _ in range(6):
            request = accounts_pb2.CreateGuestRequest(request_id=str(uuid.uuid4()))
            assert (await accounts.CreateGuest(request, timeout=10)).account.guest


async def test_a_refusal_keeps_its_reason(edge: EmbeddedEnvoy) -> None:
    async with channel(str(edge.address)) as public:
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await stub(public, ACCOUNTS).GetSelf(accounts_pb2.GetSelfRequest(), timeout=10)
    assert refusal.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "grpc-status-details-bin" in dict(refusal.value.trailing_metadata() or ())


@pytest.mark.parametrize(
    ("service", "method", "request_message"),
    [
        (games_pb2.DESCRIPTOR.services_by_name["Games"], "Prepare", games_pb2.PrepareRequest()),
        (facts_pb2.DESCRIPTOR.services_by_name["Facts"], "Head", facts_pb2.HeadRequest()),
        (health_pb2.DESCRIPTOR.services_by_name["Health"], "Check", health_pb2.HealthCheckRequest()),
    ],
)
async def test_what_is_internal_is_not_there(
    edge: EmbeddedEnvoy, service: ServiceDescriptor, method: str, request_message: Message
) -> None:
    async with channel(str(edge.address)) as public:
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await getattr(stub(public, service), method)(request_message, timeout=10)
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_service_that_is_away_is_unavailable(edge: EmbeddedEnvoy) -> None:
    league = league_pb2.DESCRIPTOR.services_by_name["League"]
    async with channel(str(edge.address)) as public:
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await stub(public, league).GetRecord(league_pb2.GetRecordRequest(), timeout=10)
    assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_browser_calls_with_grpc_web_from_any_page(edge: EmbeddedEnvoy) -> None:
    path = "/levata.accounts.v1.Accounts/CreateGuest"
    asks = {
        "Origin": "http://cards.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-grpc-web",
    }
    status, headers, _ = http_call(edge.address, "OPTIONS", path, asks)
    assert status == 200
    assert headers["access-control-allow-origin"] == "http://cards.example"
    assert {"authorization", "x-grpc-web", "x-game-id"} <= set(headers["access-control-allow-headers"].split(", "))

    message = accounts_pb2.CreateGuestRequest(request_id=str(uuid.uuid4())).SerializeToString()
    sends = {"Origin": "http://cards.example", "Content-Type": "application/grpc-web+proto", "X-Grpc-Web": "1"}
    body = struct.pack(">BI", 0, len(message)) + message
    status, headers, answer = http_call(edge.address, "POST", path, sends, body)
    assert status == 200
    assert "grpc-status" in headers["access-control-expose-headers"]
    flag, length = struct.unpack(">BI", answer[:5])
    assert flag == 0
    assert accounts_pb2.CreateGuestResponse.FromString(answer[5 : 5 + length]).account.guest
    # The trailers come as a second frame.
    assert b"grpc-status:0" in answer[5 + length :]


def test_a_taken_port_is_said(edge: EmbeddedEnvoy, tmp_path: Path) -> None:
    with pytest.raises(PartFailed, match="Address already in use"):
        EmbeddedEnvoy(tmp_path / "second", edge.address, {}).start()


def http_call(
    address: Address, method: str, path: str, headers: dict[str, str], body: bytes = b""
) -> tuple[int, dict[str, str], bytes]:
    """One HTTP/1.1 call, as a browser makes it."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=10)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, answer
