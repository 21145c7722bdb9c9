"""A running `up` and its first client, for tests that start one."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import grpc
import pytest
from levata.accounts.v1 import accounts_pb2

from chassis.rpc import channel, stub
from tools.data import DataFolder, Endpoints, NotRunning

ACCOUNTS = accounts_pb2.DESCRIPTOR.services_by_name["Accounts"]
WAIT_SECONDS = 90.0
# The command as it is run here, without the shell script that looks for a Python.
LEVATA = [sys.executable, "-P", "-c", "from tools.cli import main; main()"]

T = TypeVar("T")


class Up:
    """A running `up` over a data folder."""

    def __init__(self, command: Sequence[str | Path], data: Path, log_path: Path, env: Mapping[str, str]) -> None:
        self.data = DataFolder(data)
        self.log_path = log_path
        with self.log_path.open("wb") as log:
            # As a new user would: from some other folder.
            self.process = subprocess.Popen(
                command, cwd=log_path.parent, stdout=log, stderr=log, env={**os.environ, **env}
            )

    @property
    def output(self) -> str:
        """All that it has printed so far."""
        return self.log_path.read_text()

    def endpoints(self, wait_seconds: float = WAIT_SECONDS) -> Endpoints:
        """Wait until it is up; where to call."""
        return wait_for(self._endpoints_if_up, lambda: self.output, wait_seconds)

    def _endpoints_if_up(self) -> Endpoints | None:
        assert self.process.poll() is None, self.output
        with contextlib.suppress(NotRunning):
            return self.data.endpoints()
        return None

    def children(self) -> dict[str, int]:
        """Process ids of its children, by their command line."""
        found = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(stat.read_text().rpartition(")")[2].split()[1]) == self.process.pid:
                    command = stat.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[command] = int(stat.parent.name)
        return found

    def child(self, words: str) -> int:
        """The process id of the child whose command line has these words."""
        [pid] = [pid for command, pid in self.children().items() if words in command]
        return pid

    def stop(self, number: signal.Signals) -> int:
        """Send the signal, wait for the end, and see that nothing is left."""
        children = set(self.children().values())
        self.process.send_signal(number)
        code = self.process.wait(WAIT_SECONDS)
        wait_for(lambda: not children & set(alive()) and not users_of(self.data.path), lambda: str(children))
        return code


def wait_for(condition: Callable[[], T | None], story: Callable[[], str], wait_seconds: float = WAIT_SECONDS) -> T:
    """The condition's first true answer; fails with the story when none comes."""
    deadline = time.monotonic() + wait_seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, story()
        time.sleep(0.05)
    return answer


def alive() -> Iterator[int]:
    """All processes, but for those that only wait to be buried."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[0] not in "ZX":
                yield int(stat.parent.name)


def users_of(folder: Path) -> list[int]:
    """Processes that work in the folder or name it in their command line."""
    found = []
    for pid in alive():
        process = Path(f"/proc/{pid}")
        with contextlib.suppress(OSError):
            cwd = (process / "cwd").readlink()
            if folder in (cwd, *cwd.parents) or os.fsencode(folder) in (process / "cmdline").read_bytes():
                found.append(pid)
    return found


async def new_guest(endpoints: Endpoints) -> tuple[str, str]:
    """A guest's account id and token, got through the public port; repeats as a client does while a part is away."""
    request = accounts_pb2.CreateGuestRequest(request_id=str(uuid.uuid4()))
    async with channel(endpoints.public, trusted=endpoints.trusted()) as public:
        for _ in range(int(WAIT_SECONDS)):
            try:
                answer = await stub(public, ACCOUNTS).CreateGuest(request, timeout=5)
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.5)
            else:
                return answer.account.account_id, answer.access_token
    pytest.fail("no guest could be made")


async def account_of(endpoints: Endpoints, token: str) -> str:
    """The account id that the service knows the token's bearer by."""
    async with channel(endpoints.public, token, trusted=endpoints.trusted()) as public:
        answer = await stub(public, ACCOUNTS).GetSelf(accounts_pb2.GetSelfRequest(), timeout=10)
        return str(answer.account.account_id)
