"""What the edge does with calls: where they go, how often they are tried, who is cut off and who is let alone."""

import asyncio
import json
import resource
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from grpc_health.v1 import health_pb2

from chassis.api import public_services
from chassis.errors import reason_of
from chassis.rpc import channel
from chassis.settings import Address
from tests.replicas import Replica
from tools.edge.configuration import Edge, Limits
from tools.embedded.envoy import EmbeddedEnvoy
from tools.embedded.process import free_port

ACT = "/levata.table.v1.Table/Act"
PLAY = "/levata.table.v1.Table/Play"
WATCH = "/levata.table.v1.Table/Watch"
LIST = "/levata.table.v1.Table/List"
GET_RECORD = "/levata.league.v1.League/GetRecord"
LIMITS = Limits(streams_per_connection=20, calls_per_second=1, calls_burst=100)
# How long something is waited for that takes some seconds.
PATIENCE_SECONDS = 30.0


class PatientEdge(Edge):
    """An edge that leaves out no replica whose answer to a check of health is late, as those of threads may be."""

    def configuration(self) -> str:
        common = super().configuration()
        patient = common.replace("- timeout: 1s", "- timeout: 60s")
        assert patient != common
        return patient


class Site:
    """An edge and the replicas behind it."""

    def __init__(self, envoy: EmbeddedEnvoy, table: list[Replica]) -> None:
        self.envoy = envoy
        self.table = table

    def channel(self, token: str | None = None) -> grpc.aio.Channel:
        """A connection of one's own."""
        return channel(str(self.envoy.address), token, own_connection=True)

    def tries(self, method: str) -> list[int]:
        """How often each replica of the table service was called."""
        return [replica.count(method) for replica in self.table]


@pytest.fixture(scope="module")
def running_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    table = [Replica() for _ in range(3)]
    for replica in table:
        replica.start()
    address = Address("127.0.0.1", free_port())
    edge = PatientEdge(address, {"table": [replica.address for replica in table]}, limits=LIMITS)
    envoy = EmbeddedEnvoy(tmp_path_factory.mktemp("an edge"), edge)
    envoy.start()
    yield Site(envoy, table)
    envoy.stop()
    for replica in table:
        replica.stop()


@pytest.fixture
def site(running_site: Site) -> Iterator[Site]:
    """The module's edge; its replicas have forgotten what came before."""
    for replica in running_site.table:
        replica.reset()
    yield running_site
    for replica in running_site.table:
        replica.released.set()


def call(on: grpc.aio.Channel, method: str, *, game: str | None = None, **metadata: str) -> Any:
    """A call without a message, as a stream in both directions."""
    headers = [(name.replace("_", "-"), value) for name, value in metadata.items()]
    if game is not None:
        headers.append(("x-game-id", game))
    stream = on.stream_stream(method, lambda raw: raw, lambda raw: raw)
    return stream(iter([b""]), metadata=headers, timeout=PATIENCE_SECONDS)


async def answered(on: grpc.aio.Channel, method: str, **how: Any) -> grpc.StatusCode:
    """The status of a call that is made and waited for."""
    while True:
        pending = call(on, method, **how)
        try:
            while await pending.read() is not grpc.aio.EOF:
                pass
        except grpc.aio.AioRpcError:
            pass
        # Where the answer comes before the request is sent, grpc's Python client now and then fails in its own core.
        if not (await pending.details() or "").startswith("Internal error from Core"):
            code: grpc.StatusCode = await pending.code()
            return code


async def refusal_of(on: grpc.aio.Channel, method: str) -> str | None:
    """The reason for which a call is refused, if it is."""
    try:
        await call(on, method).read()
    except grpc.aio.AioRpcError as error:
        return reason_of(error)
    return None


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that takes some seconds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


PUBLIC_METHODS = [method for service in public_services() for method in service.descriptor.methods]


