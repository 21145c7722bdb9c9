"""`levata.me.v1.Snapshots`: what a service has to tell of accounts, for their streams of `Me.Watch`.

A service says how it reads many accounts at once; one account is asked for in the same way.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias
from uuid import UUID

import structlog
from levata.me.v1 import updates_pb2

from chassis.errors import Refused
from chassis.rpc import Access, Call, Server
from chassis.together import answer_each

log = structlog.get_logger(__name__)

_SERVICE: Final = updates_pb2.DESCRIPTOR.services_by_name["Snapshots"]

# All that there is to tell of each of these accounts, which are different ones, in the order asked.
Read: TypeAlias = Callable[[Sequence[UUID]], Awaitable[Iterable[Sequence[updates_pb2.Update]]]]


def serve(server: Server, read: Read, access: Access) -> None:
    """Add the service to a server."""
    server.add(_SERVICE, SnapshotsApi(read), access)


class SnapshotsApi:
    """levata.me.v1.Snapshots."""

    def __init__(self, read: Read) -> None:
        self._read = read

    async def snapshot(self, request: updates_pb2.SnapshotRequest, call: Call) -> updates_pb2.SnapshotResponse:
        return await self._snapshot(UUID(request.account_id))

    async def snapshot_all(
        self, request: updates_pb2.SnapshotAllRequest, call: Call
    ) -> updates_pb2.SnapshotAllResponse:
        accounts = list(map(UUID, request.account_ids))
        response = updates_pb2.SnapshotAllResponse()
        try:
            for updates in await self._read(accounts):
                response.accounts.add(snapshot=updates_pb2.SnapshotResponse(updates=updates))
        except Refused:
            raise
        except Exception:
            log.exception("accounts cannot be read together; each is read for itself")
            # What is wrong with one of them is no matter of the others.
            response.Clear()
            await answer_each(map(self._snapshot, accounts), response.accounts.add, "snapshot")
        return response

    async def _snapshot(self, account: UUID) -> updates_pb2.SnapshotResponse:
        (updates,) = await self._read([account])
        return updates_pb2.SnapshotResponse(updates=updates)
