"""`./levata demo --week`: the end of a week, from the games to the rewards, in a backend of its own."""

import subprocess

import pytest

from tests.e2e.running import LEVATA

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_week_is_played_closed_and_rewarded() -> None:
    ended = subprocess.run([*LEVATA, "demo", "--week"], capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "✓ the week was closed as it stood" in ended.stdout
    # Of four seats two are paid for.
    assert "number 1: 100,000 coin, 50 gold; queen from now on" in ended.stdout
    assert "number 2: 80,000 coin, 30 gold; queen from now on" in ended.stdout
    assert "✗" not in ended.stdout and not ended.stderr
