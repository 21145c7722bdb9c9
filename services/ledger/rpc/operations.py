"""levata.ledger.v1.Operations: what operators do with the ledger."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Final, assert_never
from uuid import UUID

from levata.ledger.v1 import operations_pb2

from chassis.rpc import Access, Call, Server
from services.ledger.app.interventions import Interventions
from services.ledger.app.operations import Audited, BalanceDifference, EntryDifference, Operations, Progress, Step
from services.ledger.domain.journal import Balance, Currency, Transfer

_OPERATIONS: Final = operations_pb2.DESCRIPTOR.services_by_name["Operations"]
# Enough to see what is wrong; how many there are in all is told besides.
_SHOWN_MAX: Final = 1_000


def serve(server: Server, operations: Operations, interventions: Interventions) -> None:
    """Add the operators' calls to a server."""
    server.add(_OPERATIONS, OperationsApi(operations, interventions), Access.OPERATOR)


class OperationsApi:
    """levata.ledger.v1.Operations."""

    def __init__(self, operations: Operations, interventions: Interventions) -> None:
        self._operations = operations
        self._interventions = interventions

    async def rebuild(self, request: operations_pb2.RebuildRequest, call: Call) -> operations_pb2.RebuildResponse:
        rebuilt = await self._operations.rebuild(dry_run=request.dry_run)
        return operations_pb2.RebuildResponse(
            transfers=rebuilt.transfers,
            balances=rebuilt.balances,
            differences=len(rebuilt.differences),
            shown=map(_balance_difference, rebuilt.differences[:_SHOWN_MAX]),
            switched=rebuilt.switched,
        )

    async def audit(self, request: operations_pb2.AuditRequest, call: Call) -> None:
        # Closed at once when the caller leaves, and not when the garbage is collected.
        async with aclosing(self._operations.audit()) as steps:
            async for step in steps:
                await call.write(_step_message(step))

    async def grant(self, request: operations_pb2.GrantRequest, call: Call) -> operations_pb2.GrantResponse:
        number = await self._interventions.grant(
            UUID(request.request_id),
            call.who.subject,
            UUID(request.account_id),
            tuple((Currency(gift.currency), gift.amount) for gift in request.gifts),
            request.reason,
        )
        return operations_pb2.GrantResponse(number=number)

    async def correct(self, request: operations_pb2.CorrectRequest, call: Call) -> operations_pb2.CorrectResponse:
        number = await self._interventions.correct(
            UUID(request.request_id),
            call.who.subject,
            UUID(request.account_id),
            tuple((Currency(difference.currency), difference.amount) for difference in request.differences),
            request.reason,
        )
        return operations_pb2.CorrectResponse(number=number)


def _balance_difference(difference: BalanceDifference) -> operations_pb2.BalanceDifference:
    return operations_pb2.BalanceDifference(
        account_id=str(difference.account),
        currency=difference.currency.value,
        before=_row(difference.before),
        after=_row(difference.after),
    )


def _row(balance: Balance | None) -> operations_pb2.BalanceRow | None:
    return None if balance is None else operations_pb2.BalanceRow(posted=balance.posted, held=balance.held)


def _step_message(step: Step) -> operations_pb2.AuditResponse:
    match step:
        case Progress(fact, head):
            return operations_pb2.AuditResponse(progress=operations_pb2.AuditProgress(fact=fact, head=head))
        case EntryDifference(key, expected, found):
            difference = operations_pb2.EntryDifference(key=key, expected=_moves(expected), found=_moves(found))
            return operations_pb2.AuditResponse(difference=difference)
        case Audited(fact, games, entries, differences, parked):
            done = operations_pb2.AuditDone(
                fact=fact, games=games, entries=entries, differences=differences, parked=parked
            )
            return operations_pb2.AuditResponse(done=done)
        case _:
            assert_never(step)


def _moves(transfers: Sequence[Transfer] | None) -> operations_pb2.Moves | None:
    if transfers is None:
        return None
    moves = [
        operations_pb2.Move(debit=str(t.debit), credit=str(t.credit), currency=t.currency.value, amount=t.amount)
        for t in transfers
    ]
    return operations_pb2.Moves(moves=moves)
