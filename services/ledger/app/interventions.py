"""What operators do to balances by hand."""

from uuid import UUID

from services.ledger.app.mondays import account_not_found
from services.ledger.app.ports import Journal, Members
from services.ledger.app.refusals import refuse_unless_stands
from services.ledger.domain.catalogue import Amounts
from services.ledger.domain.interventions import correction_entry, grant_entry
from services.ledger.domain.journal import Entry


class Interventions:
    """Grants and corrections. Safe to repeat, under one request id each."""

    def __init__(self, journal: Journal, members: Members) -> None:
        self._journal = journal
        self._members = members

    async def grant(self, request_id: UUID, operator: str, account: UUID, gifts: Amounts, reason: str) -> int:
        """Give an account something; answers with the entry's number."""
        return await self._post(account, grant_entry(request_id, operator, account, gifts, reason))

    async def correct(self, request_id: UUID, operator: str, account: UUID, differences: Amounts, reason: str) -> int:
        """Put an account's balances right; answers with the entry's number."""
        return await self._post(account, correction_entry(request_id, operator, account, differences, reason))

    async def _post(self, account: UUID, entry: Entry) -> int:
        # An id that is mistyped would be given money for ever.
        is_known = await self._members.is_known(account)
        decided = await (self._journal.post(entry) if is_known else self._journal.find(entry))
        if decided is None:
            raise account_not_found()
        refuse_unless_stands(decided, entry.key, "The account has too little that is free.")
        return decided.number
