"""Everything about the code that a machine can judge without running it, in one command; CI calls the same."""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = Path(sys.executable).parent

# What a change of the protos must stay compatible with.
BASELINE = "origin/main"

# Package registries, written so that these lines do not name them. Where packages come from is the machine's business.
REGISTRY = re.compile(
    r"pyp[i]\.org|pythonhoste[d]\.org|npmj[s]\.(org|com)|yarnpk[g]\.com|crate[s]\.io|proxy\.golan[g]\.org|rubygem[s]\.org"
    r"|mave[n]\.org"
)
INDEX_LINE = re.compile(r"^\s*(-i\b|--index-url|--extra-index-url|--find-links|-f\b|--trusted-host)", re.MULTILINE)
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(\[[^\]]*\])?==(?P<version>[^\s;\\]+)")


@dataclass(frozen=True)
class Verdict:
    """What a step found; the output matters when it failed."""

    passed: bool
    output: str = ""


@dataclass(frozen=True)
class Step:
    """One thing to check."""

    name: str
    run: Callable[[], Verdict]


def main(
    fix: Annotated[bool, typer.Option("--fix", help="Format and mend what can be mended, first.")] = False,
) -> None:
    """Check format, lint, types, import contracts, protos and locks."""
    if fix:
        _fix()
    steps = [
        Step("format", lambda: _program("ruff", "format", "--check", ".")),
        Step("lint", lambda: _program("ruff", "check", "--output-format", "concise", ".")),
        Step("types", lambda: _program("mypy")),
        Step("import contracts", lambda: _program("lint-imports", "--no-logo")),
        Step("proto lint", lambda: _program("buf", "lint")),
        Step("proto format", lambda: _program("buf", "format", "--diff", "--exit-code", "protos")),
        Step(f"protos compatible with {BASELINE}", _protos_stay_compatible),
        Step("locks", lambda: _findings(lock_faults(ROOT / "requirements"))),
        Step("no registry is named", lambda: _findings(registry_names(_tracked_texts()))),
    ]
    failed = 0
    # Two at a time, because types take as long as the rest together; told in order.
    with ThreadPoolExecutor(max_workers=2) as pool:
        for step, verdict in zip(steps, pool.map(lambda step: step.run(), steps), strict=True):
            print(f"{'✓' if verdict.passed else '✗'} {step.name}", flush=True)
            if not verdict.passed:
                failed += 1
                print(_indented(verdict.output), flush=True)
    if failed:
        raise SystemExit(f"{failed} of {len(steps)} checks failed")


def lock_faults(folder: Path) -> list[str]:
    """What is wrong with the locks in `folder`: pins without hashes, index addresses, sets that disagree."""
    faults: list[str] = []
    pins: dict[str, dict[str, str]] = {}
    for lock in ("runtime.txt", "dev.txt"):
        content = (folder / lock).read_text()
        faults += [f"{lock} names an index: {line.group().strip()}" for line in INDEX_LINE.finditer(content)]
        pins[lock] = {}
        # A requirement is a line and the lines that its backslashes add.
        for requirement in re.sub(r"\\\n", " ", content).splitlines():
            if not requirement.strip() or requirement.lstrip().startswith("#"):
                continue
            pin = PIN.match(requirement)
            if pin is None:
                if not INDEX_LINE.match(requirement):
                    faults.append(f"{lock}: not pinned: {requirement.strip()}")
                continue
            pins[lock][_canonical(pin["name"])] = pin["version"]
            if "--hash=sha256:" not in requirement:
                faults.append(f"{lock}: {pin['name']} has no hash")
        for name in _asked_for(folder / lock.replace(".txt", ".in")):
            if name not in pins[lock]:
                faults.append(f"{lock} lacks {name}: lock it again")
    for name, version in pins["runtime.txt"].items():
        if pins["dev.txt"].get(name) != version:
            faults.append(f"dev.txt has another {name} than runtime.txt ({version})")
    return faults


def registry_names(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Where a text of (path, content) names a package registry."""
    return [
        f"{path}:{number}: {match.group()}"
        for path, content in texts
        for number, line in enumerate(content.splitlines(), start=1)
        if (match := REGISTRY.search(line))
    ]


def _fix() -> None:
    for call in (
        ("ruff", "check", "--fix", "--quiet", "."),
        ("ruff", "format", "."),
        ("buf", "format", "-w", "protos"),
    ):
        subprocess.run([PROGRAMS / call[0], *call[1:]], cwd=ROOT, check=False)


def _program(name: str, *arguments: str) -> Verdict:
    call: list[str | Path] = [PROGRAMS / name, *arguments]
    done = subprocess.run(
        call, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=_environment()
    )
    return Verdict(done.returncode == 0, done.stdout)


def _environment() -> dict[str, str]:
    # buf and import-linter look for their helpers on the path.
    return {**os.environ, "PATH": os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", os.defpath)])}


def _protos_stay_compatible() -> Verdict:
    known = subprocess.run(["git", "cat-file", "-e", f"{BASELINE}:protos"], cwd=ROOT, capture_output=True, check=False)
    if known.returncode != 0:
        return Verdict(True)  # Nothing was published yet that could break.
    call = ["git", "archive", BASELINE, "buf.yaml", "protos", "third_party/protos"]
    archive = subprocess.run(call, cwd=ROOT, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        return _program("buf", "breaking", "--against", folder)


def _tracked_texts() -> Iterable[tuple[str, str]]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listing.split("\0"):
        path = ROOT / name
        if name and path.is_file():
            yield name, path.read_bytes().decode(errors="replace")


def _findings(faults: list[str]) -> Verdict:
    return Verdict(not faults, "\n".join(faults))


def _asked_for(requirements: Path) -> list[str]:
    lines = (line.split("#")[0].strip() for line in requirements.read_text().splitlines())
    return [_canonical(re.split(r"[\[<>=!~; ]", line)[0]) for line in lines if line and not line.startswith("-")]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines())
