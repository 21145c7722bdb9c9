"""Make a checkout ready, then run the levata command: the second step of `./levata`, after the shell found a Python.

Two rounds. The first may run on any Python from 3.11 on and makes `.venv` from the lock; the second runs in that
environment, makes the stubs in `gen/` and hands over to `tools.cli`. When nothing changed both are one process that
compares two stamps and goes on. Standard library only: it runs before there is anything else.

What is in `.venv` is told by a stamp that is taken away before the first change and put back after the last one, so an
interrupted run is seen by the next, which then starts from nothing. A lock on the checkout's folder makes two at once
take turns; pip holds it too, so that nobody touches what the pip of a killed run is still writing.
"""

import fcntl
import hashlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The commands that need more than the services do.
DEV_COMMANDS = frozenset({"check", "test", "bench", "web"})

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)


class NotReady(Exception):
    """The checkout could not be made ready; the message says why, to a person."""


@dataclass(frozen=True)
class Stamp:
    """What a finished `.venv` was made from."""

    # Scripts in an environment name its place and its Python, so one that moved is of no use.
    root: str
    python: str
    lock: str
    lock_hash: str
    # Canonical names of what the lock put in, so that what a later lock leaves out can be taken out again.
    packages: tuple[str, ...]


def main() -> None:
    """Make ready what the command needs and run it."""
    try:
        _run(sys.argv[1:])
    except NotReady as problem:
        sys.exit(f"levata: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)


def _run(arguments: list[str]) -> None:
    needs_dev = bool(arguments) and arguments[0] in DEV_COMMANDS
    changed = ensure_environment(ROOT, needs_dev)
    python = _python_of(ROOT / ".venv")
    # What was made while this process ran is not on its path, even if its own environment was made anew.
    if changed or not _is_running_in(ROOT / ".venv"):
        os.execv(python, [str(python), "-P", __file__, *arguments])
    _ensure_stubs()
    from tools.cli import main as run_command

    run_command(arguments)


def ensure_environment(root: Path, needs_dev: bool) -> bool:
    """Make root's `.venv` hold what its lock says; tells whether something had to be done."""
    environment = root / ".venv"
    found = read_stamp(environment)
    if found is not None and _is_fit(found, root) and found == wanted_stamp(root, found, needs_dev):
        return False
    with taking_turns(root) as turn:
        # Another run may have done it meanwhile.
        found = read_stamp(environment)
        if found is not None and not _is_fit(found, root):
            found = None
        wanted = wanted_stamp(root, found, needs_dev)
        if found == wanted:
            return True
        if found is None:
            _discard(environment)
            tell(f"making .venv with Python {sys.version.split()[0]}")
            _create(environment, turn)
            _write_path_file(root)
        _install(root, found, wanted, turn)
    return True


def wanted_stamp(root: Path, found: Stamp | None, needs_dev: bool) -> Stamp:
    """The stamp that root's environment should have. The developer's set, once there, stays."""
    lock = "dev.txt" if needs_dev or (found is not None and found.lock == "dev.txt") else "runtime.txt"
    content = (root / "requirements" / lock).read_text()
    return Stamp(
        root=str(root),
        python=_python_version(),
        lock=lock,
        lock_hash=hashlib.sha256(content.encode()).hexdigest(),
        packages=tuple(sorted(_canonical(name) for name in _PINNED.findall(content))),
    )


def read_stamp(environment: Path) -> Stamp | None:
    """What the environment was made from; None if it is not there or not finished."""
    try:
        content = json.loads((environment / "levata.json").read_text())
        return Stamp(**{**content, "packages": tuple(content["packages"])})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def write_stamp(environment: Path, stamp: Stamp) -> None:
    """Say that the environment is finished. The last thing done to it."""
    fresh = environment / "levata.json.new"
    fresh.write_text(json.dumps(asdict(stamp), indent=1))
    fresh.replace(environment / "levata.json")


@contextmanager
def taking_turns(root: Path) -> Iterator[int]:
    """Hold the checkout's lock; the kernel frees it when all who hold its file descriptor are gone."""
    folder = os.open(root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("another levata is making this checkout ready: waiting for it")
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(folder)


def tell(sentence: str) -> None:
    """A line of progress; on stderr, because stdout belongs to the command."""
    print(f"levata: {sentence}", file=sys.stderr, flush=True)


def _ensure_stubs() -> None:
    from tools import gen

    folder = ROOT / "gen"
    if gen.are_current(ROOT, folder):
        return
    with taking_turns(ROOT):
        if not gen.are_current(ROOT, folder):
            tell("making the stubs in gen/ from protos/")
            try:
                gen.make(ROOT, folder)
            except gen.StubsFailed as failed:
                raise NotReady(f"the protos have a fault:\n{failed}") from None
    # The path file names this folder, but Python leaves out what was not there when it started.
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        importlib.invalidate_caches()


def _is_fit(stamp: Stamp, root: Path) -> bool:
    return stamp.root == str(root) and stamp.python == _python_version() and _python_of(root / ".venv").exists()


def _is_running_in(environment: Path) -> bool:
    return environment.exists() and environment.samefile(sys.prefix)


def _python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def _python_version() -> str:
    return f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"


def _discard(environment: Path) -> None:
    # Renamed first, so that no half of an environment is ever found in its place.
    if environment.exists():
        environment.rename(environment.with_name(f".venv.discarded-{os.getpid()}"))
    for discarded in environment.parent.glob(".venv.discarded-*"):
        shutil.rmtree(discarded, ignore_errors=True)


def _create(environment: Path, turn: int) -> None:
    # Needed once, and a tenth of the time of every other start.
    import venv

    call: list[str | Path] = [_python_of(environment), "-m", "ensurepip", "--default-pip"]
    try:
        venv.EnvBuilder(symlinks=True, prompt="levata").create(environment)
        subprocess.run(call, pass_fds=[turn], capture_output=True, text=True, check=True)
    except OSError as error:
        raise NotReady(f"Python's venv could not make {environment}: {error}") from None
    except subprocess.CalledProcessError as error:
        raise NotReady(f"Python's venv could not make {environment}:\n{error.stdout}{error.stderr}") from None


def _write_path_file(root: Path) -> None:
    """Put the checkout and its stubs on the environment's path."""
    (packages,) = (root / ".venv" / "lib").glob("python*/site-packages")
    (packages / "levata.pth").write_text(f"{root}\n{root / 'gen'}\n")


def _install(root: Path, found: Stamp | None, wanted: Stamp, turn: int) -> None:
    environment = root / ".venv"
    (environment / "levata.json").unlink(missing_ok=True)
    started = time.monotonic()
    tell(f"installing {wanted.lock}: {len(wanted.packages)} packages, a minute or two the first time")
    failure = _pip_install(environment, root / "requirements" / wanted.lock, turn)
    if failure:
        if found is not None:
            # pip undoes what it cannot finish: the environment is what it was.
            write_stamp(environment, found)
        raise NotReady(f"pip could not install requirements/{wanted.lock}. Its last words:\n{failure}")
    dropped = sorted(set(found.packages) - set(wanted.packages)) if found is not None else []
    if dropped:
        _pip_uninstall(environment, dropped, turn)
    write_stamp(environment, wanted)
    tell(f"ready after {time.monotonic() - started:.0f} s")


def _pip_install(environment: Path, lock: Path, turn: int) -> str:
    """Install the lock, showing how far it is; the end of pip's output if it failed, else nothing."""
    call: list[str | Path] = [
        _python_of(environment),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
    ]
    call += ["--progress-bar", "off", "--require-hashes", "--requirement", lock]
    is_terminal = sys.stderr.isatty()
    lines: list[str] = []
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, pass_fds=[turn]) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            lines.append(line.rstrip())
            if is_terminal:
                step = " ".join(line.split()[:2])[:70]
                print(f"\r\033[K        {step}", end="", file=sys.stderr, flush=True)
    if is_terminal:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return "" if pip.returncode == 0 else "\n".join(lines[-12:])


def _pip_uninstall(environment: Path, packages: list[str], turn: int) -> None:
    call: list[str | Path] = [_python_of(environment), "-m", "pip", "uninstall", "--quiet", "--yes", *packages]
    # A package that stays does no harm.
    subprocess.run(call, pass_fds=[turn], check=False)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
