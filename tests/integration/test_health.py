"""What a replica says of itself: it serves while its database answers, and not while it drains; and its figures."""

import asyncio
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import grpc
import pytest
from grpc_health.v1 import health_pb2
from levata.table.v1 import play_pb2, table_pb2
from prometheus_client.parser import text_string_to_metric_families

from chassis.auth import KeyFiles, Signer
from chassis.figures import Histogram
from chassis.settings import Address
from chassis.telemetry import histogram
from services.table.__main__ import build
from tests.conftest import Database
from tests.table_client import SEAT_ACCOUNTS, PlayStream, Service, act_request, create_game, refused, settings_for
from tools.embedded.process import free_port
from tools.faults.link import Link

TABLE = "levata.table.v1.Table"


@pytest.fixture
async def to_postgres(database: Database) -> AsyncIterator[Link]:
    link = Link("postgres", Address("127.0.0.1", database.server.port))
    await link.start()
    yield link
    await link.stop()


def through(link: Link, dsn: str) -> str:
    parts = urlsplit(dsn)
    user, _, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}@{link.address}"))


async def said(target: str, name: str) -> str:
    """What a replica answers about a service, or that it does not answer."""
    async with grpc.aio.insecure_channel(target) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        answer = await check(health_pb2.HealthCheckRequest(service=name), timeout=5)
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


async def says(target: str, status: str) -> None:
    """Wait until the replica says so of itself, and of the service that it is there for."""
    while [await said(target, name) for name in ("", TABLE)] != [status, status]:
        await asyncio.sleep(0.05)


async def test_it_does_not_serve_while_postgres_is_away_and_does_again(
    database: Database, keys: KeyFiles, to_postgres: Link
) -> None:
    settings = settings_for(database, keys)
    settings = settings.model_copy(update={"postgres_dsn": through(to_postgres, settings.postgres_dsn)})
    async with build(settings) as address:
        await says(str(address), "SERVING")
        to_postgres.close()
        to_postgres.cut()
        await says(str(address), "NOT_SERVING")
        to_postgres.mend()
        await says(str(address), "SERVING")


async def test_it_does_not_serve_any_more_while_it_drains(database: Database, keys: KeyFiles) -> None:
    async with AsyncExitStack() as outer:
        stack = await outer.enter_async_context(AsyncExitStack())
        address = await stack.enter_async_context(build(settings_for(database, keys)))
        async with grpc.aio.insecure_channel(str(address)) as channel:
            plain: Any = channel
            watch = plain.unary_stream(
                "/grpc.health.v1.Health/Watch",
                health_pb2.HealthCheckRequest.SerializeToString,
                health_pb2.HealthCheckResponse.FromString,
            )(health_pb2.HealthCheckRequest(service=TABLE))
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
            stopping = asyncio.create_task(stack.aclose())
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
            await stopping


async def figures(address: Address) -> dict[tuple[str, ...], float]:
    """What Prometheus would read: values by name and labels' values."""
    text = await asyncio.to_thread(lambda: urllib.request.urlopen(f"http://{address}/metrics", timeout=5).read())
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


async def test_figures_tell_of_games_streams_commits_and_refusals(database: Database, keys: KeyFiles) -> None:
    metrics = Address("127.0.0.1", free_port())
    settings = settings_for(database, keys).model_copy(update={"metrics_listen": metrics})
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(build(settings))
        service = Service(str(address), Signer.from_file(keys.signing_key))
        stack.push_async_callback(service.close)
        assert (await figures(metrics))["levata_table_games", "hosted"] == 0

        game_id = await create_game(service, people=2)
        watch = service.table(SEAT_ACCOUNTS[0]).Watch(table_pb2.WatchRequest(game_id=game_id))
        play = PlayStream(service, SEAT_ACCOUNTS[1], game_id)
        await stack.enter_async_context(play)
        version = (await watch.read()).snapshot.version
        assert await play.read() is not None
        too_early = act_request(game_id, play_pb2.Move(place_bid=0), version + 100)
        assert (await refused(service.table(SEAT_ACCOUNTS[0]).Act(too_early))).reason == "FUTURE_VERSION"
        answer = await play.act(play_pb2.Move(place_bid=0), version + 100)
        assert answer.HasField("refusal")

        seen = await figures(metrics)
        assert seen["levata_table_games", "hosted"] == 1
        assert seen["levata_table_games", "watched"] == 1
        assert seen["levata_table_streams",] == 2
        assert seen["levata_rpc_open_calls", "/levata.table.v1.Table/Watch"] == 1
        assert seen["levata_rpc_refused_total", "/levata.table.v1.Table/Act", "FUTURE_VERSION"] == 1
        assert seen["levata_rpc_refused_total", "/levata.table.v1.Table/Play", "FUTURE_VERSION"] == 1
        assert all(value == 0 for key, value in seen.items() if key[0] == "levata_rpc_failed_total")
        committed = seen["levata_log_rows_total", "committed"]
        assert committed >= 1
        assert seen["levata_log_batch_rows_sum",] == committed
        assert 1 <= seen["levata_log_batch_rows_count",] == seen["levata_log_commit_seconds_count",] <= committed
        assert seen["levata_log_batch_rows_bucket", "+Inf"] == seen["levata_log_batch_rows_count",]
        assert seen["levata_log_commit_seconds_sum",] > 0
        assert (seen["levata_log_connected",], seen["levata_table_sure",]) == (1, 1)
        assert seen["levata_table_claims_total",] == seen["levata_table_beaten_total",] == 0
        watch.cancel()


def test_a_histogram_counts_each_value_once_where_it_belongs() -> None:
    counted = Histogram((1, 2, 5))
    for value in (0, 1, 1.5, 2, 5, 5.1, 100):
        counted.observe(value)
    assert (counted.counts, counted.total) == ([2, 2, 1, 2], 114.6)
    buckets = {sample.labels.get("le"): sample.value for sample in histogram("x", "X.", counted).samples}
    assert buckets == {"1": 2, "2": 4, "5": 5, "+Inf": 7, None: 114.6}
