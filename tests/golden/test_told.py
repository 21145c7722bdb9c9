"""What `./levata replay` says of the golden games, to the letter."""

import pytest

from tests.golden.told import TOLD, path_of, told


@pytest.mark.parametrize("name", TOLD)
def test_a_golden_game_is_told_as_it_was(name: str) -> None:
    assert told(name) == path_of(name).read_text(), "meant? then: python -m tests.golden.told"
