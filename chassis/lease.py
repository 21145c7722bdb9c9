"""Work that one replica at a time should do.

Thrift only: a process that was stopped and goes on may believe for a moment that it still holds a lease which another
one has. What is at stake is guarded by compare-and-set in its own transaction.
"""

from typing import Final
from uuid import uuid4

from chassis.database import Session

# Who has not been seen for so long has lost it.
LEASE_SECONDS: Final = 3
# How often the holder must call `hold`.
RENEW_SECONDS: Final = 1

# A time ahead of ours is as old as one behind: the clock's offset was changed.
_HOLD: Final = f"""
    insert into lease (name, holder, seen_at) values ($1, $2, levata_now())
    on conflict (name) do update set holder = excluded.holder, seen_at = excluded.seen_at
    where lease.holder = excluded.holder
       or abs(extract(epoch from excluded.seen_at - lease.seen_at)) > {LEASE_SECONDS}
    returning true"""
_RELEASE: Final = "update lease set seen_at = 'epoch' where name = $1 and holder = $2"


class Lease:
    """One replica's part in the contest for a named lease."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._holder = uuid4()

    async def hold(self, session: Session) -> bool:
        """Take or keep the lease, if nobody else has it."""
        return await session.fetchval(_HOLD, self._name, self._holder) is not None

    async def release(self, session: Session) -> None:
        """Let others have it at once."""
        await session.execute(_RELEASE, self._name, self._holder)
