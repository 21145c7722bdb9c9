"""A new user's backend: `./levata up` in a clone, from another folder, stopped with Ctrl-C and started again."""

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
