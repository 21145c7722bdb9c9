"""What a process tells about itself: logs on standard output, and figures for Prometheus.

Everything that logs through the standard library (grpc, asyncpg, asyncio) comes out in the same form. Figures are kept
as plain numbers where things happen and are collected when somebody asks, so that the hot paths pay next to nothing.
"""

import asyncio
import logging
import sys
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Literal, TextIO

import asyncpg
import structlog
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from chassis.figures import Histogram
from chassis.log import GroupWriter
from chassis.rpc import Server
from chassis.settings import Address


def configure_logging(
    service_name: str, log_format: Literal["text", "json"], level: str, out: TextIO = sys.stdout
) -> None:
    """One line per entry, each with time, level and service."""

    def add_service(_: object, __: str, entry: structlog.typing.EventDict) -> structlog.typing.EventDict:
        entry["service"] = service_name
        return entry

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        add_service,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    finish: list[structlog.typing.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    # Tracebacks without local variables, which hold passwords, tokens and hands.
    if log_format == "json":
        tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        finish += [structlog.processors.ExceptionRenderer(tracebacks), structlog.processors.JSONRenderer()]
    else:
        finish.append(
            structlog.dev.ConsoleRenderer(
                colors=out.isatty(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
            )
        )

    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=finish, foreign_pre_chain=shared))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


class ProcessCollector(Collector):
    """Figures of a server, its tasks and its pool; after a storm of cancelled calls all that is open is as before."""

    def __init__(
        self,
        server: Server,
        loop: asyncio.AbstractEventLoop,
        pool: "asyncpg.Pool[asyncpg.Record] | None" = None,
    ) -> None:
        self._server = server
        self._loop = loop
        self._pool = pool

    def collect(self) -> Iterable[Metric]:
        """Called by Prometheus' own thread."""
        yield from self._calls()
        yield CounterMetricFamily(
            "levata_rpc_read_later",
            "Messages of streams that waited because their callers send too many.",
            value=self._server.messages_read_later,
        )
        yield GaugeMetricFamily("levata_rpc_callers", "Callers whose rates are kept.", value=self._server.callers)
        yield GaugeMetricFamily(
            "levata_revoked_sessions",
            "Sessions whose tokens are refused though they have not run out.",
            value=self._server.revoked_sessions,
        )
        tasks = len(asyncio.all_tasks(self._loop))
        yield GaugeMetricFamily("levata_tasks", "Tasks of the event loop.", value=tasks)
        if self._pool is not None:
            connections = GaugeMetricFamily("levata_pool_connections", "Connections to Postgres.", labels=["state"])
            idle = self._pool.get_idle_size()
            connections.add_metric(["idle"], idle)
            connections.add_metric(["used"], self._pool.get_size() - idle)
            yield connections

    def _calls(self) -> Iterator[Metric]:
        started = CounterMetricFamily("levata_rpc_calls", "Calls since the start.", labels=["method"])
        open_now = GaugeMetricFamily("levata_rpc_open_calls", "Calls that run now.", labels=["method"])
        refused = CounterMetricFamily("levata_rpc_refused", "Refused calls.", labels=["method", "reason"])
        failed = CounterMetricFamily("levata_rpc_failed", "Calls that failed through our fault.", labels=["method"])
        for method, counts in self._server.counts.items():
            started.add_metric([method], counts.started)
            open_now.add_metric([method], counts.started - counts.ended)
            failed.add_metric([method], counts.failed)
            for reason, count in list(counts.refused.items()):
                refused.add_metric([method, reason], count)
        yield from (started, open_now, refused, failed)


class LogCollector(Collector):
    """Figures of an event log's writer."""

    def __init__(self, writer: GroupWriter) -> None:
        self._writer = writer

    def collect(self) -> Iterable[Metric]:
        """Called by Prometheus' own thread."""
        counts = self._writer.counts
        rows = CounterMetricFamily("levata_log_rows", "Rows by what became of them.", labels=["result"])
        for result, count in counts.results.items():
            rows.add_metric([result.value], count)
        yield rows
        yield histogram("levata_log_batch_rows", "Rows that were committed together.", counts.rows)
        yield histogram("levata_log_commit_seconds", "How long a commit takes.", counts.seconds)
        yield GaugeMetricFamily("levata_log_waiting", "Rows that wait for the commit under way.", self._writer.waiting)
        yield GaugeMetricFamily("levata_log_connected", "1 while rows can be written.", int(self._writer.connected))


def histogram(name: str, documentation: str, counted: Histogram) -> HistogramMetricFamily:
    """As Prometheus has it: with the number of all values up to each bound."""
    bounds = [*map(str, counted.bounds), "+Inf"]
    buckets = list(zip(bounds, accumulate(counted.counts), strict=True))
    return HistogramMetricFamily(name, documentation, buckets=buckets, sum_value=counted.total)


def serve_metrics(address: Address, collectors: Iterable[Collector]) -> None:
    """Answer Prometheus at `address`, in a thread, until the process ends."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    start_http_server(address.port, address.host, registry)
