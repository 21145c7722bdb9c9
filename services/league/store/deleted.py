"""Accounts that are no more."""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from chassis.database import Session

_ADD: Final = """
    insert into deleted_account (account_id, deleted_at)
    select account_id, timestamptz 'epoch' + at_us * interval '1 microsecond'
    from unnest($1::uuid[], $2::bigint[]) as d (account_id, at_us)
    on conflict do nothing"""


class Deletion(NamedTuple):
    """The end of an account."""

    account_id: UUID
    at_us: int


async def add_deletions(session: Session, deletions: Sequence[Deletion]) -> None:
    """Remember accounts that are no more, guests too; another time does nothing."""
    if deletions:
        await session.execute(_ADD, *map(list, zip(*deletions, strict=True)))
