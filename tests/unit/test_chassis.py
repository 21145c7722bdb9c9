"""Settings, refusals, the clock and telemetry."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import structlog
from google.rpc import error_details_pb2
from prometheus_client import CollectorRegistry, generate_latest

from chassis import clock as clock_module
from chassis.auth import Verifier
from chassis.clock import Clock
from chassis.errors import FieldViolation, Refused, reason_in
from chassis.facts import Report, State, Status
from chassis.rpc import CallCounts, Server
from chassis.settings import Address, Settings, SettingsError, read_settings
from chassis.telemetry import ProcessCollector, configure_logging

NEEDED = {"LEVATA_POSTGRES_DSN": "postgresql://somewhere/levata", "LEVATA_JWKS_FILE": "/keys/jwks.json"}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, text in NEEDED.items():
        monkeypatch.setenv(name, text)
    return monkeypatch


def test_settings_come_from_the_environment(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("LEVATA_LISTEN", "[::1]:7000")
    environment.setenv("LEVATA_METRICS_LISTEN", "127.0.0.1:9000")
    environment.setenv("LEVATA_PEERS", '{"table": ["127.0.0.1:1", "127.0.0.1:2"]}')
    settings = read_settings(Settings, "table")
    assert (settings.service_name, settings.jwks_file) == ("table", Path("/keys/jwks.json"))
    assert (settings.listen, str(settings.listen)) == (Address("::1", 7000), "[::1]:7000")
    assert settings.metrics_listen == Address("127.0.0.1", 9000)
    assert settings.peers == {"table": ["127.0.0.1:1", "127.0.0.1:2"]}


def test_settings_that_may_be_left_out(environment: pytest.MonkeyPatch) -> None:
    settings = read_settings(Settings, "table")
    assert (settings.listen, settings.metrics_listen, settings.peers) == (Address("127.0.0.1", 0), None, {})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("LEVATA_LISTEN", "7000"),
        ("LEVATA_LISTEN", ":7000"),
        ("LEVATA_LISTEN", "127.0.0.1:70000"),
        ("LEVATA_LOG_FORMAT", "xml"),
    ],
)
def test_bad_settings_are_named(environment: pytest.MonkeyPatch, name: str, text: str) -> None:
    environment.setenv(name, text)
    with pytest.raises(SettingsError, match=name):
        read_settings(Settings, "table")


def test_a_refusal_as_a_status() -> None:
    refused = Refused(
        "INVALID_REQUEST",
        grpc.StatusCode.INVALID_ARGUMENT,
        "No.",
        {"version": "7"},
        [FieldViolation("seats[0].nonce", "is too long")],
    )
    status = refused.status()
    info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert (status.code, status.message, reason_in(status)) == (3, "No.", "INVALID_REQUEST")
    assert status.details[0].Unpack(info)
    assert status.details[1].Unpack(bad_request)
    assert dict(info.metadata) == {"version": "7"}
    assert [(v.field, v.description) for v in bad_request.field_violations] == [("seats[0].nonce", "is too long")]


def test_the_reason_of_somebody_elses_status_is_none() -> None:
    status = Refused("STALE", grpc.StatusCode.ABORTED, "").status()
    del status.details[:]
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="STALE", domain="googleapis.com"))
    assert reason_in(status) is None


START_NS = 1_800_000_000_000_000_000
HOUR_NS = 3_600_000_000_000


class FakeTime:
    """Stands in for the module `time`: it passes only when somebody waits."""

    def __init__(self) -> None:
        self.passed_ns = 0

    def time_ns(self) -> int:
        return START_NS + self.passed_ns

    def monotonic_ns(self) -> int:
        return 77 + self.passed_ns


class FakeDatabase:
    """A database an hour ahead; the way back from it takes three times as long as the way there."""

    def __init__(self, fake_time: FakeTime, *trips_ms: int) -> None:
        self._time = fake_time
        self._trips_ms = iter(trips_ms)

    async def fetchval(self, query: str) -> int:
        assert "levata_now()" in query
        one_way_ns = next(self._trips_ms) * 500_000
        self._time.passed_ns += one_way_ns
        now_us = (self._time.time_ns() + HOUR_NS) // 1000
        self._time.passed_ns += one_way_ns * 3
        return now_us


@pytest.fixture
def fake_time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    fake_time = FakeTime()
    monkeypatch.setattr(clock_module, "time", fake_time)
    return fake_time


async def test_the_clock_is_the_processs_own_until_it_is_measured(fake_time: FakeTime) -> None:
    assert Clock().now_us() == START_NS // 1000


async def test_the_clock_goes_by_the_shortest_round_trip(fake_time: FakeTime) -> None:
    clock = await Clock.measured(FakeDatabase(fake_time, 400, 300, 2, 400, 400))
    error_us = clock.now_us() - (fake_time.time_ns() + HOUR_NS) // 1000
    # A trip of 1 ms there and 3 ms back is taken for 2 and 2; the others would have made more than 100 ms of it.
    assert error_us == -1000
    assert (clock.now_ms(), clock.now_s()) == (clock.now_us() // 1000, clock.now_us() // 1_000_000)
    fake_time.passed_ns += 5_000_000_000
    assert clock.now_us() - (fake_time.time_ns() + HOUR_NS) // 1000 == error_us
    new = clock.new_id()
    assert (new.version, new.int >> 80) == (7, clock.now_ms())


async def test_the_clock_follows_the_database_and_runs_on_without_it(
    fake_time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_module, "MEASURE_EVERY_SECONDS", 0)
    measured_again = asyncio.Event()

    class Moved:
        """Answers the process's time, is away for a while, and comes back an hour ahead."""

        asked = 0

        async def fetchval(self, query: str) -> int:
            self.asked += 1
            if self.asked in (6, 7, 8):
                raise OSError("away")
            if self.asked == 20:
                measured_again.set()
            return (fake_time.time_ns() + (0 if self.asked <= 5 else HOUR_NS)) // 1000

    async with Clock.following(Moved()) as clock:
        assert clock.now_us() == fake_time.time_ns() // 1000
        await measured_again.wait()
        assert clock.now_us() == (fake_time.time_ns() + HOUR_NS) // 1000


