"""What the use cases need of a database."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol
from uuid import UUID

from services.accounts.domain.account import Account, Event
from services.accounts.domain.codes import LiveCode
from services.accounts.domain.names import Name
from services.accounts.domain.sessions import Device, Kept, RefreshToken, Session


class Opened(NamedTuple):
    """A session that goes on, and until when its refresh token is good."""

    session_id: UUID
    account: Account
    # Milliseconds since 1970.
    expires_at_ms: int


class Held(NamedTuple):
    """A session whose refresh token was shown."""

    account: Account
    kept: Kept
    ended: bool
    expired: bool
    # Milliseconds since 1970.
    expires_at_ms: int


class StoredAccount(NamedTuple):
    """All that is kept about an account."""

    account: Account
    address: str | None
    # Milliseconds since 1970.
    created_at_ms: int
    # When a code that was sent to the address runs out, if one is kept.
    code_expires_at_ms: int | None
    # Mails to the address that wait to be sent.
    mails_waiting: int
    # Ended ones too.
    sessions: list[Session]


class Allowance(NamedTuple):
    """How many codes may be sent within any hour, and on whose account that is counted."""

    # What is asked for by too many, in a word for people.
    kind: str
    # A keyed hash of whose it is.
    key: bytes
    per_hour: int


class Exhausted(NamedTuple):
    """An allowance that has no room now, and for how many milliseconds."""

    allowance: Allowance
    wait_ms: int


class Transaction(Protocol):
    """Changes that are committed together, or not at all when the context is left by an exception.

    Rows are locked in the order code, account, session, and `publish` comes last: every other writer of facts waits
    from there to the commit.
    """

    async def claim_request(self, request_hash: bytes) -> None:
        """Let nobody else work on this request until the end."""

    async def guest_of_request(self, request_hash: bytes) -> Account | None:
        """The account that was made for a guest's request."""

    async def add_account(self, account: Account, address: str | None) -> bool:
        """Keep a new account; False, and no change, where its name is taken."""

    async def remember_guest(self, request_hash: bytes, account_id: UUID) -> None:
        """Let a guest's request be repeated."""

    async def register(self, account_id: UUID, address: str) -> Account | None:
        """Give a guest an address, which is nobody's; None, and no change, if there is no such guest any more."""

    async def lock_account(self, account_id: UUID) -> Account | None:
        """An account that nobody else changes until the end."""

    async def set_name(self, account_id: UUID, name: Name) -> bool:
        """Give an account a name and its looks; False where another has one of them: then nothing may follow."""

    async def lock_to_delete(self, account_id: UUID) -> Account | None:
        """As `lock_account`, after what waits for the account's address was deleted."""

    async def delete_account(self, account_id: UUID) -> None:
        """Delete an account and all that hangs on it."""

    async def try_code(self, address: str, attempts_max: int) -> LiveCode | None:
        """Count an attempt at an address's live code; None without one, or when no attempts are left."""

    async def spent_code(self, address: str) -> LiveCode | None:
        """The code of an address that has signed in already and has not run out."""

    async def spend_code(self, code_id: UUID, opening: bytes) -> Account | None:
        """Let a code be of no more use, but for finding the session that it opened; the account of its address."""

    async def open_session(self, token: RefreshToken, account: Account, device: Device, opening: bytes) -> Opened:
        """Keep a new session, which `opening` finds until its first refresh."""

    async def reopen_session(self, opening: bytes) -> Opened | None:
        """The live session that was opened so and has not been refreshed; it lasts from now on anew."""

    async def hold_session(self, session_id: UUID) -> Held | None:
        """A session that nobody else changes until the end."""

    async def rotate_session(self, token: RefreshToken, previous_hash: bytes, rotated_by: bytes) -> int:
        """Make this the session's token; when it runs out, in milliseconds since 1970."""

    async def end_session(self, account_id: UUID, session_id: UUID) -> bool:
        """End a session of an account; False if it has none such that is live."""

    async def end_sessions(self, account_id: UUID) -> list[UUID]:
        """End all sessions of an account that nobody else changes; answers with those that were live."""

    async def publish(self, *events: Event) -> None:
        """Tell others."""


class Store(Protocol):
    """Where accounts are kept."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Changes to be made together."""

    async def put_code(
        self,
        allowances: Sequence[Allowance],
        address: str,
        code_id: UUID,
        code_hash: bytes,
        seconds: int,
        language: str,
    ) -> int | Exhausted:
        """Count one more for all allowances, make this the address's live code and have it mailed; when it runs out, in
        milliseconds since 1970. Nothing happens when an allowance is exhausted."""

    async def accounts(self, account_ids: Sequence[UUID]) -> Mapping[UUID, Account]:
        """The accounts of these ids, without those that are no more."""

    async def stored(self, account_id: UUID) -> StoredAccount | None:
        """All about an account."""

    async def sessions(self, account_id: UUID) -> list[Session]:
        """An account's live sessions, the last seen first."""

    async def shared_devices(self, account_ids: list[UUID], days: int) -> list[tuple[UUID, UUID]]:
        """Which of these accounts were used on one device in the last days, each pair once and in order."""

    async def companions(self, account_ids: list[UUID], days: int) -> list[tuple[UUID, UUID]]:
        """These accounts and all that were used on one device with them in the last days, as pairs, each once."""

    async def forget(self, days: int) -> None:
        """Delete codes and allowances that count no more, and dead sessions that were not seen for so many days."""
