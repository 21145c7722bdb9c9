"""The public port with real services behind it: what may be called, by whom, over what, and what may not."""

import asyncio
import http.client
import json
import shutil
import signal
import struct
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from levata.accounts.v1 import accounts_pb2
from levata.league.v1 import league_pb2
from levata.table.v1 import table_pb2

from chassis.api import internal_services, public_services
from chassis.auth import KeyFiles, Signer
from chassis.rpc import channel, stub
from chassis.settings import Address
from tests.e2e.running import wait_for
from tools.client import Client, sign_in_guest
from tools.edge.certificate import self_made
from tools.edge.configuration import Edge
from tools.embedded.envoy import EmbeddedEnvoy
from tools.embedded.part import PartFailed
from tools.embedded.process import free_port
from tools.patience import patiently, within
from tools.up.service import ServiceProcess

ACCOUNTS = accounts_pb2.DESCRIPTOR.services_by_name["Accounts"]


@pytest.fixture(scope="module")
def replicas(module_start_service: Callable[..., ServiceProcess]) -> dict[str, list[ServiceProcess]]:
    """A replica of the table service, and one of accounts, which knows it; the league is missing."""
    table = module_start_service("table")
    return {"table": [table], "accounts": [module_start_service("accounts", peers={"table": [table.address]})]}


@pytest.fixture(scope="module")
def key_set(keys: KeyFiles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A public key set that this module may change."""
    return Path(shutil.copy(keys.jwks, tmp_path_factory.mktemp("keys")))


@pytest.fixture(scope="module")
def edge(
    replicas: dict[str, list[ServiceProcess]], key_set: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedEnvoy]:
    """An edge that thinks that there is one more replica of accounts."""
    addresses = {name: [process.address for process in processes] for name, processes in replicas.items()}
    addresses["accounts"].append(Address("127.0.0.1", free_port()))
    edge = Edge(Address("127.0.0.1", free_port()), addresses, key_set=key_set)
    envoy = EmbeddedEnvoy(tmp_path_factory.mktemp("with a space"), edge)
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


INTERNAL_METHODS = [method for service in internal_services() for method in service.methods]


def test_there_are_internal_methods() -> None:
    assert {"levata.table.v1.Games.Create", "levata.facts.v1.Facts.Read"} <= {m.full_name for m in INTERNAL_METHODS}


@pytest.mark.parametrize("method", INTERNAL_METHODS, ids=lambda method: method.full_name)
async def test_what_is_internal_is_not_there(edge: EmbeddedEnvoy, keys: KeyFiles, method: MethodDescriptor) -> None:
    """Nor for somebody with a service's token, nor by another spelling of its path."""
    token = Signer.from_file(keys.signing_key).service_token("matchmaker", 60)
    service, name = method.containing_service.full_name, method.name
    async with channel(str(edge.address), token) as public:
        for path in (f"/{service}/{name}", f"//{service}/{name}", f"/x/../{service}/{name}", f"/{service}%2F{name}"):
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await unary(public, path)(b"", timeout=10)
            assert refusal.value.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INTERNAL), path
            assert "grpc-status-details-bin" not in dict(refusal.value.trailing_metadata() or ())


async def test_health_of_each_public_service(edge: EmbeddedEnvoy, replicas: dict[str, list[ServiceProcess]]) -> None:
    async with channel(str(edge.address)) as public:
        for name, status in (
            ("", health_pb2.HealthCheckResponse.SERVING),
            ("levata.accounts.v1.Accounts", health_pb2.HealthCheckResponse.SERVING),
            ("levata.table.v1.Table", health_pb2.HealthCheckResponse.SERVING),
            ("levata.league.v1.League", health_pb2.HealthCheckResponse.NOT_SERVING),
        ):
            # Accounts asks the others now and then.
            async with asyncio.timeout(30):
                while (await check_health(public, name)).status != status:
                    await asyncio.sleep(0.1)
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await check_health(public, "levata.table.v1.Games")
    assert refusal.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_shows_the_public_services(edge: EmbeddedEnvoy, version: str) -> None:
    public_names = {service.descriptor.full_name for service in public_services()}
    asked = [reflection_pb2.ServerReflectionRequest(list_services="")]
    asked += [reflection_pb2.ServerReflectionRequest(file_containing_symbol=name) for name in public_names]
    async with channel(str(edge.address)) as public:
        reflect = public.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )
        services, *files = [answer async for answer in reflect(iter(asked), timeout=10)]
    listed = {service.name for service in services.list_services_response.service}
    assert listed == public_names | {"grpc.health.v1.Health"}
    for answer, name in zip(files, [request.file_containing_symbol for request in asked[1:]], strict=True):
        first = FileDescriptorProto.FromString(answer.file_descriptor_response.file_descriptor_proto[0])
        assert name.rpartition(".")[2] in {service.name for service in first.service}


