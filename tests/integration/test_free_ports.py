"""Ports that are given before they are bound: no other process gets them meanwhile."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# So few that processes which do not know of each other would be given the same.
ASKING = """
import sys
from tools.embedded import process
process.PORTS = range(20_000, 20_400)
for _ in range(60):
    print(process.free_port(), flush=True)
sys.stdin.read()
"""


def test_processes_are_given_different_ports() -> None:
    asking = [
        subprocess.Popen(
            [sys.executable, "-c", ASKING], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    given = []
    for each in asking:
        assert each.stdout is not None
        given += [each.stdout.readline() for _ in range(60)]
    assert "" not in given
    assert len(set(given)) == len(given)
    for each in asking:
        # Until here none of them has ended, and let go its ports.
        each.communicate("")
