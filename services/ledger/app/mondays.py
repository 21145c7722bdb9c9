"""Monday's coffees: brought when an account is next seen, for every Monday since, also if it was away for long."""

from collections.abc import Callable, Sequence
from datetime import date
from uuid import UUID

from grpc import StatusCode

from chassis.errors import Refused
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

    async def greet(self, account: UUID) -> None:
        """Bring what is due to an account that calls for itself; refused with ACCOUNT_NOT_FOUND if it is no more."""
        seen = await self._members.seen(account, self._this_monday())
        if seen.is_deleted:
            raise account_not_found()
        if seen.monday_is_due:
            await self.bring([account])

    async def bring(self, accounts: Sequence[UUID]) -> None:
        """Call it before balances are read or spent; cheap when nothing is due. Guests have no Mondays."""
        monday = self._this_monday()
        await self._members.bring_mondays(
            accounts, monday, lambda account, after: monday_entries(account, after, monday, self._catalogue.monday)
        )

    def _this_monday(self) -> date:
        return week_of(day_of(self._now_us(), self._catalogue.zone))


def account_not_found() -> Refused:
    """The account is no more, or never was."""
    return Refused("ACCOUNT_NOT_FOUND", StatusCode.NOT_FOUND, "There is no such account.")