@pytest.fixture
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("restored_logging")
def test_ours_and_the_librarys_logs_come_out_alike() -> None:
    out = io.StringIO()
    configure_logging("table", "json", "info", out)
    structlog.get_logger("ours").info("dealt", game="g")
    structlog.get_logger("ours").debug("not shown")
    logging.getLogger("theirs").warning("lost %s", "it")
    try:
        raise ValueError("broken")
    except ValueError:
        structlog.get_logger("ours").exception("failed")
    ours, theirs, failed = map(json.loads, out.getvalue().splitlines())
    assert (ours["event"], ours["game"], ours["level"], ours["service"]) == ("dealt", "g", "info", "table")
    assert (theirs["event"], theirs["level"], theirs["service"]) == ("lost it", "warning", "table")
    assert (failed["event"], failed["exception"][0]["exc_type"]) == ("failed", "ValueError")
    assert set(ours) >= set(theirs) == {"event", "level", "service", "timestamp"}


@pytest.mark.usefixtures("restored_logging")
def test_readable_logs_are_one_line_each_and_without_colours_into_a_file() -> None:
    out = io.StringIO()
    configure_logging("table", "text", "info", out)
    structlog.get_logger().info("listening", address="127.0.0.1:1")
    assert out.getvalue().endswith("[info     ] listening address=127.0.0.1:1 service=table\n")
    assert "\x1b" not in out.getvalue()


async def test_figures_for_prometheus() -> None:
    server = Server(Verifier({"keys": []}))
    counts = server.counts["/levata.table.v1.Table/Act"] = CallCounts(started=5, ended=3, failed=1)
    counts.refused["STALE"] += 2
    registry = CollectorRegistry()
    registry.register(ProcessCollector(server, asyncio.get_running_loop()))
    figures = generate_latest(registry).decode().splitlines()
    method = 'method="/levata.table.v1.Table/Act"'
    assert f"levata_rpc_calls_total{{{method}}} 5.0" in figures
    assert f"levata_rpc_open_calls{{{method}}} 2.0" in figures
    assert f"levata_rpc_failed_total{{{method}}} 1.0" in figures
    assert f'levata_rpc_refused_total{{{method},reason="STALE"}} 2.0' in figures
    assert f"levata_tasks {len(asyncio.all_tasks())}.0" in figures


@pytest.mark.parametrize("state", State)
def test_figures_tell_the_states_of_facts_apart(state: State) -> None:
    registry = CollectorRegistry()
    registry.register(Report("levata.facts.games", lambda: Status(state, 7, 9, None)))
    figures = generate_latest(registry).decode().splitlines()
    assert 'levata_facts_checkpoint{name="levata.facts.games"} 7.0' in figures
    assert 'levata_facts_head{name="levata.facts.games"} 9.0' in figures
    for each in State:
        value = float(each is state)
        assert f'levata_facts_state{{name="levata.facts.games",state="{each.value}"}} {value}' in figures
