"""How a consumer or a relay stands: health, figures and the log tell caught up, lagging and dead apart."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chassis.facts.health import State, Status
from chassis.rpc import Server

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 1.0


class Report(Collector):
    """Tells of one consumer or relay; the service itself goes on answering with what it knows.

    In health `name` serves unless it is dead, and `name`.caught_up while it is caught up; between these it is lagging.
    """

    def __init__(self, name: str, status: Callable[[], Status]) -> None:
        self._name = name
        self._status = status

    async def keep_health(self, server: Server) -> None:
        """Say in health and log how it stands, whenever that changes; runs until it is cancelled."""
        told: State | None = None
        while True:
            status = self._status()
            if status.state is not told:
                told = status.state
                await server.set_health(self._name, told is not State.DEAD)
                await server.set_health(f"{self._name}.caught_up", told is State.CAUGHT_UP)
                say = log.error if told is State.DEAD else log.info
                say(
                    "facts",
                    of=self._name,
                    state=told.value,
                    checkpoint=status.checkpoint,
                    head=status.head,
                    reason=status.reason,
                )
            await asyncio.sleep(LOOK_SECONDS)

    def collect(self) -> Iterable[Metric]:
        """Called by Prometheus' own thread."""
        status = self._status()
        checkpoint = GaugeMetricFamily("levata_facts_checkpoint", "The last fact that was handled.", labels=["name"])
        checkpoint.add_metric([self._name], status.checkpoint)
        head = GaugeMetricFamily("levata_facts_head", "The last fact that there is, as far as known.", labels=["name"])
        head.add_metric([self._name], status.head)
        states = GaugeMetricFamily("levata_facts_state", "1 for how it stands now.", labels=["name", "state"])
        for state in State:
            states.add_metric([self._name, state.value], state is status.state)
        yield from (checkpoint, head, states)
