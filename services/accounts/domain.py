"""An account, and how a guest is named."""

from typing import Final
from uuid import UUID

from rules.values import value

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
    guest: bool


def guest_name(account_id: UUID, digits: int) -> str:
    """`Guest-` and so many digits, made from the account id's random end."""
    return "Guest-" + "".join(_DIGITS[account_id.int >> (5 * place) & 31] for place in range(digits))
