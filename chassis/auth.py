"""Who calls: tokens signed by the accounts service with Ed25519, and checked by everybody with the public keys.

A token names its subject and role and runs out; a player's also names the session it was made for. Checking a signature
costs some 90 microseconds, so each process remembers the tokens it has checked; only their expiry is looked at again.
"""

import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import grpc
import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm
from jwt.utils import base64url_encode

from chassis.clock import Clock
from chassis.errors import Refused
from chassis.files import followed, write_whole

ALGORITHM = "EdDSA"
ISSUER = "levata"

# Tokens remembered by a process, about 1 KB each; beyond it the oldest are checked again when they come.
VERIFIED_TOKENS_MAX = 50_000
# Ours have some 400 bytes.
TOKEN_BYTES_MAX = 4096
# How far the signer's clock may be ahead of ours.
CLOCK_LEEWAY_SECONDS = 120

SIGNING_KEY_FILE = "signing-key.json"
JWKS_FILE = "jwks.json"
# The members of an Ed25519 key of which its thumbprint is made.
_PUBLIC_MEMBERS = ("crv", "kty", "x")


class Role(Enum):
    """What a token's subject is."""

    PLAYER = "player"
    SERVICE = "service"
    # A person with the deployment's tools.
    OPERATOR = "operator"


@dataclass(slots=True, frozen=True)
class Caller:
    """Who a valid token says is calling."""

    # A player's account id in canonical lower case, or the name of a service or an operator.
    subject: str
    role: Role
    guest: bool
    # Seconds since 1970.
    expires_at: int
    # The session that a player's token was made for; empty for services.
    session: str = ""


class Verifier:
    """Checks tokens against a set of public keys, and against the sessions that were revoked."""

    def __init__(self, jwks: Mapping[str, Any], clock: Clock | None = None) -> None:
        self._keys = _public_keys(jwks)
        self._clock = clock or Clock()
        self._verified: OrderedDict[str, Caller] = OrderedDict()
        # Until when their tokens would have been good, by session.
        self._revoked: dict[str, int] = {}

    @classmethod
    def from_file(cls, jwks_file: Path, clock: Clock | None = None) -> "Verifier":
        """A verifier with the keys of a JSON Web Key Set."""
        return cls(json.loads(jwks_file.read_text()), clock)

    @classmethod
    @asynccontextmanager
    async def following(cls, jwks_file: Path, clock: Clock) -> AsyncIterator["Verifier"]:
        """A verifier with the keys of a file, whenever it is replaced."""
        verifier = cls({"keys": []}, clock)
        async with followed(jwks_file, verifier.use_keys):
            yield verifier

    def use_keys(self, jwks_text: str) -> None:
        """Check tokens against this key set from now on; ValueError, and nothing has changed, if it is not one."""
        keys = _public_keys(json.loads(jwks_text))
        if not keys:
            raise ValueError("a key set without keys would let nobody in")
        if self._keys.keys() - keys.keys():
            # Tokens of a key that is gone count no more; the others are checked again when they come.
            self._verified.clear()
        self._keys = keys

    def revoke(self, session: str, tokens_expire_at: int) -> None:
        """Refuse a session's tokens, the last of which runs out at `tokens_expire_at` (seconds since 1970)."""
        self._revoked[session] = max(tokens_expire_at, self._revoked.get(session, 0))

    def is_revoked(self, session: str) -> bool:
        """Whether the session's tokens are refused."""
        return session in self._revoked

    def forget_expired(self) -> None:
        """Forget revoked sessions whose tokens have run out by themselves."""
        now = self._clock.now_s()
        for session in [session for session, expire_at in self._revoked.items() if expire_at <= now]:
            del self._revoked[session]

    @property
    def revoked_sessions(self) -> int:
        """How many are remembered."""
        return len(self._revoked)

    def remembered(self, token: str) -> Caller | None:
        """Whom `token` names, if it was checked before and is still good."""
        caller = self._verified.get(token)
        if caller is None or caller.expires_at <= self._clock.now_s() or caller.session in self._revoked:
            return None
        return caller

    def verify(self, token: str) -> Caller:
        """Whom `token` names; refused when it is missing (empty), not ours, has run out or was revoked."""
        caller = self._verified.get(token)
        if caller is None:
            if not token:
                raise Refused("TOKEN_MISSING", grpc.StatusCode.UNAUTHENTICATED, "This call needs an access token.")
            caller = self._verified[token] = self._checked(token)
            if len(self._verified) > VERIFIED_TOKENS_MAX:
                self._verified.popitem(last=False)
        if caller.expires_at <= self._clock.now_s():
            del self._verified[token]
            raise Refused("TOKEN_EXPIRED", grpc.StatusCode.UNAUTHENTICATED, "The access token has run out.")
        if caller.session in self._revoked:
            raise session_revoked()
        return caller

    def _checked(self, token: str) -> Caller:
        try:
            if len(token) > TOKEN_BYTES_MAX:
                raise ValueError("longer than any token of ours")
            key = self._keys[jwt.get_unverified_header(token)["kid"]]
            # Times are compared with our own clock, below and by the caller of this.
            options: Any = {
                "require": ["exp", "iat", "sub", "iss"],
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            }
            claims = jwt.decode(token, key, algorithms=[ALGORITHM], issuer=ISSUER, options=options)
            latest = self._clock.now_s() + CLOCK_LEEWAY_SECONDS
            for begins in (claims["iat"], claims.get("nbf", 0)):
                if type(begins) is not int or begins > latest:
                    raise ValueError("from the future")
            return _caller_from(claims)
        except (jwt.InvalidTokenError, KeyError, ValueError, TypeError) as error:
            raise Refused(
                "TOKEN_INVALID", grpc.StatusCode.UNAUTHENTICATED, "The access token is not a valid one."
            ) from error


