"""Monday's coffees: brought when an account is next seen, for every Monday since, also if it was away for long."""

from collections.abc import Callable, Sequence
from uuid import UUID

from rules.calendar import day_of, week_of
from services.ledger.app.ports import Members
from services.ledger.domain.catalogue import Catalogue
from services.ledger.domain.grants import monday_entries


class Mondays:
    """Brings what is due."""

    def __init__(self, members: Members, catalogue: Catalogue, now_us: Callable[[], int]) -> None:
        self._members = members
        self._catalogue = catalogue
        self._now_us = now_us

    async def bring(self, accounts: Sequence[UUID]) -> None:
        """Call it before balances are read or spent; cheap when nothing is due. Guests have no Mondays."""
        monday = week_of(day_of(self._now_us(), self._catalogue.zone))
        await self._members.bring_mondays(
            accounts, monday, lambda account, after: monday_entries(account, after, monday, self._catalogue.monday)
        )
