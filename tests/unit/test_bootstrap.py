"""When an environment is taken as it is, and when it is made anew (tools/bootstrap.py)."""

import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tools import bootstrap, gen


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose environment was made from runtime.txt, and nothing installed for real."""
    folder = tmp_path / "requirements"
    folder.mkdir()
    (folder / "runtime.txt").write_text("grpcio==1.0 \\\n    --hash=sha256:00\n")
    (folder / "dev.txt").write_text(
        "grpcio==1.0 \\\n    --hash=sha256:00\nRuff_Like.Name==2.0 \\\n    --hash=sha256:01\n"
    )
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    bootstrap.write_stamp(tmp_path / ".venv", bootstrap.wanted_stamp(tmp_path, None, needs_dev=False))
    return tmp_path


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done to the environment, instead of doing it."""
    done: list[str] = []

    def create(environment: Path, turn: int) -> None:
        done.append("create")
        (environment / "bin").mkdir(parents=True)
        (environment / "bin" / "python").touch()
        (environment / "lib" / "python3.11" / "site-packages").mkdir(parents=True)

    def pip_install(environment: Path, lock: Path, turn: int) -> str:
        assert bootstrap.read_stamp(environment) is None, "a killed pip must leave no stamp"
        done.append(f"install {lock.name}")
        return ""

    monkeypatch.setattr(bootstrap, "_create", create)
    monkeypatch.setattr(bootstrap, "_pip_install", pip_install)
    return done


def test_a_finished_environment_is_left_alone(checkout: Path, steps: list[str]) -> None:
    bootstrap.ensure_environment(checkout, needs_dev=False)
    assert steps == []


def test_the_first_run_makes_it_and_the_second_finds_it(checkout: Path, steps: list[str]) -> None:
    bootstrap._discard(checkout / ".venv")
    bootstrap.ensure_environment(checkout, needs_dev=False)
    bootstrap.ensure_environment(checkout, needs_dev=False)
    assert steps == ["create", "install runtime.txt"]
    (path_file,) = (checkout / ".venv").rglob("levata.pth")
    assert path_file.read_text().splitlines() == [str(checkout), str(checkout / "gen")]


def test_a_command_for_developers_adds_their_packages_and_they_stay(checkout: Path, steps: list[str]) -> None:
    bootstrap.ensure_environment(checkout, needs_dev=True)
    bootstrap.ensure_environment(checkout, needs_dev=False)
    assert steps == ["install dev.txt"]
    stamp = bootstrap.read_stamp(checkout / ".venv")
    assert stamp is not None
    assert stamp.packages == ("grpcio", "ruff-like-name")


def test_another_lock_is_installed_into_the_same_environment(checkout: Path, steps: list[str]) -> None:
    (checkout / "requirements" / "runtime.txt").write_text("grpcio==1.1 \\\n    --hash=sha256:02\n")
    bootstrap.ensure_environment(checkout, needs_dev=False)
    assert steps == ["install runtime.txt"]


@pytest.mark.parametrize(
    "made_elsewhere",
    [lambda stamp: replace(stamp, python="cpython 3.10"), lambda stamp: replace(stamp, root="/somewhere/else")],
    ids=["another Python", "a checkout that was moved"],
)
def test_an_environment_that_cannot_work_here_is_made_anew(
    checkout: Path, steps: list[str], made_elsewhere: Callable[[bootstrap.Stamp], bootstrap.Stamp]
) -> None:
    stamp = bootstrap.read_stamp(checkout / ".venv")
    assert stamp is not None
    bootstrap.write_stamp(checkout / ".venv", made_elsewhere(stamp))
    bootstrap.ensure_environment(checkout, needs_dev=False)
    assert steps == ["create", "install runtime.txt"]


@pytest.mark.parametrize("stamp", [None, "", "{", "[]", json.dumps({"root": "x"})])
def test_an_unfinished_environment_is_made_anew(checkout: Path, steps: list[str], stamp: str | None) -> None:
    path = checkout / ".venv" / "levata.json"
    if stamp is None:
        path.unlink()
    else:
        path.write_text(stamp)
    bootstrap.ensure_environment(checkout, needs_dev=False)
    assert steps == ["create", "install runtime.txt"]


def test_when_pip_fails_the_old_environment_stays_and_its_words_are_told(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bootstrap.read_stamp(checkout / ".venv")
    monkeypatch.setattr(bootstrap, "_pip_install", lambda environment, lock, turn: "no network here")
    with pytest.raises(bootstrap.NotReady, match="no network here"):
        bootstrap.ensure_environment(checkout, needs_dev=True)
    assert bootstrap.read_stamp(checkout / ".venv") == before


def test_what_the_lock_dropped_is_taken_out(checkout: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    uninstalled: list[str] = []
    monkeypatch.setattr(bootstrap, "_pip_uninstall", lambda environment, packages, turn: uninstalled.extend(packages))
    bootstrap.ensure_environment(checkout, needs_dev=True)
    (checkout / "requirements" / "dev.txt").write_text("grpcio==1.0 \\\n    --hash=sha256:00\n")
    bootstrap.ensure_environment(checkout, needs_dev=True)
    assert uninstalled == ["ruff-like-name"]


def test_stubs_that_were_not_there_at_the_start_can_be_imported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python leaves out of its path a folder that a path file names and that is not there when it starts."""

    def make(root: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "stub_of_the_first_run.py").write_text("MADE = True\n")

    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(gen, "make", make)
    monkeypatch.setattr(gen, "are_current", lambda _, folder: folder.exists())
    bootstrap._ensure_stubs()
    assert importlib.import_module("stub_of_the_first_run").MADE
