"""Taking the entry of a game back, by the dated policy (platform.md, "Rooms and quick play", refund)."""

from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from typing import Final
from uuid import UUID

from rules.values import value
from rules.vip import vip_weekdays
from services.ledger.domain.catalogue import Catalogue
from services.ledger.domain.journal import Cause, CauseKind, Currency, Entry, House, Transfer, posted

_HOUR_US: Final = 3_600_000_000


class RefundRefusal(StrEnum):
    """Why a game's entry is not given back; the value is the stable reason that clients see."""

    NOT_ELIGIBLE = "NOT_ELIGIBLE"
    REFUND_OF_A_WIN = "REFUND_OF_A_WIN"
    REFUND_TOO_LATE = "REFUND_TOO_LATE"
    NOT_A_VIP_DAY = "NOT_A_VIP_DAY"
    NO_REFUNDS_LEFT = "NO_REFUNDS_LEFT"
    NOTHING_TO_REFUND = "NOTHING_TO_REFUND"


@value
class PlayedGame:
    """A finished game as the refund sees it, of who held a seat at its end."""

    game_id: UUID
    account: UUID
    place: int
    eligible: bool
    finished_at_us: int
    # The day on which it finished: the number a day and the VIP condition go by it.
    day: date


def refusal_of(game: PlayedGame, refunded_that_day: int, now_us: int, catalogue: Catalogue) -> RefundRefusal | None:
    """The first reason against a refund; None for none. `refunded_that_day`: of games that finished on the same day."""
    if not game.eligible:
        return RefundRefusal.NOT_ELIGIBLE
    if game.place == 1:
        return RefundRefusal.REFUND_OF_A_WIN
    if now_us - game.finished_at_us > catalogue.refund_hours * _HOUR_US:
        return RefundRefusal.REFUND_TOO_LATE
    terms = catalogue.refund_terms(game.day)
    if terms is None:
        return RefundRefusal.NO_REFUNDS_LEFT
    if terms.vip_days_only and game.day.weekday() not in vip_weekdays(game.account):
        return RefundRefusal.NOT_A_VIP_DAY
    if refunded_that_day >= terms.games_a_day:
        return RefundRefusal.NO_REFUNDS_LEFT
    return None


def refund_entry(game_id: UUID, account: UUID, moved: Sequence[Transfer]) -> Entry | RefundRefusal:
    """What takes back all that a game moved between its player and the house: one entry, netted by currency.

    Refused if that would return nothing: then the player could only lose by it. The house's side is an account of its
    own, because what is netted was of several.
    """
    net: dict[Currency, int] = {}
    for transfer in moved:
        spent = transfer.amount if transfer.debit == account else -transfer.amount
        net[transfer.currency] = net.get(transfer.currency, 0) + spent
    if max(net.values(), default=0) <= 0:
        return RefundRefusal.NOTHING_TO_REFUND
    house = House.REFUNDS.value
    transfers = [
        Transfer(house, account, currency, amount) if amount > 0 else Transfer(account, house, currency, -amount)
        for currency, amount in net.items()
        if amount
    ]
    return posted(f"refund:{game_id}:{account}", Cause(CauseKind.GAME, str(game_id), "refund"), transfers)
