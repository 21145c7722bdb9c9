"""What players buy for gold."""

from fractions import Fraction
from typing import Final
from uuid import UUID

from rules.values import value
from services.ledger.domain.catalogue import Catalogue
from services.ledger.domain.journal import Cause, CauseKind, Currency, Entry, House, Transfer, posted

COFFEES_AT_ONCE: Final = 3


@value
class Offer:
    """Coffees of one kind, and what they cost together."""

    coffee: Currency
    gold: int
    # What one multiplies a prize by.
    times: Fraction


def offers(catalogue: Catalogue) -> list[Offer]:
    """All that is sold."""
    return [Offer(coffee, catalogue.coffee_prices[coffee], times) for coffee, times in catalogue.coffees.items()]


def purchase_entry(account: UUID, request_id: UUID, coffee: Currency, gold: int) -> Entry:
    """Coffees for gold, at once."""
    shop = House.SHOP.value
    return posted(
        f"purchase:{account}:{request_id}",
        Cause(CauseKind.PURCHASE, str(request_id), "coffee"),
        [Transfer(account, shop, Currency.GOLD, gold), Transfer(shop, account, coffee, COFFEES_AT_ONCE)],
    )
