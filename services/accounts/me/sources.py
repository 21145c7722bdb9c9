"""Who is asked for snapshots: this service's own tables, and other services."""

from collections.abc import Sequence
from typing import Final, Protocol
from uuid import UUID

from levata.me.v1 import me_pb2, updates_pb2

from chassis.peers import Peers
from services.accounts.app.profiles import Profiles
from services.accounts.me.feed import ACCOUNT, Topic

SNAPSHOT_SECONDS: Final = 2.0


class Source(Protocol):
    """One service."""

    topic: Topic

    async def snapshot(self, account_id: UUID) -> Sequence[updates_pb2.Update]:
        """All that it has to tell of an account now. Refused with NOT_FOUND if there is no such account; any other
        error means that it cannot tell now."""
        ...


class OwnAccount:
    """The account itself. Nothing else tells of it, so there is nothing to order by number."""

    topic = ACCOUNT

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles

    async def snapshot(self, account_id: UUID) -> Sequence[updates_pb2.Update]:
        """The account as it is."""
        profile = await self._profiles.profile(account_id)
        account = me_pb2.Account(
            account_id=str(account_id),
            name=profile.account.name,
            guest=profile.account.guest,
            vip_weekdays=[weekday + 1 for weekday in profile.vip_weekdays],
            vip_today=profile.vip_today,
        )
        return [updates_pb2.Update(account=account)]


class Service:
    """Another service, which serves `Snapshots`."""

    def __init__(self, topic: Topic, replicas: Peers) -> None:
        self.topic = topic
        self._replicas = replicas

    async def snapshot(self, account_id: UUID) -> Sequence[updates_pb2.Update]:
        """As the service tells it."""
        request = updates_pb2.SnapshotRequest(account_id=str(account_id))
        response: updates_pb2.SnapshotResponse = await self._replicas.ask("Snapshot", request, SNAPSHOT_SECONDS)
        return response.updates
