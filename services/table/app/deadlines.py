"""When which game has to be looked at: nothing is done for a game until one of its times has come.

A game has one entry that counts. A deadline that moves away leaves the entry where it is: it comes too early, and the
game is entered anew. So a move costs a comparison, and not a timer.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Protocol
from uuid import UUID


class Waiting(Protocol):
    """A game, as far as its times go."""

    game_id: UUID
    # The time of the entry that counts; 0 without one. Set by `Deadlines` only.
    look_at_us: int

    @property
    def due_at_us(self) -> int:
        """The next time to look at it; 0 for never."""
        ...


class Deadlines:
    """The times of all games of a replica. Keeps ids only, so that no game outlives its end here."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, UUID]] = []

    def note(self, game: Waiting) -> None:
        """A game has come, or its next time may have changed."""
        due_at_us = game.due_at_us
        if due_at_us and not 0 < game.look_at_us <= due_at_us:
            self.look_again(game, due_at_us)

    def look_again(self, game: Waiting, at_us: int) -> None:
        """Look at a game at this time, and not at any other before."""
        game.look_at_us = at_us
        heappush(self._entries, (at_us, game.game_id))

    def due(self, until_us: int) -> Iterator[tuple[UUID, int]]:
        """The entries up to a time, which are gone with that: a game's id, and the time by which it is known whether
        the entry still counts."""
        while self._entries and self._entries[0][0] <= until_us:
            at_us, game_id = heappop(self._entries)
            yield game_id, at_us
