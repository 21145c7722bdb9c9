"""What came of a replica's deals, counted."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from chassis.figures import Histogram

# A table deals ten seconds after it opened.
_WISH_SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 11.0, 12.5, 15.0, 30.0, 60.0)
# With players that answer at once it should be three tenths at most.
_FULL_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 1.5, 2.5, 5.0, 10.0)


class Outcomes:
    """Counts since the start."""

    def __init__(self) -> None:
        # From a player's wish to the game, and from a table's being full to it.
        self.wish_seconds = Histogram(_WISH_SECONDS)
        self.full_seconds = Histogram(_FULL_SECONDS)
        self.started = 0
        self.not_started = 0
        # Players that were replaced by bots, by reason.
        self.refused: Counter[str] = Counter()

    def add_started(self, now_us: int, queued_at_us: Iterable[int], full_since_us: int | None) -> None:
        """A game has begun, with players who wished for it then, at a table that was full since then or was not."""
        self.started += 1
        for wished_us in queued_at_us:
            self.wish_seconds.observe((now_us - wished_us) / 1_000_000)
        if full_since_us is not None:
            self.full_seconds.observe((now_us - full_since_us) / 1_000_000)
