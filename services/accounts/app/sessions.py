"""Sessions after they were opened: refreshed, looked at and ended."""

from hashlib import sha256
from typing import Final
from uuid import UUID

import grpc

from chassis.auth import session_revoked
from chassis.errors import Refused
from services.accounts.app.errors import account_not_found, refuse_guessable
from services.accounts.app.ports import Held, Opened, Store, Transaction
from services.accounts.app.tokens import SignedIn, Tokens
from services.accounts.domain.secret import Secret
from services.accounts.domain.sessions import RefreshToken, Session, Shown, judged, next_token, parsed

# For so long two accounts that were used on one device are not seated together.
DEVICE_DAYS: Final = 30


class Sessions:
    """Keeps sessions going, and ends them."""

    def __init__(self, store: Store, tokens: Tokens, secret: Secret) -> None:
        self._store = store
        self._tokens = tokens
        self._secret = secret

    async def refresh(self, token_text: str, request_id: UUID) -> SignedIn:
        """New tokens for a refresh token; the session of one that was used before is ended."""
        refuse_guessable(request_id)
        token = parsed(token_text)
        if token is None:
            raise _token_invalid()
        request_hash = sha256(request_id.bytes).digest()
        async with self._store.transaction() as transaction:
            held = await transaction.hold_session(token.session_id)
            shown = Shown.FOREIGN if held is None else judged(held.kept, token, request_hash)
            if held is None or shown is Shown.FOREIGN or held.expired:
                raise _token_invalid()
            if held.ended:
                raise session_revoked()
            if shown is not Shown.SPENT:
                return await self._refreshed(transaction, held, token, shown, request_id)
            await transaction.end_session(held.account.account_id, token.session_id)
            await transaction.publish(self._tokens.revoked(held.account.account_id, token.session_id))
        # The end of the session was committed.
        raise Refused(
            "REFRESH_TOKEN_REUSED",
            grpc.StatusCode.UNAUTHENTICATED,
            "This refresh token was used before: somebody may have a copy of it, and its session was ended.",
        )

    async def _refreshed(
        self, transaction: Transaction, held: Held, token: RefreshToken, shown: Shown, request_id: UUID
    ) -> SignedIn:
        successor = next_token(self._secret, token, request_id)
        expires_at_ms = held.expires_at_ms
        if shown is Shown.CURRENT:
            request_hash = sha256(request_id.bytes).digest()
            expires_at_ms = await transaction.rotate_session(successor, token.own_hash, request_hash)
        elif successor.own_hash != held.kept.own_hash:
            # The secret is another one by now: what was answered then is not found again.
            raise _token_invalid()
        return self._tokens.signed_in(Opened(token.session_id, held.account, expires_at_ms), successor)

    async def live(self, account_id: UUID) -> list[Session]:
        """An account's sessions, the last seen first."""
        return await self._store.sessions(account_id)

    async def end(self, account_id: UUID, session_id: UUID) -> None:
        """End a session of an account, if it has not ended before."""
        async with self._store.transaction() as transaction:
            if await transaction.end_session(account_id, session_id):
                await transaction.publish(self._tokens.revoked(account_id, session_id))

    async def end_all(self, account_id: UUID) -> int:
        """End all sessions of an account; answers with their number."""
        async with self._store.transaction() as transaction:
            if await transaction.lock_account(account_id) is None:
                raise account_not_found()
            ended = await transaction.end_sessions(account_id)
            await transaction.publish(*(self._tokens.revoked(account_id, session_id) for session_id in ended))
        return len(ended)

    async def shared_devices(self, account_ids: list[UUID]) -> list[tuple[UUID, UUID]]:
        """Which of these accounts were used on one device lately, each pair once."""
        return await self._store.shared_devices(account_ids, DEVICE_DAYS)

    async def companions(self, account_ids: list[UUID]) -> list[tuple[UUID, UUID]]:
        """These accounts and all that were used on one device with them lately, as pairs, each once."""
        return await self._store.companions(account_ids, DEVICE_DAYS)


def _token_invalid() -> Refused:
    return Refused("REFRESH_TOKEN_INVALID", grpc.StatusCode.UNAUTHENTICATED, "This refresh token is good for nothing.")
