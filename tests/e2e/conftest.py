"""A clone of this repository, as a new user has it; made ready once for all tests that run the command in it."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last commit, cloned into a folder with a blank in its name; nothing is made ready yet."""
    folder = tmp_path_factory.mktemp("new user") / "card games"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder], check=True)
    return folder
