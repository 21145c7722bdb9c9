"""An account, what happens to one, and how one is named before a name is chosen."""

from typing import Final, TypeAlias
from uuid import UUID

from rules.values import value

GUEST_PREFIX: Final = "Guest-"

# Crockford's digits: none is easily taken for another.
_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"

# How many digits a guest's name has: the first of these that is not taken. The last one takes in all that is random
# in an account id, so it is as unique as the id.
GUEST_NAME_DIGITS: Final = (4, 6, 8, 13)


@value
class Account:
    """Somebody who plays."""

    account_id: UUID
    name: str
    # Without an address.
    guest: bool


def guest_name(account_id: UUID, digits: int) -> str:
    """`Guest-` and so many digits, made from the account id's random end."""
    return GUEST_PREFIX + "".join(_DIGITS[account_id.int >> (5 * place) & 31] for place in range(digits))


# What others are told of: ids only.


@value
class Created:
    """An account began."""

    account_id: UUID
    guest: bool


@value
class Registered:
    """An account has its address: once in its life."""

    account_id: UUID


@value
class Renamed:
    """An account has another name."""

    account_id: UUID


@value
class Deleted:
    """An account is no more."""

    account_id: UUID


@value
class SessionRevoked:
    """A session ended before its time."""

    account_id: UUID
    session_id: UUID
    # Seconds since 1970: its last access token has run out by then.
    tokens_expire_at_s: int


Event: TypeAlias = Created | Registered | Renamed | Deleted | SessionRevoked
