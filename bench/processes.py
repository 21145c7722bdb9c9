"""What a process takes, as Linux tells it."""

import os
from pathlib import Path
from urllib.request import urlopen

from chassis.settings import Address


def memory_bytes(pid: int) -> int:
    """Resident memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Processor time so far, of user and system."""
    # The name, in brackets, may contain anything.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def metric(address: Address, name: str, labels: str = "") -> float:
    """The sum of a service's figures of this name, with these labels in them."""
    with urlopen(f"http://{address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    wanted = (line for line in lines if line.split("{")[0].split(" ")[0] == name and labels in line)
    return sum(float(line.rpartition(" ")[2]) for line in wanted)
