"""Sessions and their refresh tokens: what is kept of a token, and what it means when one is shown.

A refresh token has a part that is the same in all tokens of its session (the family) and a part of its own. So a token
that was used before is told from one that was made up by somebody who only knows the session's id. Why it is so:
docs/decisions/sessions.md.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from enum import Enum, auto
from hashlib import sha256
from typing import Final
from uuid import UUID

from rules.values import value
from services.accounts.domain.secret import Secret

_PART_BYTES: Final = 32
_TOKEN_BYTES: Final = 16 + 2 * _PART_BYTES


@value
class Device:
    """What a client runs on, in its own words; an empty id where it has none."""

    device_id: str = ""
    name: str = ""


@value
class RefreshToken:
    """A refresh token, taken apart."""

    session_id: UUID
    family: bytes
    own: bytes

    @property
    def text(self) -> str:
        """As clients keep it."""
        return urlsafe_b64encode(self.session_id.bytes + self.family + self.own).decode()

    @property
    def family_hash(self) -> bytes:
        """What is kept of the session's part."""
        return sha256(self.family).digest()

    @property
    def own_hash(self) -> bytes:
        """What is kept of the token's own part."""
        return sha256(self.own).digest()


def parsed(text: str) -> RefreshToken | None:
    """The token that a client shows; None for what cannot be one."""
    try:
        raw = urlsafe_b64decode(text.encode("ascii"))
    except ValueError:
        return None
    if len(raw) != _TOKEN_BYTES:
        return None
    return RefreshToken(UUID(bytes=raw[:16]), raw[16 : 16 + _PART_BYTES], raw[16 + _PART_BYTES :])


def first_token(secret: Secret, session_id: UUID, request_id: UUID) -> RefreshToken:
    """The token of a session that a request opens; the same again when the request is repeated."""
    parts = session_id.bytes, request_id.bytes
    return RefreshToken(session_id, secret.derive("refresh family", *parts), secret.derive("refresh first", *parts))


def next_token(secret: Secret, token: RefreshToken, request_id: UUID) -> RefreshToken:
    """A token's successor; the same again when the request is repeated."""
    own = secret.derive("refresh next", token.session_id.bytes, token.own, request_id.bytes)
    return RefreshToken(token.session_id, token.family, own)


@value
class Kept:
    """What is kept of a session's tokens."""

    family_hash: bytes
    own_hash: bytes
    # Of the token before, and the hash of the request that made the current one of it; None before the first refresh.
    previous_hash: bytes | None
    rotated_by: bytes | None


class Shown(Enum):
    """What a refresh token that is shown turns out to be."""

    CURRENT = auto()
    # The one before, by the request that made the current one of it: its answer was lost.
    REPEATED = auto()
    # Used before: somebody has a copy.
    SPENT = auto()
    # None of this session's.
    FOREIGN = auto()


def judged(kept: Kept, token: RefreshToken, request_hash: bytes) -> Shown:
    """What a token is to the session that it names."""
    if not hmac.compare_digest(token.family_hash, kept.family_hash):
        return Shown.FOREIGN
    if hmac.compare_digest(token.own_hash, kept.own_hash):
        return Shown.CURRENT
    if token.own_hash == kept.previous_hash and request_hash == kept.rotated_by:
        return Shown.REPEATED
    return Shown.SPENT


@value
class Session:
    """A sign-in on a device."""

    session_id: UUID
    device: Device
    # Milliseconds since 1970.
    created_at_ms: int
    # When it last got tokens.
    seen_at_ms: int
    # None while it goes on.
    ended_at_ms: int | None
