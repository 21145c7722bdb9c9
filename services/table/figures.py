"""Figures of a table replica for Prometheus, read from where they are kept."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chassis.telemetry import histogram
from services.table.app.audience import Audiences
from services.table.app.following import Following
from services.table.app.host import Host


class TableCollector(Collector):
    """Games and their streams."""

    def __init__(self, host: Host, following: Following, audiences: Audiences) -> None:
        self._host = host
        self._following = following
        self._audiences = audiences

    def collect(self) -> Iterable[Metric]:
        """Called by Prometheus' own thread."""
        host = self._host
        games = GaugeMetricFamily("levata_table_games", "Games on this replica.", labels=["state"])
        games.add_metric(["hosted"], len(host.games))
        games.add_metric(["followed"], self._following.count)
        games.add_metric(["watched"], len(self._audiences.open))
        games.add_metric(["stopped"], len(host.stopped))
        yield games
        streams = sum(len(audience.subscriptions) for audience in list(self._audiences.open))
        yield GaugeMetricFamily("levata_table_streams", "Streams that hear of games.", value=streams)
        yield histogram(
            "levata_table_mailbox_seconds", "How long requests waited for those before them.", host.mailbox_seconds
        )
        yield CounterMetricFamily(
            "levata_table_claims",
            "Games taken over from replicas that were silent or had released them.",
            value=host.claimed_count,
        )
        yield CounterMetricFamily(
            "levata_table_beaten", "Games that another replica has taken from this one.", value=host.beaten_count
        )
        yield GaugeMetricFamily(
            "levata_table_sure",
            "1 while no game of this replica can have become another's.",
            value=int(host.heartbeat.is_sure),
        )
