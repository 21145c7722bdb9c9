"""Games that a bench is done with: cancelled as an operator would have to, by a commit on top of their logs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from chassis.clock import Clock
from chassis.database import Pool, open_pool
from chassis.log import AppendResult, GroupWriter, LogReader
from services.table.domain import Cancelled, Commit
from services.table.store.log import GameLog

EVERY_SECONDS: Final = 0.1

_CHAINS: Final = "select game_id, version, chain from game_log where game_id = any($1) order by game_id, version"
# Their host lets them go when it next compares.
_OVER: Final = "update game_hosts set over = true where game_id = any($1)"


class Cancelling:
    """Cancels games that have just begun, many together."""

    def __init__(self, pool: Pool, log: GameLog) -> None:
        self._pool = pool
        self._log = log
        self._clock = Clock()
        self._waiting: list[UUID] = []

    def cancel(self, game_id: UUID) -> None:
        """Cancel a game soon."""
        self._waiting.append(game_id)

    async def go_on(self) -> None:
        """Cancel what waits, until this is cancelled itself."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            games, self._waiting = self._waiting, []
            if games:
                await self._cancel(games)

    async def _cancel(self, games: list[UUID]) -> None:
        heads = {row["game_id"]: row for row in await self._pool.fetch(_CHAINS, games)}
        for game_id, head in heads.items():
            commit = Commit(head["version"] + 1, self._clock.now_us(), (Cancelled("of a bench"),))
            self._log.submit(game_id, head["chain"], None, commit, None, None, self._cancelled)
        await self._pool.execute(_OVER, games)

    def _cancelled(self, result: AppendResult) -> None:
        # Who is beaten by a bot's move leaves the game to its host.
        assert result is not AppendResult.FAILED


@asynccontextmanager
async def cancelling(dsn: str) -> AsyncIterator[Cancelling]:
    """With the table service's own role."""
    async with await open_pool(dsn, "levata bench", connections_max=2) as pool, GroupWriter(dsn) as writer:
        cancels = Cancelling(pool, GameLog(writer, LogReader(pool)))
        work = asyncio.create_task(cancels.go_on())
        try:
            yield cancels
        finally:
            work.cancel()
