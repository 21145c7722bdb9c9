"""Accounts in Postgres."""

from typing import Final
from uuid import UUID

import asyncpg

from chassis.database import Pool, refusing_while_away
from services.accounts.app import Addition
from services.accounts.domain import Account

_COLUMNS: Final = "account_id, name, guest"

_BY_ID: Final = f"select {_COLUMNS} from account where account_id = $1"

_BY_REQUEST: Final = f"select {_COLUMNS} from guest_request join account using (account_id) where request_hash = $1"

# Both rows or none. A name that is taken adds nothing; a request that is known fails the statement.
_ADD_GUEST: Final = """
    with added as (
        insert into account (account_id, name, guest) values ($1, $2, true)
        on conflict (name) do nothing
        returning account_id
    )
    insert into guest_request (request_hash, account_id) select $3, account_id from added
    returning account_id
"""


class PostgresStore:
    """The app's `Store` in the service's schema; Refused while the database is away."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def by_id(self, account_id: UUID) -> Account | None:
        """The account of this id."""
        return await self._one(_BY_ID, account_id)

    async def guest_by_request(self, request_hash: bytes) -> Account | None:
        """The guest that was made for this request."""
        return await self._one(_BY_REQUEST, request_hash)

    async def add_guest(self, guest: Account, request_hash: bytes) -> Addition:
        """Add a guest and the request that it is made for, unless its name or the request is there already."""
        with refusing_while_away():
            try:
                added = await self._pool.fetchval(_ADD_GUEST, guest.account_id, guest.name, request_hash)
            except asyncpg.UniqueViolationError as error:
                if error.constraint_name != "guest_request_pkey":
                    raise
                return Addition.REQUEST_KNOWN
        return Addition.NAME_TAKEN if added is None else Addition.ADDED

    async def _one(self, query: str, key: UUID | bytes) -> Account | None:
        with refusing_while_away():
            row = await self._pool.fetchrow(query, key)
        return None if row is None else Account(row["account_id"], row["name"], row["guest"])
