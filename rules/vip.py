"""VIP days: two days of each week, which follow from the account's id (platform.md, "Accounts")."""

from hashlib import sha256
from itertools import combinations
from typing import Final
from uuid import UUID

# Days of the week count from Monday, 0. Sunday and Monday are neighbours.
_PAIRS: Final = tuple((one, other) for one, other in combinations(range(7), 2) if other - one not in (1, 6))
assert len(_PAIRS) == 14


def vip_weekdays(account_id: UUID) -> tuple[int, int]:
    """The two days of the week on which an account is VIP, the first being before the second."""
    number = int.from_bytes(sha256(b"vip" + account_id.bytes).digest()[:8], "big")
    return _PAIRS[number % len(_PAIRS)]
