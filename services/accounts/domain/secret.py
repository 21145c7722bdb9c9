"""The service's one secret, from which sign-in codes and refresh tokens are made.

What is made is kept nowhere: it is found anew from the secret and what it was made from, and only hashes stand in the
database. Whoever has the database without the secret, or the secret without the database, can sign in as nobody.
"""

import hmac
from typing import Final

SECRET_BYTES_MIN: Final = 32


class Secret:
    """Makes bytes that nobody can guess, always the same from the same."""

    def __init__(self, key: bytes) -> None:
        if len(key) < SECRET_BYTES_MIN:
            raise ValueError(f"the secret has {len(key)} bytes; at least {SECRET_BYTES_MIN} are needed")
        self._key = key

    def derive(self, purpose: str, *parts: bytes) -> bytes:
        """32 bytes for a purpose and its parts."""
        message = b"".join(len(part).to_bytes(4, "big") + part for part in (purpose.encode(), *parts))
        return hmac.digest(self._key, message, "sha256")
