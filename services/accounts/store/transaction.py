"""The statements of a use case that changes something, in one transaction."""

from typing import Final
from uuid import UUID

from asyncpg import Record

from chassis.database import Session
from chassis.facts import publish
from services.accounts.app.ports import Held, Opened
from services.accounts.domain.account import Account, Event
from services.accounts.domain.codes import LiveCode
from services.accounts.domain.names import Name
from services.accounts.domain.sessions import Device, Kept, RefreshToken
from services.accounts.store.facts import fact_of


def ms(column: str) -> str:
    """SQL for a time in milliseconds since 1970."""
    return f"(extract(epoch from {column}) * 1000)::bigint"


def account_in(record: Record | None) -> Account | None:
    """The account that a row tells of."""
    return None if record is None else Account(record["account_id"], record["name"], record["guest"])


# Seconds, as parameter number `nth`, from now on.
def _from_now(nth: int) -> str:
    return f"levata_now() + ${nth}::int * interval '1 second'"


_CLAIM_REQUEST: Final = "select pg_advisory_xact_lock($1)"
_ACCOUNT_COLUMNS: Final = "account_id, name, guest"
_GUEST_OF_REQUEST: Final = f"""
    select {_ACCOUNT_COLUMNS} from guest_request join account using (account_id) where request_hash = $1"""
_ADD_ACCOUNT: Final = """
    insert into account (account_id, name, guest, address) values ($1, $2, $3, $4)
    on conflict (name) do nothing returning true"""
_REMEMBER_GUEST: Final = "insert into guest_request (request_hash, account_id) values ($1, $2)"
_REGISTER: Final = f"""
    update account set guest = false, address = $2 where account_id = $1 and guest returning {_ACCOUNT_COLUMNS}"""
_LOCK_ACCOUNT: Final = f"select {_ACCOUNT_COLUMNS} from account where account_id = $1 for update"
# Looks that the account has already are found as well as new ones; another's are not. In order, so that two who want
# the same ones wait for each other and not for ever.
_ADD_LOOKS: Final = """
    insert into name_look as known (look, account_id) select look, $1 from unnest($2::text[]) look order by look
    on conflict (look) do update set account_id = known.account_id where known.account_id = excluded.account_id
    returning true"""
_DROP_OTHER_LOOKS: Final = "delete from name_look where account_id = $1 and look <> all($2::text[])"
_SET_NAME: Final = "update account set name = $2 where account_id = $1"
_DROP_CODE: Final = """
    with address_of as (select address from account where account_id = $1), dropped as (
        delete from sign_in_code where address = (select address from address_of)
    )
    delete from mail_outbox where address = (select address from address_of)"""
_DELETE_ACCOUNT: Final = "delete from account where account_id = $1"

_TRY_CODE: Final = """
    update sign_in_code set attempts = attempts + 1
    where address = $1 and attempts < $2 and spent_by is null and expires_at > levata_now()
    returning code_id, code_hash, attempts"""
_SPENT_CODE: Final = """
    select code_id, code_hash, attempts from sign_in_code
    where address = $1 and spent_by is not null and expires_at > levata_now()"""
_SPEND_CODE: Final = f"""
    with spent as (update sign_in_code set spent_by = $2 where code_id = $1 returning address)
    select {_ACCOUNT_COLUMNS} from spent join account using (address)"""

_OPEN_SESSION: Final = f"""
    insert into session
        (session_id, account_id, device_id, device_name, family_hash, refresh_hash, opened_by, expires_at)
    values ($1, $2, $3, $4, $5, $6, $7, {_from_now(8)})
    returning {ms("expires_at")}"""
_REOPEN_SESSION: Final = f"""
    update session s set seen_at = levata_now(), expires_at = {_from_now(2)}
    from account a
    where opened_by = $1 and rotated_by is null and ended_at is null and a.account_id = s.account_id
    returning session_id, {ms("expires_at")} as expires_at_ms, a.account_id, name, guest"""
_HOLD_SESSION: Final = f"""
    select a.account_id, name, guest, family_hash, refresh_hash, previous_hash, rotated_by,
           ended_at is not null as ended, expires_at <= levata_now() as expired, {ms("expires_at")} as expires_at_ms
    from session s join account a using (account_id) where session_id = $1 for update of s"""
_ROTATE_SESSION: Final = f"""
    update session set refresh_hash = $2, previous_hash = $3, rotated_by = $4, seen_at = levata_now(),
        expires_at = {_from_now(5)}
    where session_id = $1 returning {ms("expires_at")}"""
_END_SESSION: Final = """
    update session set ended_at = levata_now()
    where session_id = $2 and account_id = $1 and ended_at is null returning true"""
_END_SESSIONS: Final = """
    update session set ended_at = levata_now() where account_id = $1 and ended_at is null returning session_id"""


