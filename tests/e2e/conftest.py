"""A clone of this repository, as a new user has it, and an `up` of this one; each is made once for many tests."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.running import LEVATA, Up

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last commit, cloned into a folder with a blank in its name; nothing is made ready yet."""
    folder = tmp_path_factory.mktemp("new user") / "card games"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder], check=True)
    return folder


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """An `up` for all tests of the module."""
    folder = tmp_path_factory.mktemp("with a blank")
    command: list[str | Path] = [*LEVATA, "up", "--data", folder / "data", "--port", "0"]
    started = Up(command, folder / "data", folder / "up.log", {})
    started.endpoints()
    yield started
    started.stop(signal.SIGINT)
