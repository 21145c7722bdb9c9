"""The games of tables that have just been opened: prepared by the table service, and kept with their tables."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

import structlog

from chassis.errors import in_a_line
from chassis.tasks import Background
from services.matchmaker.app.batches import CALLS_MAX, TABLES_MAX, Batches
from services.matchmaker.app.ports import Forming, Games, PreparedGame, PreparedTable
from services.matchmaker.domain.quick_play import QuickTable

log = structlog.get_logger(__name__)

PAUSE_SECONDS: Final = 0.3

# Of a table's id.
IsWanted = Callable[[UUID], bool]
Done = Callable[[UUID, PreparedGame], None]


class Preparing:
    """Has games prepared, those of many tables together."""

    def __init__(self, store: Forming, games: Games) -> None:
        self._store = store
        self._games = games
        self._asking = Batches("prepare games", self._prepare_all, TABLES_MAX, CALLS_MAX)
        self._tables = Background()

    def prepare(self, table: QuickTable, is_wanted: IsWanted, done: Done) -> None:
        """Have a table's game prepared, however long it takes, for as long as it is wanted."""
        self._tables.spawn("prepare a table", self._prepare(table, is_wanted, done))

    async def stop(self) -> None:
        """Prepare no more."""
        await self._tables.stop()
        await self._asking.stop()

    async def _prepare(self, table: QuickTable, is_wanted: IsWanted, done: Done) -> None:
        while is_wanted(table.table_id):
            try:
                prepared = await self._asking.ask(table)
            except Exception as error:
                log.warning("cannot prepare a game", error=in_a_line(error))
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                done(table.table_id, prepared)
                return

    async def _prepare_all(self, tables: Sequence[QuickTable]) -> Sequence[PreparedGame | Exception]:
        answers = await self._games.prepare_all(tables)
        await self._store.keep_prepared(
            [
                PreparedTable(table.table_id, answer.game_id, answer.commitment)
                for table, answer in zip(tables, answers, strict=True)
                if not isinstance(answer, Exception)
            ]
        )
        return answers
