"""Holds whose end is long in coming: the table service is asked to settle what became of their games.

Whoever held the entries may have died before the game was created. Asking closes the id for good unless the game was
created: one or the other is then the game's first commit, and its fact alone ends the hold. Replicas that ask at the
same time do no harm.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol
from uuid import UUID

import structlog
from grpc import StatusCode
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chassis.errors import Refused, in_a_line
from chassis.tasks import end
from services.ledger.app.ports import Entries

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 5.0
# One after another: more wait for the next round, which then begins at once.
GAMES_AT_ONCE: Final = 100
# A game that was asked about has its fact within seconds. If it has not, the fact is parked or its log was restored:
# asking does not mend that.
ASK_AGAIN_SECONDS: Final = 600
# While the table service does not answer: so long, then twice as long each time.
PAUSE_SECONDS: Final = 1.0
PAUSE_SECONDS_MAX: Final = 30.0
# Refusals that have nothing to do with the game that was asked about.
_OF_ANY_GAME: Final = {
    StatusCode.UNAVAILABLE,
    StatusCode.RESOURCE_EXHAUSTED,
    StatusCode.UNAUTHENTICATED,
    StatusCode.PERMISSION_DENIED,
}


class Games(Protocol):
    """The table service."""

    async def settle(self, game_id: UUID) -> None:
        """Answers once the game's first commit is there: what it is its fact will tell."""
        ...


class OldHolds(Collector):
    """Asks about them, as long as it runs."""

    def __init__(self, entries: Entries, games: Games, after_seconds: float) -> None:
        """`after_seconds`: how long a hold may be without an end before it is asked about."""
        self._entries = entries
        self._games = games
        self._after_seconds = after_seconds
        self._open = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look."""
        assert self._task is None, "started twice"
        self._task = asyncio.create_task(self._run(), name="old holds")

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            await end(self._task)
            self._task = None

    async def _run(self) -> None:
        look_seconds = min(LOOK_SECONDS, self._after_seconds)
        pause_seconds = PAUSE_SECONDS
        while True:
            try:
                asked_all = await self._ask_about_all()
            except Exception as error:
                log.warning("old holds cannot be settled now", error=in_a_line(error))
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, PAUSE_SECONDS_MAX)
            else:
                pause_seconds = PAUSE_SECONDS
                if asked_all:
                    await asyncio.sleep(look_seconds)

    async def _ask_about_all(self) -> bool:
        """Ask about those that are due; whether there were no more."""
        self._open = await self._entries.unsettled_count(self._after_seconds)
        due = await self._entries.unsettled(self._after_seconds, GAMES_AT_ONCE)
        for game_id in due:
            await self._ask_about(game_id)
        return len(due) < GAMES_AT_ONCE

    async def _ask_about(self, game_id: UUID) -> None:
        try:
            await self._games.settle(game_id)
        except Refused as refused:
            if refused.code in _OF_ANY_GAME:
                # Should it be this game's after all, the others have their turn before it is asked about again.
                await self._entries.asked(game_id, PAUSE_SECONDS_MAX)
                raise
            # Others are not to wait for this one.
            log.error("what became of a game cannot be settled", game=str(game_id), reason=refused.reason)
        await self._entries.asked(game_id, ASK_AGAIN_SECONDS)

    def collect(self) -> Iterable[Metric]:
        """Called by Prometheus' own thread."""
        yield GaugeMetricFamily(
            "levata_ledger_old_holds", "Games whose entries have been held for too long without an end.", self._open
        )
