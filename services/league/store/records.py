"""Records, read from the live build of the projection."""

from typing import Final
from uuid import UUID

from chassis.database import Pool, refusing_while_away
from services.league.domain.records import PlaceCount, Record, game_records
from services.league.store.names import GAMES_CONSUMER

# One statement, so that counts and checkpoint are of one moment.
_RECORD: Final = """
    select checkpoint.last, counted.game_type, counted.place, counted.games
    from consumer_checkpoint as checkpoint
    cross join live_build
    left join place_count as counted on counted.build = live_build.build and counted.account_id = $2
    where checkpoint.consumer = $1"""


class PostgresRecords:
    """Implements `app.records.Records`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def of(self, account_id: UUID) -> Record:
        """An account's record."""
        with refusing_while_away():
            rows = await self._pool.fetch(_RECORD, GAMES_CONSUMER, account_id)
        counts = [
            PlaceCount(row["game_type"], row["place"], row["games"]) for row in rows if row["game_type"] is not None
        ]
        # Without a checkpoint nothing was ever heard.
        return Record(account_id, game_records(counts), rows[0]["last"] if rows else 0)
