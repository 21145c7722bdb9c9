"""Records of games played, as they are read."""

from typing import Protocol
from uuid import UUID

from services.league.domain.records import Record


class Records(Protocol):
    """Where records are read."""

    async def of(self, account_id: UUID) -> Record:
        """An account's record and the fact that it is of, from one moment; empty for who has played nothing."""
        ...
