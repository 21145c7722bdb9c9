"""Parts of the benches that stand on the insides of services: run small, so that they do not rot meanwhile."""

import pytest

from bench import table


def test_the_memory_of_a_game_is_still_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MEMORY_GAMES", 3)
    monkeypatch.setattr(table, "ROUNDS", 1)
    ratio = table._memory()
    assert ratio.unit == "KB"
    assert 1 < ratio.ours < 1_000
