"""Who asks a data folder where everything listens is told of what runs, and of nothing that was killed."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from tools.data import DataFolder, Endpoints, NotRunning

TOLD = Endpoints("127.0.0.1:7400", {"table": ["127.0.0.1:7401"]})
# An `up` that has told where it listens, and is gone without another word.
KILLED = """
import os, sys
from pathlib import Path
from tools.data import DataFolder, Endpoints
folder = DataFolder(Path(sys.argv[1]))
with folder.held():
    folder.write_endpoints(Endpoints("127.0.0.1:9", {}))
    os._exit(9)
"""


def test_what_runs_is_told_as_long_as_it_runs(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    with folder.held():
        folder.write_endpoints(TOLD)
        assert DataFolder(tmp_path).endpoints() == TOLD
    with pytest.raises(NotRunning):
        DataFolder(tmp_path).endpoints()


def test_what_was_killed_is_not_told_even_while_the_next_one_comes_in(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-P", "-c", KILLED, tmp_path], check=False)
    assert killed.returncode == 9
    assert (tmp_path / "endpoints.json").exists()
    with pytest.raises(NotRunning):
        DataFolder(tmp_path).endpoints()
    # The moment between the next one's lock and its first act.
    with (tmp_path / "lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(NotRunning):
            DataFolder(tmp_path).endpoints()
