"""Signing in: as a guest, or with a code that is mailed."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple
from uuid import UUID

import grpc

from chassis.clock import Clock
from chassis.errors import Refused
from services.accounts.app.errors import refuse_guessable
from services.accounts.app.ports import Allowance, Exhausted, Store, Transaction
from services.accounts.app.tokens import SignedIn, Tokens
from services.accounts.domain.account import GUEST_NAME_DIGITS, Account, Created, Event, Registered, guest_name
from services.accounts.domain.addresses import normalised
from services.accounts.domain.codes import code_hash, code_of, is_code
from services.accounts.domain.peers import network_of
from services.accounts.domain.secret import Secret
from services.accounts.domain.sessions import Device, first_token


@dataclass(frozen=True)
class CodePolicy:
    """How long a code is good, how often it may be guessed, and how many are sent."""

    seconds: int
    attempts: int
    # Within any hour.
    per_address: int
    per_peer: int


class Before(NamedTuple):
    """As whom the device that signs in was signed in before; as a guest most of all."""

    account_id: UUID
    session_id: UUID | None


class SigningIn:
    """Opens sessions."""

    def __init__(
        self,
        store: Store,
        tokens: Tokens,
        secret: Secret,
        clock: Clock,
        policy: CodePolicy,
        *,
        on_mail: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_mail` is called when a mail waits to be sent."""
        self._store = store
        self._tokens = tokens
        self._secret = secret
        self._clock = clock
        self._policy = policy
        self._on_mail = on_mail

    async def create_guest(self, request_id: UUID, device: Device) -> SignedIn:
        """A new guest, or the one that was made for this request before."""
        refuse_guessable(request_id)
        opening = sha256(request_id.bytes).digest()
        async with self._store.transaction() as transaction:
            await transaction.claim_request(opening)
            guest = await transaction.guest_of_request(opening)
            if guest is None:
                guest = await self._add_account(transaction, None)
                await transaction.remember_guest(opening, guest.account_id)
                signed_in = await self._open(transaction, guest, opening, request_id, device)
                await transaction.publish(Created(guest.account_id, guest=True))
                return signed_in
            if not guest.guest:
                raise Refused(
                    "GUEST_REGISTERED",
                    grpc.StatusCode.FAILED_PRECONDITION,
                    "This guest has an address by now; sign in with a code that is sent there.",
                )
            return await self._reopen(transaction, opening, request_id) or await self._open(
                transaction, guest, opening, request_id, device
            )

    async def request_code(self, address_text: str, language: str, peer: str) -> int:
        """Mail a code to an address; when it runs out, in milliseconds since 1970.

        Nothing here looks whether the address is known, so that neither the answer nor the time it takes can tell.
        """
        address = _address(address_text)
        code_id = self._clock.new_id()
        hashed = code_hash(self._secret, code_id, code_of(self._secret, code_id))
        allowances = (
            self._allowance("address", address, self._policy.per_address),
            self._allowance("peer", network_of(peer), self._policy.per_peer),
        )
        put = await self._store.put_code(allowances, address, code_id, hashed, self._policy.seconds, language)
        if isinstance(put, Exhausted):
            raise Refused(
                "TOO_MANY_CODES",
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"Too many codes were asked for by this {put.allowance.kind}.",
                {"retry_after_ms": str(put.wait_ms)},
            )
        self._on_mail()
        return put

    async def verify_code(
        self, address_text: str, code: str, request_id: UUID, device: Device, before: Before | None
    ) -> SignedIn:
        """Enter the account of an address; a new one becomes that of the guest who one was before, or a new account."""
        refuse_guessable(request_id)
        address = _address(address_text)
        async with self._store.transaction() as transaction:
            live = await transaction.try_code(address, self._policy.attempts)
            if live is None:
                return await self._repeated(transaction, address, code, request_id)
            if is_code(self._secret, live, code):
                opening = _opening(live.code_id, request_id)
                known = await transaction.spend_code(live.code_id, opening)
                account, events = (known, ()) if known else await self._enter(transaction, address, before)
                signed_in = await self._open(transaction, account, opening, request_id, device)
                if before is not None and before.session_id is not None and before.account_id == account.account_id:
                    # The new session takes its place. Others need not hear: who has its access token is the same, its
                    # streams go on, and it runs out soon.
                    await transaction.end_session(account.account_id, before.session_id)
                await transaction.publish(*events)
                return signed_in
        # The attempt was committed.
        raise Refused(
            "CODE_WRONG",
            grpc.StatusCode.INVALID_ARGUMENT,
            "This is not the code.",
            {"attempts_left": str(self._policy.attempts - live.attempts)},
        )

    def _allowance(self, kind: str, whose: str, per_hour: int) -> Allowance:
        return Allowance(kind, self._secret.derive(f"{kind} allowance", whose.encode()), per_hour)

    async def _repeated(self, transaction: Transaction, address: str, code: str, request_id: UUID) -> SignedIn:
        """The session that this very request has opened with the code: its answer was lost."""
        spent = await transaction.spent_code(address)
        if spent is not None and is_code(self._secret, spent, code):
            again = await self._reopen(transaction, _opening(spent.code_id, request_id), request_id)
            if again is not None:
                return again
        raise Refused(
            "CODE_NOT_LIVE",
            grpc.StatusCode.FAILED_PRECONDITION,
            "There is no live code for this address; get a new one.",
        )

    async def _enter(
        self, transaction: Transaction, address: str, before: Before | None
    ) -> tuple[Account, tuple[Event, ...]]:
        """The account that a new address gets, and what others must hear."""
        if before is not None:
            # None if that was no guest, has an address by now, or is gone.
            registered = await transaction.register(before.account_id, address)
            if registered is not None:
                return registered, (Registered(registered.account_id),)
        account = await self._add_account(transaction, address)
        return account, (Created(account.account_id, guest=False), Registered(account.account_id))

    async def _add_account(self, transaction: Transaction, address: str | None) -> Account:
        account_id = self._clock.new_id()
        for digits in GUEST_NAME_DIGITS:
            account = Account(account_id, guest_name(account_id, digits), guest=address is None)
            if await transaction.add_account(account, address):
                return account
        raise AssertionError(f"another account has the random digits of {account_id}")

    async def _open(
        self, transaction: Transaction, account: Account, opening: bytes, request_id: UUID, device: Device
    ) -> SignedIn:
        token = first_token(self._secret, self._clock.new_id(), request_id)
        opened = await transaction.open_session(token, account, device, opening)
        return self._tokens.signed_in(opened, token)

    async def _reopen(self, transaction: Transaction, opening: bytes, request_id: UUID) -> SignedIn | None:
        opened = await transaction.reopen_session(opening)
        if opened is None:
            return None
        return self._tokens.signed_in(opened, first_token(self._secret, opened.session_id, request_id))


def _address(text: str) -> str:
    address = normalised(text)
    if address is None:
        raise Refused("ADDRESS_INVALID", grpc.StatusCode.INVALID_ARGUMENT, "This is not an e-mail address.")
    return address


def _opening(code_id: UUID, request_id: UUID) -> bytes:
    """What finds the session that a request has opened with a code."""
    return sha256(code_id.bytes + request_id.bytes).digest()