@pytest.mark.parametrize("method", PUBLIC_METHODS, ids=lambda method: method.full_name)
async def test_every_public_method_has_a_way(site: Site, method: MethodDescriptor) -> None:
    path = f"/{method.containing_service.full_name}/{method.name}"
    async with site.channel() as public:
        code = await answered(public, path)
    # Only the table service has replicas here; the others are away, and known.
    assert code in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE)


async def test_all_calls_about_a_game_come_to_one_replica(site: Site) -> None:
    games = [str(uuid.uuid4()) for _ in range(30)]
    async with site.channel() as public:
        for game in games:
            for method in (ACT, PLAY, WATCH):
                assert await answered(public, method, game=game) is grpc.StatusCode.OK
    by_game = {game: set[int]() for game in games}
    for number, replica in enumerate(site.table):
        for received in replica.received:
            by_game[received.metadata["x-game-id"]].add(number)
    assert all(len(replicas) == 1 for replicas in by_game.values())
    # Different games come to different ones.
    assert all(site.tries(ACT))


async def test_calls_about_no_game_are_shared_out(site: Site) -> None:
    async with site.channel() as public:
        for _ in range(30):
            assert await answered(public, LIST) is grpc.StatusCode.OK
    assert all(site.tries(LIST))


async def test_what_may_be_repeated_goes_to_another_replica(site: Site) -> None:
    """Act is marked as idempotent in its proto. Each game has a place of its own on the ring."""
    async with site.channel() as public:
        for _ in range(150):
            for replica in site.table:
                replica.reset()
            game = str(uuid.uuid4())
            assert await answered(public, ACT, game=game) is grpc.StatusCode.OK
            [host] = [replica for replica in site.table if replica.count(ACT)]
            host.status = grpc.StatusCode.UNAVAILABLE
            assert await answered(public, ACT, game=game) is grpc.StatusCode.OK
            assert host.count(ACT) == 2
            assert sum(site.tries(ACT)) == 3


