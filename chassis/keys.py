"""Signing keys that change while everything runs: by overlap, so that no token is refused for it.

A new key is published first. When every replica has had time to read the key set, tokens are signed with it; the old
key stays in the set until the last token that it signed has run out. A stolen key is withdrawn instead: its tokens are
refused as soon as the replicas look at the set again.
"""

import json
import time
from dataclasses import dataclass
from typing import Any, Final

from chassis.auth import KeyFiles, new_key, public_part
from chassis.files import write_whole

# How long to wait between publishing a key and signing with it: replicas read it within seconds, but others may keep
# the set that the public port shows for a minute.
PUBLISHED_SECONDS: Final = 75.0
# No token lives longer: a service's is renewed long before.
TOKEN_SECONDS_MAX: Final = 48 * 3600

# Not of the standard: when a key signed its last token, in seconds since 1970.
_RETIRED_AT: Final = "retired_at"


@dataclass(frozen=True)
class Key:
    """One key of the set."""

    key_id: str
    signs: bool
    # Seconds since 1970; None while it signs, or before it does.
    retired_at: int | None


class NoSuchKey(Exception):
    """The set has no key of this id, or it is the one that signs."""


def keys(files: KeyFiles) -> list[Key]:
    """The keys that tokens are checked with now."""
    signing = _signing_id(files)
    return [Key(key["kid"], key["kid"] == signing, key.get(_RETIRED_AT)) for key in _published(files)]


def publish_next(files: KeyFiles) -> dict[str, str]:
    """The first half of a rotation: a new key, in the set beside the one that signs; forgets keys long retired.

    Answers the private key, for `sign_with` when all have read the set.
    """
    now = int(time.time())
    private = new_key()
    kept = [key for key in _published(files) if key.get(_RETIRED_AT, now) > now - TOKEN_SECONDS_MAX]
    _publish(files, [*kept, public_part(private)])
    return private


def sign_with(files: KeyFiles, private: dict[str, str]) -> None:
    """The second half: sign with a published key from now on, and let the one of before retire."""
    published = _published(files)
    assert private["kid"] in {key["kid"] for key in published}, "published before it signs"
    before = _signing_id(files)
    write_whole(files.signing_key, json.dumps(private), 0o600)
    for key in published:
        if key["kid"] == before:
            key[_RETIRED_AT] = int(time.time())
    _publish(files, published)


def withdraw(files: KeyFiles, key_id: str) -> None:
    """Take a key out of the set, with all its tokens; NoSuchKey for the one that signs: rotate first."""
    published = _published(files)
    kept = [key for key in published if key["kid"] != key_id]
    if len(kept) == len(published):
        raise NoSuchKey(f"There is no key {key_id}.")
    if key_id == _signing_id(files):
        raise NoSuchKey(f"{key_id} is the key that signs; rotate first.")
    _publish(files, kept)


def _published(files: KeyFiles) -> list[dict[str, Any]]:
    published: list[dict[str, Any]] = json.loads(files.jwks.read_text())["keys"]
    return published


def _publish(files: KeyFiles, published: list[dict[str, Any]]) -> None:
    write_whole(files.jwks, json.dumps({"keys": published}), 0o644)


def _signing_id(files: KeyFiles) -> str:
    return str(json.loads(files.signing_key.read_text())["kid"])