class PostgresTransaction:
    """The app's `Transaction` on one connection."""

    def __init__(self, session: Session, refresh_token_seconds: int) -> None:
        self._session = session
        self._refresh_token_seconds = refresh_token_seconds

    async def claim_request(self, request_hash: bytes) -> None:
        """Let nobody else work on this request until the end."""
        await self._session.execute(_CLAIM_REQUEST, int.from_bytes(request_hash[:8], "big", signed=True))

    # Accounts

    async def guest_of_request(self, request_hash: bytes) -> Account | None:
        """The account that was made for a guest's request."""
        return account_in(await self._session.fetchrow(_GUEST_OF_REQUEST, request_hash))

    async def add_account(self, account: Account, address: str | None) -> bool:
        """Keep a new account; False, and no change, where its name is taken."""
        added = await self._session.fetchval(_ADD_ACCOUNT, account.account_id, account.name, account.guest, address)
        return added is not None

    async def remember_guest(self, request_hash: bytes, account_id: UUID) -> None:
        """Let a guest's request be repeated."""
        await self._session.execute(_REMEMBER_GUEST, request_hash, account_id)

    async def register(self, account_id: UUID, address: str) -> Account | None:
        """Give a guest an address, which is nobody's; None, and no change, if there is no such guest any more."""
        return account_in(await self._session.fetchrow(_REGISTER, account_id, address))

    async def lock_account(self, account_id: UUID) -> Account | None:
        """An account that nobody else changes until the end."""
        return account_in(await self._session.fetchrow(_LOCK_ACCOUNT, account_id))

    async def lock_to_delete(self, account_id: UUID) -> Account | None:
        """As `lock_account`, after what waits for the account's address was deleted."""
        await self._session.execute(_DROP_CODE, account_id)
        return await self.lock_account(account_id)

    async def set_name(self, account_id: UUID, name: Name) -> bool:
        """Give an account a name and its looks; False where another has one of them: then nothing may follow."""
        looks = list(name.looks)
        if len(await self._session.fetch(_ADD_LOOKS, account_id, looks)) < len(looks):
            return False
        await self._session.execute(_DROP_OTHER_LOOKS, account_id, looks)
        await self._session.execute(_SET_NAME, account_id, name.text)
        return True

    async def delete_account(self, account_id: UUID) -> None:
        """Delete an account and all that hangs on it."""
        await self._session.execute(_DELETE_ACCOUNT, account_id)

    # Codes

    async def try_code(self, address: str, attempts_max: int) -> LiveCode | None:
        """Count an attempt at an address's live code; None without one, or when no attempts are left."""
        record = await self._session.fetchrow(_TRY_CODE, address, attempts_max)
        return None if record is None else LiveCode(*record)

    async def spent_code(self, address: str) -> LiveCode | None:
        """The code of an address that has signed in already and has not run out."""
        record = await self._session.fetchrow(_SPENT_CODE, address)
        return None if record is None else LiveCode(*record)

    async def spend_code(self, code_id: UUID, opening: bytes) -> Account | None:
        """Let a code be of no more use, but for finding the session that it opened; the account of its address."""
        return account_in(await self._session.fetchrow(_SPEND_CODE, code_id, opening))

    # Sessions

    async def open_session(self, token: RefreshToken, account: Account, device: Device, opening: bytes) -> Opened:
        """Keep a new session, which `opening` finds until its first refresh."""
        expires_at_ms = await self._session.fetchval(
            _OPEN_SESSION,
            token.session_id,
            account.account_id,
            device.device_id,
            device.name,
            token.family_hash,
            token.own_hash,
            opening,
            self._refresh_token_seconds,
        )
        return Opened(token.session_id, account, expires_at_ms)

    async def reopen_session(self, opening: bytes) -> Opened | None:
        """The live session that was opened so and has not been refreshed; it lasts from now on anew."""
        record = await self._session.fetchrow(_REOPEN_SESSION, opening, self._refresh_token_seconds)
        account = account_in(record)
        if record is None or account is None:
            return None
        return Opened(record["session_id"], account, record["expires_at_ms"])

    async def hold_session(self, session_id: UUID) -> Held | None:
        """A session that nobody else changes until the end."""
        record = await self._session.fetchrow(_HOLD_SESSION, session_id)
        account = account_in(record)
        if record is None or account is None:
            return None
        kept = Kept(record["family_hash"], record["refresh_hash"], record["previous_hash"], record["rotated_by"])
        return Held(account, kept, record["ended"], record["expired"], record["expires_at_ms"])

    async def rotate_session(self, token: RefreshToken, previous_hash: bytes, rotated_by: bytes) -> int:
        """Make this the session's token; when it runs out, in milliseconds since 1970."""
        expires_at_ms = await self._session.fetchval(
            _ROTATE_SESSION, token.session_id, token.own_hash, previous_hash, rotated_by, self._refresh_token_seconds
        )
        return int(expires_at_ms)

    async def end_session(self, account_id: UUID, session_id: UUID) -> bool:
        """End a session of an account; False if it has none such that is live."""
        return await self._session.fetchval(_END_SESSION, account_id, session_id) is not None

    async def end_sessions(self, account_id: UUID) -> list[UUID]:
        """End all sessions of an account that nobody else changes; answers with those that were live."""
        return [record["session_id"] for record in await self._session.fetch(_END_SESSIONS, account_id)]

    # Facts

    async def publish(self, *events: Event) -> None:
        """Tell others."""
        if events:
            await publish(self._session, [fact_of(event) for event in events])
