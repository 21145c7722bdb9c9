"""levata.league.v1.Operations: what operators do with the league."""

from contextlib import aclosing
from typing import Final, assert_never

from levata.league.v1 import operations_pb2

from chassis.rpc import Access, Call, Server
from services.league.app.rebuild import Difference, Done, Progress, Rebuilder, Step

_OPERATIONS: Final = operations_pb2.DESCRIPTOR.services_by_name["Operations"]


def serve(server: Server, rebuilder: Rebuilder) -> None:
    """Add the operators' calls to a server."""
    server.add(_OPERATIONS, OperationsApi(rebuilder), Access.OPERATOR)


class OperationsApi:
    """levata.league.v1.Operations."""

    def __init__(self, rebuilder: Rebuilder) -> None:
        self._rebuilder = rebuilder

    async def rebuild(self, request: operations_pb2.RebuildRequest, call: Call) -> None:
        # Closed at once when the caller leaves, and not when the garbage is collected.
        async with aclosing(self._rebuilder.rebuild(dry_run=request.dry_run)) as steps:
            async for step in steps:
                await call.write(_step_message(step))


def _step_message(step: Step) -> operations_pb2.RebuildResponse:
    match step:
        case Progress(fact, head):
            progress = operations_pb2.RebuildProgress(fact=fact, head=head)
            return operations_pb2.RebuildResponse(progress=progress)
        case Difference(table, before, after):
            difference = operations_pb2.RowDifference(table=table, before=before, after=after)
            return operations_pb2.RebuildResponse(difference=difference)
        case Done(fact, ledger_fact, rows, differences, switched):
            done = operations_pb2.RebuildDone(
                fact=fact, ledger_fact=ledger_fact, rows=rows, differences=differences, switched=switched
            )
            return operations_pb2.RebuildResponse(done=done)
        case _:
            assert_never(step)
