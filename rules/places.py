"""Places in a finished game."""

from collections.abc import Sequence
from typing import Any


def shared_places(totals: Sequence[int]) -> tuple[int, ...]:
    """Places by seat, from 1; equal totals share the better place (1, 1, 3, 4)."""
    return tuple(1 + sum(other > total for other in totals) for total in totals)


def unique_places(sort_keys: Sequence[Any]) -> tuple[int, ...]:
    """Places by seat, from 1, of seats whose keys sort the best first; level keys go to the lower seat."""
    ranking = sorted(range(len(sort_keys)), key=sort_keys.__getitem__)
    return tuple(1 + ranking.index(seat) for seat in range(len(sort_keys)))
