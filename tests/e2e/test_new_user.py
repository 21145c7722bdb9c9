"""What a new user does first: clone into some folder, run a command from some other, and bring a backend up there.

In one file: the tests share the clone, and the packages that the first one installs.
"""

import asyncio
import signal
import subprocess
from pathlib import Path

import pytest

from chassis.settings import Address
from tests.e2e.running import Up, account_of, new_guest
from tools.embedded.process import free_port

# Installs all packages, if no test before has.
BOOTSTRAP_SECONDS = 600.0


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


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_up_runs_in_a_clone_and_leaves_nothing_behind(clone: Path, tmp_path: Path) -> None:
    public = Address("127.0.0.1", free_port())
    command: list[str | Path] = [clone / "levata", "up", "--port", str(public.port)]

    first = Up(command, clone / ".levata", tmp_path / "first.log", {})
    endpoints = first.endpoints(BOOTSTRAP_SECONDS)
    assert endpoints.public == str(public)
    account_id, token = asyncio.run(new_guest(endpoints))
    assert first.stop(signal.SIGINT) == 0

    second = Up(command, clone / ".levata", tmp_path / "second.log", {})
    assert asyncio.run(account_of(second.endpoints(), token)) == account_id
    assert second.stop(signal.SIGINT) == 0

    status = subprocess.run(["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True)
    assert status.stdout == ""
