"""The use cases of the accounts service."""

from enum import Enum, auto
from hashlib import sha256
from typing import Final, NamedTuple, Protocol
from uuid import UUID

import grpc

from chassis.auth import Signer
from chassis.clock import Clock
from chassis.errors import Refused
from services.accounts.domain import GUEST_NAME_DIGITS, Account, guest_name

# Versions of UUIDs that nobody can guess.
_RANDOM_VERSIONS: Final = (4, 7)


class Addition(Enum):
    """What became of a guest that was to be added."""

    ADDED = auto()
    NAME_TAKEN = auto()
    REQUEST_KNOWN = auto()


class Store(Protocol):
    """Where accounts are kept."""

    async def by_id(self, account_id: UUID) -> Account | None:
        """The account of this id."""

    async def guest_by_request(self, request_hash: bytes) -> Account | None:
        """The guest that was made for this request."""

    async def add_guest(self, guest: Account, request_hash: bytes) -> Addition:
        """Keep a guest and its request; changes nothing where the name or the request is known.

        Called by several replicas at once, for the same request too: one alone may succeed.
        """


class AccessToken(NamedTuple):
    """What a client shows with every call."""

    token: str
    expires_at_ms: int


class Accounts:
    """Makes accounts and tokens."""

    def __init__(self, store: Store, signer: Signer, clock: Clock, token_seconds: int) -> None:
        self._store = store
        self._signer = signer
        self._clock = clock
        self._token_seconds = token_seconds

    async def create_guest(self, request_id: UUID) -> Account:
        """A new guest, or the one that was made for this request before."""
        # Who knows the id gets the guest: one that two clients could come to share must not stand for an account.
        if request_id.version not in _RANDOM_VERSIONS:
            raise Refused(
                "REQUEST_ID_NOT_RANDOM", grpc.StatusCode.INVALID_ARGUMENT, "The request id must be a random UUID."
            )
        request_hash = sha256(request_id.bytes).digest()
        return await self._store.guest_by_request(request_hash) or await self._add_guest(request_hash)

    async def _add_guest(self, request_hash: bytes) -> Account:
        account_id = self._clock.new_id()
        for digits in GUEST_NAME_DIGITS:
            guest = Account(account_id, guest_name(account_id, digits), guest=True)
            match await self._store.add_guest(guest, request_hash):
                case Addition.ADDED:
                    return guest
                case Addition.REQUEST_KNOWN:
                    known = await self._store.guest_by_request(request_hash)
                    assert known is not None, "accounts are never deleted"
                    return known
                case Addition.NAME_TAKEN:
                    continue
        raise AssertionError(f"another account has the random digits of {account_id}")

    async def account(self, account_id: UUID) -> Account:
        """An account by its id."""
        account = await self._store.by_id(account_id)
        if account is None:
            raise Refused("ACCOUNT_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "There is no such account.")
        return account

    def token_for(self, account: Account) -> AccessToken:
        """A fresh access token."""
        expires_at_ms = (self._clock.now_s() + self._token_seconds) * 1000
        token = self._signer.player_token(str(account.account_id), account.guest, self._token_seconds)
        return AccessToken(token, expires_at_ms)
