"""The app's `Store` in the service's schema; Refused while the database is away."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID

from asyncpg import Record

from chassis.database import Pool, refusing_while_away
from services.accounts.app.ports import Allowance, Exhausted, StoredAccount
from services.accounts.domain.account import Account
from services.accounts.domain.sessions import Device, Session
from services.accounts.store.transaction import PostgresTransaction, account_in, ms

_PUT_CODE: Final = "select * from put_code($1, $2, $3, $4, $5, $6, $7)"
_ACCOUNTS: Final = "select account_id, name, guest from account where account_id = any($1)"
_STORED: Final = f"""
    select account_id, name, guest, a.address, {ms("created_at")} as created_at_ms,
           (select {ms("expires_at")} from sign_in_code c where c.address = a.address) as code_expires_at_ms,
           (select count(*) from mail_outbox m where m.address = a.address) as mails_waiting
    from account a where account_id = $1"""
_ALL_SESSIONS: Final = f"""
    select session_id, device_id, device_name, {ms("created_at")} as created_at_ms, {ms("seen_at")} as seen_at_ms,
           {ms("ended_at")} as ended_at_ms
    from session where account_id = $1"""
_SESSIONS_STORED: Final = f"{_ALL_SESSIONS} order by seen_at desc, session_id"
_SESSIONS_LIVE: Final = f"""
    {_ALL_SESSIONS} and ended_at is null and expires_at > levata_now()
    order by seen_at desc, session_id"""
_SHARED_DEVICES: Final = """
    with used as (
        select distinct account_id, device_id from session
        where account_id = any($1::uuid[]) and device_id <> ''
        and seen_at > levata_now() - $2::int * interval '1 day'
    )
    select distinct one.account_id, other.account_id
    from used one join used other on one.device_id = other.device_id and one.account_id < other.account_id
    order by 1, 2"""
_COMPANIONS: Final = """
    with used as (
        select distinct account_id, device_id from session
        where account_id = any($1::uuid[]) and device_id <> ''
        and seen_at > levata_now() - $2::int * interval '1 day'
    )
    select distinct least(u.account_id, s.account_id), greatest(u.account_id, s.account_id)
    from used u join session s on s.device_id = u.device_id and s.account_id <> u.account_id
    where s.seen_at > levata_now() - $2::int * interval '1 day'
    order by 1, 2"""
_FORGET_CODES: Final = "delete from sign_in_code where expires_at < levata_now()"
_FORGET_ALLOWANCES: Final = """
    delete from code_allowance where sent_at[cardinality(sent_at)] < levata_now() - interval '1 hour'"""
_FORGET_SESSIONS: Final = """
    delete from session
    where seen_at < levata_now() - $1::int * interval '1 day' and (ended_at is not null or expires_at < levata_now())"""


class PostgresStore:
    """Accounts, their sessions and codes."""

    def __init__(self, pool: Pool, refresh_token_seconds: int) -> None:
        self._pool = pool
        self._refresh_token_seconds = refresh_token_seconds

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[PostgresTransaction]:
        """Changes to be made together."""
        with refusing_while_away():
            async with self._pool.acquire() as session, session.transaction():
                yield PostgresTransaction(session, self._refresh_token_seconds)

    async def put_code(
        self,
        allowances: Sequence[Allowance],
        address: str,
        code_id: UUID,
        code_hash: bytes,
        seconds: int,
        language: str,
    ) -> int | Exhausted:
        """Make this the address's live code and have it mailed, unless an allowance is exhausted."""
        keys, limits = [each.key for each in allowances], [each.per_hour for each in allowances]
        with refusing_while_away():
            put = await self._pool.fetchrow(_PUT_CODE, keys, limits, address, code_id, code_hash, seconds, language)
        assert put is not None
        if put["exhausted"]:
            return Exhausted(allowances[put["exhausted"] - 1], put["wait_ms"])
        return int(put["expires_at_ms"])

    async def accounts(self, account_ids: Sequence[UUID]) -> dict[UUID, Account]:
        """The accounts of these ids, without those that are no more."""
        return {row["account_id"]: Account(*row) for row in await self._fetch(_ACCOUNTS, account_ids)}

    async def stored(self, account_id: UUID) -> StoredAccount | None:
        """All about an account."""
        with refusing_while_away():
            record = await self._pool.fetchrow(_STORED, account_id)
            account = account_in(record)
            if record is None or account is None:
                return None
            sessions = await self._pool.fetch(_SESSIONS_STORED, account_id)
        return StoredAccount(
            account,
            record["address"],
            record["created_at_ms"],
            record["code_expires_at_ms"],
            record["mails_waiting"],
            list(map(_session, sessions)),
        )

    async def sessions(self, account_id: UUID) -> list[Session]:
        """An account's live sessions, the last seen first."""
        return list(map(_session, await self._fetch(_SESSIONS_LIVE, account_id)))

    async def shared_devices(self, account_ids: list[UUID], days: int) -> list[tuple[UUID, UUID]]:
        """Which of these accounts were used on one device in the last days, each pair once and in order."""
        return [(one, other) for one, other in await self._fetch(_SHARED_DEVICES, account_ids, days)]

    async def companions(self, account_ids: list[UUID], days: int) -> list[tuple[UUID, UUID]]:
        """These accounts and all that were used on one device with them in the last days, as pairs, each once."""
        return [(one, other) for one, other in await self._fetch(_COMPANIONS, account_ids, days)]

    async def forget(self, days: int) -> None:
        """Delete codes and allowances that count no more, and dead sessions that were not seen for so many days."""
        await self._fetch(_FORGET_CODES)
        await self._fetch(_FORGET_ALLOWANCES)
        await self._fetch(_FORGET_SESSIONS, days)

    async def _fetch(self, query: str, *arguments: Any) -> Sequence[Record]:
        with refusing_while_away():
            return await self._pool.fetch(query, *arguments)


def _session(record: Record) -> Session:
    device = Device(record["device_id"], record["device_name"])
    return Session(record["session_id"], device, record["created_at_ms"], record["seen_at_ms"], record["ended_at_ms"])
