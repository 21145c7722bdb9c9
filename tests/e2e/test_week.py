"""`./levata demo --week`: the end of a week, from the games to the rewards, in a backend of its own."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.running import LEVATA

pytestmark = pytest.mark.slow


def test_a_week_is_played_closed_and_rewarded() -> None:
    ended = subprocess.run([*LEVATA, "demo", "--week"], capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "✓ the week was closed as it stood" in ended.stdout
    # Of four seats two are paid for.
    assert "number 1: 100,000 coin, 50 gold; queen from now on" in ended.stdout
    assert "number 2: 80,000 coin, 30 gold; queen from now on" in ended.stdout
    assert "✗" not in ended.stdout and not ended.stderr


def test_ctrl_c_in_the_middle_of_it_ends_everything(tmp_path: Path) -> None:
    # Its folder, by whose path everything that it starts can be told, is made in this one.
    demo = subprocess.Popen(
        [*LEVATA, "demo", "--week"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    try:
        assert demo.stdout is not None
        # People are signed in, and their games begin.
        assert any("play quick play" in line for line in demo.stdout)
        assert _started_in(tmp_path)
        # As a terminal does it, to everybody who belongs to it.
        os.killpg(demo.pid, signal.SIGINT)
        _, errors = demo.communicate(timeout=60)
    finally:
        demo.kill()
    # As shells tell of Ctrl-C.
    assert (demo.returncode, errors) == (128 + signal.SIGINT, "")
    assert not _started_in(tmp_path) and not list(tmp_path.iterdir())


def _started_in(folder: Path) -> list[str]:
    """Command lines of processes that name a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_text(errors="replace")
        except OSError:
            # It has ended meanwhile.
            continue
        if str(folder) in arguments:
            found.append(arguments.replace("\0", " "))
    return found
