"""What the players of a pool are told while its tables are formed: each once for all that a round has changed."""

from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from services.matchmaker.app.picture import Picture
from services.matchmaker.app.ports import Players, Standing

# What is likely to be overtaken at once is told after so long, unless it was.
LATER_US: Final = 300_000
# Who waits without a table is told the position so often; so many are told at a time.
AHEAD_US: Final = 1_000_000
AHEAD_TOLD_MAX: Final = 200


class Telling:
    """Gathers who is to be told, and tells them what they are then. Knows what is told, not why."""

    def __init__(self, players: Players, now_us: Callable[[], int]) -> None:
        self._players = players
        self._now_us = now_us
        self._soon: set[UUID] = set()
        # With the time at which they are told at the latest.
        self._later: dict[UUID, int] = {}
        self._last_number = 0
        self._until_us = 0
        self._ahead_at_us = 0
        self._ahead_up_to = 0

    def keep_turn(self, until_us: int) -> None:
        """Nobody else forms the pool's tables before that time: what is told is as old as that at the latest, so that
        a replica that stood still and goes on says nothing over what its successor has said."""
        self._until_us = until_us

    def soon(self, accounts: Iterable[UUID]) -> None:
        """Tell these with the next `tell`."""
        self._soon.update(accounts)

    def later(self, accounts: Iterable[UUID]) -> None:
        """Tell these in a moment, if there is nothing newer to tell them by then."""
        at_us = self._now_us() + LATER_US
        for account in accounts:
            self._later.setdefault(account, at_us)

    def forget(self, accounts: Iterable[UUID]) -> None:
        """These are told by somebody else, and nothing that is older than that."""
        for account in accounts:
            self._soon.discard(account)
            self._later.pop(account, None)

    def forget_all(self) -> None:
        """The turn is over: others tell."""
        self._soon.clear()
        self._later.clear()

    def tell(self, picture: Picture) -> None:
        """Tell whoever is to be told now, as the picture has them."""
        now_us = self._now_us()
        due = self._soon | {account for account, at_us in self._later.items() if at_us <= now_us}
        self._soon = set()
        for account in due:
            self._later.pop(account, None)
            self.say(account, picture.standing(account))
        if now_us >= self._ahead_at_us:
            self._ahead_at_us = now_us + AHEAD_US
            self._tell_positions(picture)

    def say(self, account: UUID, standing: Standing, ahead: int | None = None) -> None:
        """Tell this now."""
        # Later states must have higher numbers, also where the clock is set back by a little.
        self._last_number = max(self._last_number + 1, min(self._now_us(), self._until_us))
        self._players.tell(account, standing, ahead, self._last_number)

    def _tell_positions(self, picture: Picture) -> None:
        """Tell those who wait without a table how many are before them, some at a time."""
        waiting = picture.waiting()
        first = self._ahead_up_to if self._ahead_up_to < len(waiting) else 0
        self._ahead_up_to = min(len(waiting), first + AHEAD_TOLD_MAX)
        for ahead in range(first, self._ahead_up_to):
            self.say(waiting[ahead].account, Standing(waiting[ahead]), ahead)
