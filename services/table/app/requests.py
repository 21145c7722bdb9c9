"""What a game's host is asked: small values that travel between replicas (`rpc/replicas.py` has their codec).

Whoever wants something of a running game asks through `Routing.ask`, whatever replica hosts it; the host's
`RunningGame.handle` dispatches.
"""

from collections.abc import Callable
from hashlib import sha256
from struct import Struct
from typing import Final, NamedTuple, Self, TypeAlias
from uuid import UUID

from chassis.errors import Refused
from rules.game import Seat
from rules.moves import Move
from services.table.app.ports import CommandName

# What a command says, in so few bytes that they are their own hash.
_CONTENT: Final = Struct(">II")


class PlayerCommand(NamedTuple):
    """A person's move as it came in."""

    account: str
    # As the client made it, canonical.
    command_id: str
    at_version: int
    move: Move
    # What the log knows the command by.
    name: CommandName

    @classmethod
    def of(cls, account: str, command_id: str, at_version: int, move: Move) -> Self:
        """The command with its name."""
        name = CommandName(_key(account, command_id), _CONTENT.pack(at_version, move))
        return cls(account, command_id, at_version, move, name)


class Leave(NamedTuple):
    """A person gives the own seat up."""

    account: str
    request_id: str
    name: CommandName

    @classmethod
    def of(cls, account: str, request_id: str) -> Self:
        """The command with its name."""
        return cls(account, request_id, CommandName(_key(account, request_id), b"leave"))


class TakeSeat(NamedTuple):
    """A person wants a vacated seat."""

    account: str
    guest: bool
    seat: Seat
    request_id: str
    name: CommandName

    @classmethod
    def of(cls, account: str, guest: bool, seat: Seat, request_id: str) -> Self:
        """The command with its name."""
        name = CommandName(_key(account, request_id), b"take" + bytes([seat]))
        return cls(account, guest, seat, request_id, name)


class Sign(NamedTuple):
    """A person's sign of life. Changes nothing by itself, and may be repeated or lost."""

    account: str
    # A stream has ended.
    is_close: bool = False


def _key(account: str, command_id: str) -> UUID:
    """Ids are per player, so that no player can use up another's."""
    return UUID(bytes=sha256(f"{account}/{command_id}".encode()).digest()[:16])


# What the log keeps.
Command: TypeAlias = PlayerCommand | Leave | TakeSeat
Request: TypeAlias = Command | Sign
# The version of the commit that a request led to, or why it led to none.
Outcome: TypeAlias = int | Refused
# Called once; also told whether the request had been applied before.
Done: TypeAlias = Callable[[Outcome, bool], None]
