"""boardgame.io as a peer: its own server and clients, four seats a match, everything in memory and nothing durable."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.embedded.process import free_port

FOLDER: Final = Path(__file__).parent / "boardgame"


class NotHere(Exception):
    """Node or the packages cannot be had on this machine; the message says which."""


def install() -> Path:
    """Node, with what the lock says in place."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NotHere("Node is not here")
    wanted = hashlib.sha256((FOLDER / "package-lock.json").read_bytes()).hexdigest()
    stamp = FOLDER / "node_modules" / ".levata"
    if not (stamp.exists() and stamp.read_text() == wanted):
        done = subprocess.run([npm, "ci", "--ignore-scripts"], cwd=FOLDER, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NotHere(f"npm cannot install boardgame.io: {done.stderr.strip().splitlines()[-1:]}")
        stamp.write_text(wanted)
    return Path(node)


@contextmanager
def server(node: Path) -> Iterator[int]:
    """A running server; yields its port."""
    port = free_port()
    environment = {**os.environ, "NODE_ENV": "production"}
    command = [str(node), "server.js", str(port)]
    with subprocess.Popen(command, cwd=FOLDER, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            while "listening" not in (line := process.stdout.readline()):
                if not line:
                    raise RuntimeError("boardgame.io did not start")
            yield port
        finally:
            process.terminate()


def moves_per_second(node: Path, port: int, matches: int, seconds: float) -> float:
    """What its clients reach."""
    command = [str(node), "load.js", str(port), str(matches), str(seconds)]
    environment = {**os.environ, "NODE_ENV": "production"}
    done = subprocess.run(command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])
