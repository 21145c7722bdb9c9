"""Taking a game's entry back."""

from collections.abc import Callable
from typing import assert_never
from uuid import UUID

from grpc import StatusCode

from chassis.errors import Refused
from services.ledger.app.ports import Refunds
from services.ledger.app.refusals import refuse_unless_stands, request_id_reused
from services.ledger.domain.catalogue import Catalogue
from services.ledger.domain.journal import Changes, changes
from services.ledger.domain.refunds import RefundRefusal, refund_entry, refusal_of


class RefundDesk:
    """Gives entries back, by the dated policy."""

    def __init__(self, refunds: Refunds, catalogue: Catalogue, now_us: Callable[[], int]) -> None:
        self._refunds = refunds
        self._catalogue = catalogue
        self._now_us = now_us

    async def refund(self, account: UUID, game_id: UUID, request_id: UUID) -> Changes:
        """Take the entry of a game back; what it won goes back with it.

        Safe to repeat: the same request gets the first answer again, however late. Once per game, so that another
        request is refused with ALREADY_REFUNDED.
        """
        async with self._refunds.refunding(account, game_id) as refunding:
            played = await refunding.played()
            if played is None:
                raise Refused("NOT_PLAYED", StatusCode.NOT_FOUND, "You held no seat when this game finished.")
            if played.refund_request == request_id:
                return changes(account, await refunding.refunded())
            if await refunding.is_used(request_id):
                raise request_id_reused()
            if played.refund_request is not None:
                raise Refused("ALREADY_REFUNDED", StatusCode.FAILED_PRECONDITION, "This entry was taken back already.")
            now_us = self._now_us()
            refusal = refusal_of(played.game, played.refunded_that_day, now_us, self._catalogue)
            if refusal is not None:
                raise _refused(refusal)
            entry = refund_entry(game_id, account, await refunding.moved())
            if isinstance(entry, RefundRefusal):
                raise _refused(entry)
            decided = await refunding.refund(played, entry, request_id, now_us)
            refuse_unless_stands(decided, entry.key, "What the game won was spent: it cannot go back.")
            return changes(account, entry.transfers)


def _refused(refusal: RefundRefusal) -> Refused:
    match refusal:
        case RefundRefusal.NOT_ELIGIBLE:
            return Refused("NOT_ELIGIBLE", StatusCode.FAILED_PRECONDITION, "Too few of the deals were your own.")
        case RefundRefusal.REFUND_OF_A_WIN:
            return Refused("REFUND_OF_A_WIN", StatusCode.FAILED_PRECONDITION, "The entry of a game that was won stays.")
        case RefundRefusal.REFUND_TOO_LATE:
            return Refused(
                "REFUND_TOO_LATE", StatusCode.FAILED_PRECONDITION, "The time for taking the entry back is over."
            )
        case RefundRefusal.NOT_A_VIP_DAY:
            return Refused(
                "NOT_A_VIP_DAY", StatusCode.FAILED_PRECONDITION, "The game did not finish on one of your VIP days."
            )
        case RefundRefusal.NO_REFUNDS_LEFT:
            return Refused(
                "NO_REFUNDS_LEFT", StatusCode.FAILED_PRECONDITION, "No more entries of that day can be taken back."
            )
        case RefundRefusal.NOTHING_TO_REFUND:
            return Refused(
                "NOTHING_TO_REFUND", StatusCode.FAILED_PRECONDITION, "Taking this entry back would return nothing."
            )
        case _:
            assert_never(refusal)