@pytest.mark.parametrize(
    ("method", "status"),
    [
        # Not marked.
        (PLAY, grpc.StatusCode.UNAVAILABLE),
        # Marked, but the same answer would come again.
        (ACT, grpc.StatusCode.ABORTED),
        (ACT, grpc.StatusCode.INTERNAL),
        (ACT, grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
async def test_everything_else_is_tried_once(site: Site, method: str, status: grpc.StatusCode) -> None:
    for replica in site.table:
        replica.status = status
    async with site.channel() as public:
        assert await answered(public, method, game=str(uuid.uuid4())) is status
    assert sum(site.tries(method)) == 1


async def test_what_a_replica_answers_ejects_nobody(site: Site) -> None:
    game = str(uuid.uuid4())
    for replica in site.table:
        replica.status = grpc.StatusCode.UNAVAILABLE
    async with site.channel() as public:
        for _ in range(20):
            assert await answered(public, PLAY, game=game) is grpc.StatusCode.UNAVAILABLE
    # All of them to the same one, to the end.
    assert sorted(site.tries(PLAY)) == [0, 0, 20]


async def test_a_replica_that_drains_gets_nothing_new_and_keeps_its_streams(site: Site) -> None:
    game = str(uuid.uuid4())
    async with site.channel() as public:
        for replica in site.table:
            replica.holds = True
        stream = call(public, WATCH, game=game)
        await stream.read()
        [host] = [replica for replica in site.table if replica.count(WATCH)]
        host.health = health_pb2.HealthCheckResponse.NOT_SERVING
        for replica in site.table:
            replica.holds = False

        async def goes_elsewhere() -> bool:
            before = host.count(LIST)
            for _ in range(10):
                assert await answered(public, LIST, game=game) is grpc.StatusCode.OK
            return host.count(LIST) == before

        deadline = time.monotonic() + PATIENCE_SECONDS
        while not await goes_elsewhere():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.3)
        assert not stream.done()
        host.released.set()
        assert await stream.read() is grpc.aio.EOF
        assert await stream.code() is grpc.StatusCode.OK


async def test_calls_are_limited_by_token_with_a_reason(site: Site) -> None:
    async with site.channel("one who hurries") as hasty, site.channel("another one") as other:
        codes = [await answered(hasty, LIST) for _ in range(LIMITS.calls_burst + 50)]
        assert grpc.StatusCode.RESOURCE_EXHAUSTED in codes
        assert codes[: LIMITS.calls_burst] == [grpc.StatusCode.OK] * LIMITS.calls_burst
        assert await answered(other, LIST) is grpc.StatusCode.OK
        assert set(codes) == {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
        # What was refused came to no replica.
        assert sum(site.tries(LIST)) == codes.count(grpc.StatusCode.OK) + 1
        reasons = [await refusal_of(hasty, LIST) for _ in range(50)]
        assert set(reasons) - {None} == {"RATE_LIMITED"}


async def test_services_are_told_one_address_that_no_client_can_choose(site: Site) -> None:
    async with site.channel() as public:
        assert await answered(public, LIST, x_forwarded_for="1.2.3.4, 5.6.7.8") is grpc.StatusCode.OK
    [received] = [call for replica in site.table for call in replica.received]
    assert received.metadata["x-forwarded-for"] == "127.0.0.1"


async def test_the_access_log_has_each_call_and_no_token(site: Site) -> None:
    secret, game = f"secret-{uuid.uuid4()}", str(uuid.uuid4())
    async with site.channel(secret) as public:
        assert await answered(public, ACT, game=game) is grpc.StatusCode.OK
    await until(lambda: game in site.envoy.access_log.read_text())
    entries = [json.loads(line) for line in site.envoy.access_log.read_text().splitlines()]
    [entry] = [entry for entry in entries if entry["game"] == game]
    assert (entry["path"], entry["peer"], entry["grpc_status"]) == (ACT, "127.0.0.1", "OK")
    assert secret not in site.envoy.access_log.read_text()


async def test_streams_over_the_limit_of_a_connection_wait(site: Site) -> None:
    for replica in site.table:
        replica.holds = True
    async with site.channel() as public, site.channel() as other:
        streams = [call(public, WATCH) for _ in range(LIMITS.streams_per_connection + 5)]
        await until(lambda: sum(site.tries(WATCH)) == LIMITS.streams_per_connection)
        # Another connection has its own.
        assert await call(other, WATCH).read() == b""
        assert sum(site.tries(WATCH)) == LIMITS.streams_per_connection + 1
        for stream in streams:
            stream.cancel()


async def test_connections_that_say_nothing_hold_up_nobody(site: Site) -> None:
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    # Ours and Envoy's own leave some thousand less where the system allows few.
    count = min(10_000, files - 2_000)
    assert count > 1_000, f"the system allows {files} files only"
    silent = [socket.create_connection(site.envoy.address) for _ in range(count)]
    async with site.channel() as public:
        assert await answered(public, LIST) is grpc.StatusCode.OK
    for connection in silent:
        connection.close()


async def test_who_comes_after_the_last_connection_is_turned_away_and_who_says_nothing_is_cut(
    site: Site, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With three connections in all, and three seconds for those without a call."""
    address = Address("127.0.0.1", free_port())
    limits = Limits(connections=3, connection_idle_seconds=3)
    replicas = {"table": [replica.address for replica in site.table]}
    envoy = EmbeddedEnvoy(tmp_path_factory.mktemp("small"), PatientEdge(address, replicas, limits=limits))
    envoy.start()
    for replica in site.table:
        replica.holds = True
    async with channel(str(address), own_connection=True) as public:
        stream = call(public, WATCH)
        assert await stream.read() == b""
        silent = [socket.create_connection(address) for _ in range(2)]
        with socket.create_connection(address) as late:
            late.settimeout(PATIENCE_SECONDS)
            assert late.recv(1) == b""
        # The silent ones are cut, and their places are free again; the stream goes on though nothing moves on it.
        for connection in silent:
            connection.settimeout(PATIENCE_SECONDS)
            assert await asyncio.to_thread(connection.recv, 1) == b""
            connection.close()
        assert not stream.done()
        async with channel(str(address), own_connection=True) as again:
            assert await call(again, WATCH).read() == b""
    envoy.stop()
