"""Figures that are kept where things happen, as plain numbers; `chassis.telemetry` tells them to who asks."""

from bisect import bisect_left
from collections.abc import Sequence

# Seconds, for what takes from a part of a millisecond to some seconds.
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    """How often a value was at most as big as each of some bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        # Of each bound alone; the last is of what is over all of them.
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
