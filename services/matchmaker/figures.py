"""What a matchmaker replica tells of itself: figures for Prometheus, read from where they are kept, and in health
whether deals are held up.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chassis.rpc import Server
from chassis.telemetry import histogram
from services.matchmaker.app.dealing import Dealing
from services.matchmaker.app.forming import Former
from services.matchmaker.app.friendly import FriendlyTables

log = structlog.get_logger(__name__)

# What is told of deals in health.
HEALTH: Final = "levata.matchmaker.deals"
# A deal that takes so long is held up by another service: its people can neither play nor look for another table.
HELD_UP_SECONDS: Final = 15.0
LOOK_SECONDS: Final = 1.0
_POOL: Final = ("game", "variant")


class MatchmakerCollector(Collector):
    """Those who wait, tables on their way to a game, and friendly tables."""

    def __init__(self, formers: Sequence[Former], dealing: Dealing, tables: FriendlyTables) -> None:
        self._formers = formers
        self._dealing = dealing
        self._tables = tables

    async def keep_health(self, server: Server) -> None:
        """Say in health and log when deals begin or cease to be held up; runs until it is cancelled."""
        told: bool | None = None
        while True:
            held_up = self._dealing.oldest_seconds > HELD_UP_SECONDS
            if held_up is not told:
                told = held_up
                await server.set_health(HEALTH, not held_up)
                if held_up:
                    log.error("deals are held up", under_way=self._dealing.under_way)
                else:
                    log.info("deals are in time")
            await asyncio.sleep(LOOK_SECONDS)

    def collect(self) -> Iterable[Metric]:
        """Called by Prometheus' own thread."""
        yield from self._pools()
        yield from self._deals()
        yield GaugeMetricFamily(
            "levata_matchmaker_friendly_tables",
            "Friendly tables that wait, at all replicas together.",
            value=self._tables.waiting_count,
        )

    def _pools(self) -> Iterable[Metric]:
        waiting = GaugeMetricFamily(
            "levata_matchmaker_waiting", "Tickets without a table, where this replica forms them.", labels=_POOL
        )
        tables = GaugeMetricFamily(
            "levata_matchmaker_tables", "Tables without a game yet, where this replica forms them.", labels=_POOL
        )
        turn = GaugeMetricFamily("levata_matchmaker_turn", "1 where this replica forms the tables.", labels=_POOL)
        taken = CounterMetricFamily(
            "levata_matchmaker_turns_taken", "How often this replica began to form the tables.", labels=_POOL
        )
        for former in self._formers:
            waiting.add_metric(former.pool, former.waiting_count)
            tables.add_metric(former.pool, former.tables_count)
            turn.add_metric(former.pool, former.has_turn)
            taken.add_metric(former.pool, former.turns_taken)
        yield from (waiting, tables, turn, taken)

    def _deals(self) -> Iterable[Metric]:
        dealing, outcomes = self._dealing, self._dealing.outcomes
        yield histogram("levata_matchmaker_start_seconds", "From a player's wish to the game.", outcomes.wish_seconds)
        yield histogram(
            "levata_matchmaker_full_seconds", "From a table's being full to its game.", outcomes.full_seconds
        )
        ended = CounterMetricFamily("levata_matchmaker_deals", "Deals by what came of them.", labels=["result"])
        ended.add_metric(["started"], outcomes.started)
        ended.add_metric(["not_started"], outcomes.not_started)
        yield ended
        refused = CounterMetricFamily(
            "levata_matchmaker_entries_refused", "Players replaced by bots, by the reason.", labels=["reason"]
        )
        for reason, count in list(outcomes.refused.items()):
            refused.add_metric([reason], count)
        yield refused
        yield GaugeMetricFamily("levata_matchmaker_open_deals", "Deals under way here.", value=dealing.under_way)
        yield GaugeMetricFamily(
            "levata_matchmaker_oldest_deal_seconds", "How long the oldest of them takes.", value=dealing.oldest_seconds
        )
