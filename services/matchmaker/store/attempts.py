"""Attempts at the day's games in Postgres."""

from datetime import date
from typing import Final
from uuid import UUID

from chassis.database import Pool, refusing_while_away

_COUNTED: Final = "select game_id from daily_attempt where account_id = $1 and day = $2 and game_type = $3"
_KEEP: Final = """
    insert into daily_attempt (account_id, day, game_type, game_id) values ($1, $2, $3, $4) on conflict do nothing"""
_FORGET: Final = "delete from daily_attempt where day < (levata_now() - interval '7 days')::date"


class PostgresAttempts:
    """Implements `app.ports.Attempts`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def counted(self, account: UUID, day: date, game_type: str) -> UUID | None:
        """The game of the attempt that counts, if it has begun."""
        with refusing_while_away():
            game_id: UUID | None = await self._pool.fetchval(_COUNTED, account, day, game_type)
        return game_id

    async def keep(self, account: UUID, day: date, game_type: str, game_id: UUID) -> None:
        """It has begun."""
        with refusing_while_away():
            await self._pool.execute(_KEEP, account, day, game_type, game_id)

    async def forget(self) -> None:
        """Delete those of days long gone."""
        await self._pool.execute(_FORGET)
