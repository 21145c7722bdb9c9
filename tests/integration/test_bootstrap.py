"""`./levata` on a small checkout of its own: a real environment is made, from locks that ask for nothing."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools import gen

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The command and its bootstrap, in a folder with a blank in its name."""
    root = tmp_path / "card games"
    (root / "tools").mkdir(parents=True)
    (root / "requirements").mkdir()
    shutil.copy(ROOT / "levata", root)
    for module in ("__init__", "bootstrap", "cli", "gen"):
        shutil.copy(ROOT / "tools" / f"{module}.py", root / "tools")
    for lock in ("runtime.txt", "dev.txt"):
        (root / "requirements" / lock).write_text("# nothing\n")
    # No protos, so stubs are made when the stamp says so.
    (root / "gen").mkdir()
    (root / "gen" / gen.STAMP).write_text(gen._fingerprint(root))
    return root


def run(
    script: Path, *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", script, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=250
    )


def test_it_makes_itself_ready_from_anywhere_and_only_once(checkout: Path, tmp_path: Path) -> None:
    link = tmp_path / "levata"
    link.symlink_to(checkout / "levata")

    first = run(link, "help", cwd=tmp_path)
    second = run(link, "help", cwd=tmp_path)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "making .venv" in first.stderr
    assert second.stderr == ""
    assert first.stdout == second.stdout
    assert "./levata COMMAND" in first.stdout


def test_two_at_once_take_turns(checkout: Path) -> None:
    both = [
        subprocess.Popen([checkout / "levata", "help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    told = [process.communicate(timeout=250) for process in both]

    assert [process.returncode for process in both] == [0, 0], told
    assert sum("making .venv" in errors for _, errors in told) == 1
    assert all("./levata COMMAND" in output for output, _ in told)


def test_a_run_that_was_killed_is_made_good_by_the_next(checkout: Path) -> None:
    killed = subprocess.Popen([checkout / "levata", "help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    python = checkout / ".venv" / "bin" / "python"
    while not python.exists():
        assert killed.poll() is None
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (checkout / ".venv" / "levata.json").exists()

    again = run(checkout / "levata", "help", cwd=checkout)

    assert again.returncode == 0, again.stderr
    assert "making .venv" in again.stderr
    assert (checkout / ".venv" / "levata.json").exists()
    assert list(checkout.glob(".venv.discarded-*")) == []


def only(folder: Path, **programs: str) -> dict[str, str]:
    """An environment whose path has the tools of a shell and these programs, but no Python."""
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    for tool in ("dirname", "readlink"):
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    return {"PATH": str(folder)}


@pytest.mark.parametrize(
    ("programs", "sentence"),
    [
        ({}, "Python 3.11 or newer is needed, and there is none."),
        ({"python3": "exit 127"}, "Python 3.11 or newer is needed, and there is none."),
        ({"python3": "exit 10"}, "Python 3.11 or newer is needed; python3 is older."),
        ({"python3": "exit 10", "python3.12": "exit 11"}, "python3.12 comes without venv."),
    ],
    ids=["no Python", "a shim without a Python", "too old", "no venv"],
)
def test_without_a_fit_python_it_says_what_is_missing(
    checkout: Path, tmp_path: Path, programs: dict[str, str], sentence: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    done = run(checkout / "levata", "help", cwd=tmp_path, environment=only(folder, **programs))
    assert done.returncode == 1
    assert sentence in done.stderr
    assert not (checkout / ".venv").exists()


def test_it_passes_over_a_python_that_is_too_old(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    environment = only(folder, **{"python3": "exit 10", "python3.11": f'exec "{sys.executable}" "$@"'})
    done = run(checkout / "levata", "help", cwd=tmp_path, environment={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    assert "./levata COMMAND" in done.stdout


def test_the_python_that_the_operator_names_is_the_only_one_tried(checkout: Path, tmp_path: Path) -> None:
    done = run(checkout / "levata", "help", cwd=tmp_path, environment={**os.environ, "LEVATA_PYTHON": "/bin/false"})
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed" in done.stderr
