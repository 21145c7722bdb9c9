"""What the clients of a round did and were told, and what was done to the servers meanwhile: the checker's witness.

Times are the database's, in microseconds since 1970.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from rules.values import value


@value
class Client:
    """One connection's worth of somebody: a phone, a browser."""

    name: str
    # Empty for who has no account at all.
    account: str
    game_id: str


@value
class GameOpened:
    """The creation of a game was acknowledged."""

    at_us: int
    game_id: str
    version: int


@value
class Held:
    """Entries of a quick-play game are about to be held."""

    at_us: int
    game_id: str


@value
class CancelAnswered:
    """Who asked to cancel a game was told whether it was one by then."""

    at_us: int
    game_id: str
    is_game: bool


@value
class Enqueued:
    """Somebody asked for a table and was given a ticket; for one search several devices may ask."""

    sent_us: int
    at_us: int
    account: str
    search: int
    ticket_id: str


@value
class SaidHere:
    """The server has heard that who looks for a table is there."""

    sent_us: int
    at_us: int
    account: str


@value
class TicketTold:
    """What somebody was told of the own ticket; without an id: that there is none."""

    at_us: int
    account: str
    ticket_id: str
    # WAITING, SEATED, DEALING, PLAYING or ENDED; empty where there is none.
    state: str
    game_id: str = ""
    # Why it ended.
    why: str = ""


@value
class TicketCancelled:
    """The server says that somebody has given the ticket up."""

    at_us: int
    account: str
    ticket_id: str


@value
class GameLeft:
    """The server says that somebody has given the seat of a game up."""

    at_us: int
    account: str
    game_id: str


@value
class StreamOpened:
    """A client asks to follow its game after a version; 0 asks for a snapshot."""

    at_us: int
    client: str
    stream: int
    after_version: int


@value
class Told:
    """A message of a stream: a snapshot or commit with its bytes (without the command's id), or a heartbeat."""

    at_us: int
    client: str
    stream: int
    kind: str
    version: int
    content: bytes = b""


@value
class Heard:
    """The server has heard that the client is still there."""

    at_us: int
    client: str


@value
class Sent:
    """A move goes up, for the first time or again."""

    at_us: int
    client: str
    command_id: str
    at_version: int
    move: int


@value
class Acknowledged:
    """The server says that this command is in the log at this version."""

    at_us: int
    client: str
    command_id: str
    version: int


@value
class Refused:
    """The server says that it does not take this command, with a reason that no repetition mends."""

    at_us: int
    client: str
    command_id: str
    reason: str


@value
class Broke:
    """A stream or call ended otherwise than with the game; the client goes on elsewhere."""

    at_us: int
    client: str
    why: str


@value
class Complained:
    """A client met what no server may do, such as a refusal without a reason; it goes on all the same."""

    at_us: int
    client: str
    what: str


@value
class SignedIn:
    """The accounts service answered a request for a guest."""

    at_us: int
    request_id: str
    account: str


@value
class Outage:
    """A process or link did not do its work; until it did again, as far as can be seen from outside."""

    target: str
    deed: str
    began_us: int
    ended_us: int


@value
class Died:
    """A process ended though nobody killed it."""

    at_us: int
    process: str
    exit_code: int


@value
class Phase:
    """Where the round stands from now on."""

    at_us: int
    what: str


Record = (
    Phase
    | Client
    | GameOpened
    | Held
    | CancelAnswered
    | Enqueued
    | SaidHere
    | TicketTold
    | TicketCancelled
    | GameLeft
    | StreamOpened
    | Told
    | Heard
    | Sent
    | Acknowledged
    | Refused
    | Broke
    | Complained
    | SignedIn
    | Outage
    | Died
)

R = TypeVar("R")


class History:
    """All records of a round, in the order in which they were made."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def add(self, record: Record) -> None:
        """Note something."""
        self.records.append(record)

    def of(self, kind: type[R]) -> Iterator[R]:
        """The records of one kind, in order."""
        return (record for record in self.records if isinstance(record, kind))

    def write(self, path: Path) -> None:
        """One JSON object a line; bytes in hexadecimal."""
        with path.open("w") as file:
            for record in self.records:
                entry = {"record": type(record).__name__, **asdict(record)}
                file.write(json.dumps(entry, default=_plain) + "\n")


def _plain(content: Any) -> str:
    assert isinstance(content, bytes), content
    return content.hex()
