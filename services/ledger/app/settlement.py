"""Whether games are paid for: what who closes a week must know."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from grpc import StatusCode

from chassis.errors import Refused


class ParkedFact(NamedTuple):
    """A fact of a game that has had no effect."""

    number: int
    game_id: str
    # An operator has decided that it never has one.
    discarded: bool


class Stand(NamedTuple):
    """In one moment: how far the games' log was followed, and where the ledger's own stood."""

    # None until the games' log was heard for the first time.
    games_incarnation: UUID | None
    games_fact: int
    incarnation: UUID
    last: int
    parked: Sequence[ParkedFact]


class Followed(Protocol):
    """What the ledger has made of the games' facts. Refused while the ledger is away."""

    async def stand(self, games_fact: int) -> Stand:
        """How things stand now; parked facts up to this number."""
        ...


async def settled(followed: Followed, games_incarnation: UUID, games_fact: int) -> Stand:
    """Where the ledger's log stands, once the games' facts up to a number have had their effects or are parked.

    Refused with NOT_YET before, and with INCARNATION_CHANGED where another log of games was followed.
    """
    stand = await followed.stand(games_fact)
    if stand.games_incarnation not in (None, games_incarnation):
        raise Refused(
            "INCARNATION_CHANGED",
            StatusCode.FAILED_PRECONDITION,
            "The games' log is another one than the ledger has heard.",
        )
    if stand.games_incarnation is None or stand.games_fact < games_fact:
        raise Refused(
            "NOT_YET", StatusCode.FAILED_PRECONDITION, f"The games' facts are followed up to {stand.games_fact} so far."
        )
    return stand