async def test_a_large_message_is_refused_and_ejects_nobody(edge: EmbeddedEnvoy) -> None:
    large = accounts_pb2.CreateGuestRequest(request_id="x" * (4 << 20))
    async with channel(str(edge.address)) as public:
        for _ in range(10):
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await stub(public, ACCOUNTS).CreateGuest(large, timeout=20)
            assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        request = accounts_pb2.CreateGuestRequest(request_id=str(uuid.uuid4()))
        assert (await stub(public, ACCOUNTS).CreateGuest(request, timeout=10)).account.guest


async def test_streams_through_a_stopped_replica_end(
    edge: EmbeddedEnvoy, replicas: dict[str, list[ServiceProcess]]
) -> None:
    [accounts] = replicas["accounts"]
    async with channel(str(edge.address)) as public:
        watch: Any = public.unary_stream(
            "/grpc.health.v1.Health/Watch",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        streams = [watch(health_pb2.HealthCheckRequest()) for _ in range(50)]
        for stream in streams:
            assert (await stream.read()).status == health_pb2.HealthCheckResponse.SERVING
        accounts.child.send(signal.SIGSTOP)
        try:
            codes = await asyncio.gather(*(within(30, stream.code()) for stream in streams))
        finally:
            accounts.child.send(signal.SIGCONT)
        # What the network reports, without a reason of ours.
        assert set(codes) <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL}
        # It is back as soon as it answers again.
        request = accounts_pb2.CreateGuestRequest(request_id=str(uuid.uuid4()))
        assert (await patiently(lambda: stub(public, ACCOUNTS).CreateGuest(request, timeout=10))).account.guest


async def test_a_native_client_over_tls(
    edge: EmbeddedEnvoy, replicas: dict[str, list[ServiceProcess]], tmp_path: Path
) -> None:
    certificate = self_made(tmp_path / "tls")
    assert certificate.key.stat().st_mode & 0o777 == 0o600
    addresses = {name: [process.address for process in processes] for name, processes in replicas.items()}
    public = Address("127.0.0.1", free_port())
    envoy = EmbeddedEnvoy(tmp_path / "envoy", Edge(public, addresses, certificate=certificate))
    envoy.start()
    trusted = certificate.chain.read_bytes()
    for target in (str(public), f"localhost:{public.port}"):
        guest = await sign_in_guest(target, trusted=trusted)
        async with Client(target, guest.token, trusted=trusted) as client:
            assert not (await client.table.List(table_pb2.ListRequest(), timeout=10)).games
    async with channel(str(public), trusted=trusted) as secure:
        assert (await check_health(secure, "")).status == health_pb2.HealthCheckResponse.SERVING
    # Neither without TLS, nor for somebody who trusts another certificate.
    others = self_made(tmp_path / "of somebody else").chain.read_bytes()
    for stranger in (channel(str(public), own_connection=True), channel(str(public), trusted=others)):
        async with stranger:
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await check_health(stranger, "")
            assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
    envoy.stop()


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


def test_the_key_set_is_shown_as_it_is_at_the_time(edge: EmbeddedEnvoy, key_set: Path) -> None:
    for _ in range(2):
        wait_for(lambda: key_set_shown(edge) == key_set.read_text(), lambda: key_set_shown(edge))
        # As a rotation does it: another file in its place.
        fresh = key_set.with_name("fresh")
        fresh.write_text(json.dumps({"keys": json.loads(key_set.read_text())["keys"] * 2}))
        fresh.replace(key_set)


def key_set_shown(edge: EmbeddedEnvoy) -> str:
    """What anybody is answered who asks for it."""
    status, headers, answer = http_call(edge.address, "GET", "/.well-known/jwks.json", {})
    assert (status, headers["content-type"]) == (200, "application/json")
    assert headers["access-control-allow-origin"] == "*"
    return answer.decode()


def test_a_taken_port_is_said(edge: EmbeddedEnvoy, tmp_path: Path) -> None:
    with pytest.raises(PartFailed, match="Address already in use"):
        EmbeddedEnvoy(tmp_path / "second", Edge(edge.address, {})).start()


def unary(on: grpc.aio.Channel, path: str) -> Any:
    """A method that takes and answers bytes."""
    return on.unary_unary(path, lambda raw: raw, lambda raw: raw)


async def check_health(on: grpc.aio.Channel, name: str) -> health_pb2.HealthCheckResponse:
    """What the health service says of a service."""
    check = on.unary_unary(
        "/grpc.health.v1.Health/Check",
        health_pb2.HealthCheckRequest.SerializeToString,
        health_pb2.HealthCheckResponse.FromString,
    )
    answer: health_pb2.HealthCheckResponse = await check(health_pb2.HealthCheckRequest(service=name), timeout=10)
    return answer


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
