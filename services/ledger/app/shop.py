"""Buying coffee."""

from uuid import UUID

from grpc import StatusCode

from chassis.errors import Refused
from services.ledger.app.ports import Journal
from services.ledger.app.refusals import refuse_unless_stands
from services.ledger.domain.catalogue import Catalogue
from services.ledger.domain.journal import Changes, Currency, changes
from services.ledger.domain.shop import Offer, offers, purchase_entry


class Shop:
    """Sells coffee for gold."""

    def __init__(self, journal: Journal, catalogue: Catalogue) -> None:
        self._journal = journal
        self._prices = catalogue.coffee_prices
        self._offers = offers(catalogue)

    def offers(self) -> list[Offer]:
        """All that is sold."""
        return self._offers

    async def buy(self, account: UUID, request_id: UUID, coffee: Currency, gold: int) -> Changes:
        """Buy coffee at the price that the buyer was shown; refused with PRICE_CHANGED if it has another one by now.

        Safe to repeat: what was bought at the old price is answered again, whatever it costs today.
        """
        entry = purchase_entry(account, request_id, coffee, gold)
        price = self._prices[coffee]
        decided = await (self._journal.post(entry) if gold == price else self._journal.find(entry))
        if decided is None:
            raise Refused(
                "PRICE_CHANGED", StatusCode.FAILED_PRECONDITION, "It has another price now.", {"gold": str(price)}
            )
        refuse_unless_stands(decided, entry.key, "There is too little gold.")
        return changes(account, entry.transfers)
