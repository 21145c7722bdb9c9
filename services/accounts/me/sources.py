"""Who is asked for snapshots: this service's own tables, and other services."""

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias
from uuid import UUID

from levata.me.v1 import me_pb2, updates_pb2

from chassis.errors import Refused
from chassis.peers import Peers
from services.accounts.app.errors import account_not_found
from services.accounts.app.profiles import Profile, Profiles
from services.accounts.me.feed import ACCOUNT, Topic

SNAPSHOT_SECONDS: Final = 2.0
# Accounts of one question: as many as SnapshotAll takes.
ACCOUNTS_MAX: Final = 50

# Of one account.
Answer: TypeAlias = Sequence[updates_pb2.Update] | Refused


class Source(Protocol):
    """One service."""

    topic: Topic

    async def snapshots(self, account_ids: Sequence[UUID]) -> Sequence[Answer]:
        """All that it has to tell of each account now, in the order asked. A refusal with NOT_FOUND means that there
        is no such account; any other one, and whatever is raised, that it cannot tell now."""
        ...


class OwnAccount:
    """The account itself. Nothing else tells of it, so there is nothing to order by number."""

    topic = ACCOUNT

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles

    async def snapshots(self, account_ids: Sequence[UUID]) -> Sequence[Answer]:
        """The accounts as they are."""
        profiles = await self._profiles.profiles(account_ids)
        return [
            [_update(profiles[account_id])] if account_id in profiles else account_not_found()
            for account_id in account_ids
        ]


class Service:
    """Another service, which serves `Snapshots`."""

    def __init__(self, topic: Topic, replicas: Peers) -> None:
        self.topic = topic
        self._replicas = replicas

    async def snapshots(self, account_ids: Sequence[UUID]) -> Sequence[Answer]:
        """As the service tells it."""
        request = updates_pb2.SnapshotAllRequest(account_ids=map(str, account_ids))
        response: updates_pb2.SnapshotAllResponse = await self._replicas.ask("SnapshotAll", request, SNAPSHOT_SECONDS)
        return [
            Refused.from_status(each.refusal) if each.HasField("refusal") else each.snapshot.updates
            for each in response.accounts
        ]


def _update(profile: Profile) -> updates_pb2.Update:
    account = me_pb2.Account(
        account_id=str(profile.account.account_id),
        name=profile.account.name,
        guest=profile.account.guest,
        vip_weekdays=[weekday + 1 for weekday in profile.vip_weekdays],
        vip_today=profile.vip_today,
    )
    return updates_pb2.Update(account=account)
