"""What a client is given when it signs in, and again with each refresh."""

from typing import Final, NamedTuple
from uuid import UUID

from chassis.auth import Signer
from chassis.clock import Clock
from services.accounts.app.ports import Opened
from services.accounts.domain.account import Account, SessionRevoked
from services.accounts.domain.sessions import RefreshToken

# A replica's clock is some milliseconds off, and its tokens run out by its own.
CLOCK_SECONDS_MAX: Final = 5


class SignedIn(NamedTuple):
    """An account and the tokens of one of its sessions."""

    account: Account
    session_id: str
    access_token: str
    # Milliseconds since 1970, both.
    expires_at_ms: int
    refresh_token: str
    refresh_expires_at_ms: int


class Tokens:
    """Makes access tokens, and knows how long they last."""

    def __init__(self, signer: Signer, clock: Clock, access_token_seconds: int) -> None:
        self._signer = signer
        self._clock = clock
        self._seconds = access_token_seconds

    def signed_in(self, opened: Opened, token: RefreshToken) -> SignedIn:
        """The tokens of a session. To be called before the commit: no token is signed after its session was ended."""
        account, session_id = opened.account, str(opened.session_id)
        expires_at_ms = (self._clock.now_s() + self._seconds) * 1000
        access_token = self._signer.player_token(str(account.account_id), account.guest, self._seconds, session_id)
        return SignedIn(account, session_id, access_token, expires_at_ms, token.text, opened.expires_at_ms)

    def revoked(self, account_id: UUID, session_id: UUID) -> SessionRevoked:
        """What others are told when a session ends now."""
        return SessionRevoked(account_id, session_id, self._clock.now_s() + self._seconds + CLOCK_SECONDS_MAX)
