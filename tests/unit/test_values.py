"""Values and the function that makes them fast."""

from dataclasses import dataclass

import pytest

from rules.values import _maker, maker, value


@value
class Pair:
    left: int
    right: tuple[int, ...] = ()


def test_values_are_frozen_in_tests() -> None:
    with pytest.raises(AttributeError):
        Pair(1).left = 2  # type: ignore[misc]


def test_values_compare_and_hash_by_their_fields() -> None:
    assert len({Pair(1, (2,)), Pair(1, (2,)), Pair(2, (2,))}) == 2


@dataclass(slots=True)
class Thawed:
    """A value as it is outside of tests."""

    left: int
    right: tuple[int, ...]


def test_a_maker_makes_equal_values() -> None:
    assert _maker(Thawed)(1, (2,)) == Thawed(1, (2,))
    assert maker(Pair)(1, (2,)) == Pair(1, (2,))