def session_revoked() -> Refused:
    """The session behind a token was ended."""
    return Refused("SESSION_REVOKED", grpc.StatusCode.UNAUTHENTICATED, "This session was ended; sign in again.")


def _public_keys(jwks: Mapping[str, Any]) -> dict[str, jwt.PyJWK]:
    """The keys of a set by their ids; ValueError if it is not a set of ours."""
    try:
        return {key["kid"]: jwt.PyJWK(key, ALGORITHM) for key in jwks["keys"]}
    except (jwt.PyJWTError, KeyError, TypeError) as error:
        raise ValueError("not a JSON Web Key Set with Ed25519 keys") from error


def _caller_from(claims: Mapping[str, Any]) -> Caller:
    """Read claims whose signature is good; ValueError or TypeError if we would not have signed them."""
    subject, role, expires_at = claims["sub"], Role(claims["role"]), claims["exp"]
    if type(expires_at) is not int:
        raise TypeError("exp must be whole seconds")
    if role is Role.PLAYER and str(UUID(subject)) != subject:
        raise ValueError("a player's subject must be a canonical account id")
    session = claims.get("sid", "")
    if session != "" and str(UUID(str(session))) != session:
        raise ValueError("a session must be a canonical id")
    return Caller(subject, role, claims.get("guest") is True, expires_at, session)


class Signer:
    """Signs tokens; only the accounts service and whoever sets a deployment up have its key."""

    def __init__(self, private_jwk: Mapping[str, Any], clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._use(private_jwk)

    @classmethod
    @asynccontextmanager
    async def following(cls, signing_key_file: Path, clock: Clock) -> AsyncIterator["Signer"]:
        """A signer with the key of a file, whenever it is replaced."""
        signer = cls.from_file(signing_key_file, clock)
        async with followed(signing_key_file, signer.use_key):
            yield signer

    def use_key(self, private_jwk_text: str) -> None:
        """Sign with this key from now on; ValueError, and nothing has changed, if it is not one."""
        self._use(json.loads(private_jwk_text))

    def _use(self, private_jwk: Mapping[str, Any]) -> None:
        try:
            key, headers = jwt.PyJWK(dict(private_jwk), ALGORITHM), {"kid": private_jwk["kid"]}
            private_jwk["d"]
        except (jwt.PyJWTError, KeyError, TypeError) as error:
            raise ValueError("not a private Ed25519 key as a JSON Web Key") from error
        self._key, self._headers = key, headers

    @classmethod
    def from_file(cls, signing_key_file: Path, clock: Clock | None = None) -> "Signer":
        """A signer with the private JSON Web Key in a file."""
        return cls(json.loads(signing_key_file.read_text()), clock)

    def player_token(self, account_id: str, guest: bool, ttl: int, session: str = "") -> str:
        """A player's access token, good for `ttl` seconds, unless its session is revoked before."""
        claims = {"sub": account_id, "role": Role.PLAYER.value, "guest": guest}
        if session:
            claims["sid"] = session
        return self._signed(claims, ttl)

    def service_token(self, name: str, ttl: int) -> str:
        """A service's token for internal calls, good for `ttl` seconds."""
        return self._signed({"sub": name, "role": Role.SERVICE.value}, ttl)

    def operator_token(self, name: str, ttl: int) -> str:
        """A token for a person's tools, good for `ttl` seconds."""
        return self._signed({"sub": name, "role": Role.OPERATOR.value}, ttl)

    def _signed(self, claims: dict[str, Any], ttl: int) -> str:
        now = self._clock.now_s()
        claims |= {"iss": ISSUER, "iat": now, "exp": now + ttl}
        return jwt.encode(claims, self._key, ALGORITHM, headers=self._headers)


class KeyFiles(NamedTuple):
    """Where a deployment's keys are."""

    signing_key: Path
    jwks: Path


def key_files(directory: Path) -> KeyFiles:
    """Where a folder has them."""
    return KeyFiles(directory / SIGNING_KEY_FILE, directory / JWKS_FILE)


def make_keys(directory: Path) -> KeyFiles:
    """Write a signing key, for its owner only, and the public key set beside it; keys that are there stay."""
    files = key_files(directory)
    if not files.signing_key.exists():
        private = new_key()
        # The signing key comes last: where it is, the public keys are too.
        write_whole(files.jwks, json.dumps({"keys": [public_part(private)]}), 0o644)
        write_whole(files.signing_key, json.dumps(private), 0o600)
    return files


def new_key() -> dict[str, str]:
    """A private JSON Web Key, named by its thumbprint."""
    private: dict[str, str] = OKPAlgorithm.to_jwk(Ed25519PrivateKey.generate(), as_dict=True)
    kid = _thumbprint({name: private[name] for name in _PUBLIC_MEMBERS})
    return {**private, "kid": kid, "alg": ALGORITHM, "use": "sig"}


def public_part(private: Mapping[str, str]) -> dict[str, str]:
    """What everybody may know of a key."""
    return {name: private[name] for name in (*_PUBLIC_MEMBERS, "kid", "alg", "use")}


def _thumbprint(public_jwk: Mapping[str, str]) -> str:
    """The key's name after RFC 7638."""
    canonical = json.dumps(public_jwk, sort_keys=True, separators=(",", ":"))
    return base64url_encode(sha256(canonical.encode()).digest()).decode()
