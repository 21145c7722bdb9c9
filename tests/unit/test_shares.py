"""Shares of a prize, worked out by hand and held against a sum over places."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.places import shared_places
from rules.shares import share

SIX, FOUR, PAIRS = (100, 70, 55), (100, 50), (75, 75)


@pytest.mark.parametrize(
    ("percents", "places", "percent_by_seat"),
    [
        (SIX, (1, 2, 3, 4, 5, 6), [100, 70, 55, 0, 0, 0]),
        # Two first: the first and second place between them, and the next is third.
        (SIX, (1, 1, 3, 4, 5, 6), [85, 85, 55, 0, 0, 0]),
        (SIX, (1, 2, 3, 3, 5, 6), [100, 70, Fraction(55, 2), Fraction(55, 2), 0, 0]),
        (SIX, (1, 2, 2, 2, 5, 5), [100, *[Fraction(125, 3)] * 3, 0, 0]),
        (SIX, (1, 1, 1, 1, 1, 1), [Fraction(225, 6)] * 6),
        (FOUR, (2, 1, 4, 3), [50, 100, 0, 0]),
        (FOUR, (1, 2, 2, 4), [100, 25, 25, 0]),
        (PAIRS, (1, 3, 1, 3), [75, 0, 75, 0]),
        (PAIRS, (1, 1, 1, 1), [Fraction(75, 2)] * 4),
    ],
)
def test_what_each_place_is_worth(
    percents: tuple[int, ...], places: tuple[int, ...], percent_by_seat: list[Fraction]
) -> None:
    assert [share(percents, places, place) * 100 for place in places] == percent_by_seat


@given(st.lists(st.integers(0, 3), min_size=4, max_size=7), st.lists(st.integers(0, 100), max_size=7))
def test_what_is_covered_is_given_out_in_equal_parts(totals: Sequence[int], percents: list[int]) -> None:
    """The model: seats in the order of their totals take the percentages one by one; equals put theirs together."""
    places = shared_places(totals)
    shares = [share(tuple(percents), places, place) for place in places]
    queue = iter([*percents, *[0] * len(totals)])
    for total in sorted(set(totals), reverse=True):
        pot = sum(next(queue) for _ in range(totals.count(total)))
        alike = [share for share, own in zip(shares, totals, strict=True) if own == total]
        assert len(set(alike)) == 1 and sum(alike) * 100 == pot
