"""What a new user does first: clone into some folder, and run the command from some other."""

import subprocess
from pathlib import Path

import pytest


# Installs all packages for real, from pip's cache where it has them.
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_first_command_makes_the_clone_ready_and_leaves_it_clean(clone: Path, tmp_path: Path) -> None:
    first = subprocess.run([clone / "levata", "gen"], cwd=tmp_path, capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    assert (clone / ".venv" / "levata.json").exists()
    assert (clone / "gen" / "levata" / "table" / "v1" / "table_pb2.py").exists()

    # What a service imports is there, and what only developers need is not.
    python = clone / ".venv" / "bin" / "python"
    imports = "import chassis.rpc, rules.registry, services.table.rpc.api"
    subprocess.run([python, "-c", imports], cwd=tmp_path, check=True)
    assert subprocess.run([python, "-c", "import mypy"], capture_output=True).returncode != 0

    second = subprocess.run([clone / "levata", "help"], cwd=tmp_path, capture_output=True, text=True)
    assert (second.returncode, second.stderr) == (0, "")
    status = subprocess.run(["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True)
    assert status.stdout == ""
