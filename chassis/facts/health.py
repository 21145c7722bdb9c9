"""Whether who hears or relays facts is caught up, lagging or dead: a number alone cannot tell these apart."""

import time
from dataclasses import dataclass
from enum import Enum
from typing import Final

# Without any success for so long it is dead.
DEAD_SECONDS: Final = 15.0


class State(Enum):
    """How it stands."""

    CAUGHT_UP = "caught_up"
    LAGGING = "lagging"
    # It does not get on at all: refused, stuck, or cut off from what it needs.
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Status:
    """For health, metrics and people."""

    state: State
    checkpoint: int
    head: int
    # Why it is dead, or the last trouble.
    reason: str | None


class Pulse:
    """What a status is made of."""

    def __init__(self, dead_seconds: float = DEAD_SECONDS) -> None:
        self._dead_seconds = dead_seconds
        self._alive_at = time.monotonic()
        # The head at the last comparison and at the one before it.
        self._head: int | None = None
        self._earlier_head: int | None = None
        self._trouble: str | None = None
        # Why it waits for an operator.
        self.refusal: str | None = None

    def alive(self) -> None:
        """Something was done."""
        self._alive_at = time.monotonic()
        self._trouble = None

    def compared(self, head: int) -> None:
        """The head is known, and nothing is refused."""
        self._earlier_head, self._head = self._head, head
        self.refusal = None

    def troubled(self, error: BaseException) -> None:
        """Something failed and will be tried again."""
        self._trouble = repr(error)

    def status(self, checkpoint: int) -> Status:
        """How it stands at a checkpoint."""
        head = max(self._head or 0, checkpoint)
        if self.refusal is not None:
            return Status(State.DEAD, checkpoint, head, self.refusal)
        if time.monotonic() - self._alive_at > self._dead_seconds:
            return Status(State.DEAD, checkpoint, head, self._trouble or "nothing was done for too long")
        # Facts that came since the last comparison do not count: under load there always are some.
        goal = self._earlier_head if self._earlier_head is not None else self._head
        caught_up = goal is not None and checkpoint >= goal
        return Status(State.CAUGHT_UP if caught_up else State.LAGGING, checkpoint, head, self._trouble)
