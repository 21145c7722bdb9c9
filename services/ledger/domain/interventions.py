"""What operators do to a balance by hand: told to the player with a reason."""

from collections.abc import Sequence
from uuid import UUID

from services.ledger.domain.catalogue import Amounts
from services.ledger.domain.journal import Cause, CauseKind, Entry, House, Transfer, posted


def grant_entry(request_id: UUID, operator: str, account: UUID, gifts: Amounts, reason: str) -> Entry:
    """A gift."""
    transfers = [Transfer(House.GRANTS.value, account, currency, amount) for currency, amount in sorted(gifts)]
    return posted(_key(request_id), Cause(CauseKind.GRANT, operator, "grant", reason), transfers)


def correction_entry(request_id: UUID, operator: str, account: UUID, differences: Amounts, reason: str) -> Entry:
    """What puts balances right: so much more of a currency, or, below zero, less."""
    house = House.CORRECTIONS.value
    transfers: Sequence[Transfer] = [
        Transfer(house, account, currency, amount) if amount > 0 else Transfer(account, house, currency, -amount)
        for currency, amount in sorted(differences)
    ]
    return posted(_key(request_id), Cause(CauseKind.CORRECTION, operator, "correction", reason), transfers)


def _key(request_id: UUID) -> str:
    """One for both: a request id is used once."""
    return f"operator:{request_id}"
