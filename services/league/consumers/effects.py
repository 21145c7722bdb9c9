"""What the league's consumers have in common."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from uuid import UUID

from chassis.database import Session
from chassis.facts import Fact


class LiveEffects(ABC):
    """What facts do to the live build, and for whom that changes something."""

    def __init__(self) -> None:
        # Accounts for whom something has changed since these were last taken.
        self._moved: set[UUID] = set()

    @abstractmethod
    async def apply(self, session: Session, facts: Sequence[Fact]) -> None:
        """Give facts their effects, in the caller's transaction."""

    async def apply_one(self, session: Session, fact: Fact) -> None:
        """Give one fact its effect."""
        await self.apply(session, [fact])

    def take_moved(self) -> set[UUID]:
        """Accounts for whom something has changed."""
        moved, self._moved = self._moved, set()
        return moved
