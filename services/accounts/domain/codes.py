"""Sign-in codes: six digits that follow from the secret and the code's id."""

import hmac
from typing import Final
from uuid import UUID

from rules.values import value
from services.accounts.domain.secret import Secret

CODE_DIGITS: Final = 6


@value
class LiveCode:
    """An address's code, with the attempt that is being made counted."""

    code_id: UUID
    code_hash: bytes
    attempts: int


def code_of(secret: Secret, code_id: UUID) -> str:
    """The code that is mailed."""
    number = int.from_bytes(secret.derive("code", code_id.bytes), "big") % 10**CODE_DIGITS
    return f"{number:0{CODE_DIGITS}}"


def code_hash(secret: Secret, code_id: UUID, code: str) -> bytes:
    """What is kept of a code. Keyed: of a million codes the right one is found in a moment otherwise."""
    return secret.derive("code hash", code_id.bytes, code.encode())


def is_code(secret: Secret, live: LiveCode, code: str) -> bool:
    """Whether this is the live code; how long the answer takes tells nothing."""
    return hmac.compare_digest(code_hash(secret, live.code_id, code), live.code_hash)
