"""Child processes that die with their parent, however it dies, and that a Ctrl-C in the terminal does not reach."""

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

LAUNCHER = Path(__file__).with_name("launch.py")
KILL_WAIT_SECONDS = 10.0
# Below the range that systems give to outgoing connections, so that a server's port is still free when it restarts.
PORTS = range(10_000, 32_768)
PORT_PROBES = 200
# Given to somebody in this process who may not have bound it yet.
_ports_given: set[int] = set()
# The names that keep ports from other processes, the oldest first.
_reservations: deque[socket.socket] = deque()
RESERVATIONS_MAX = 200


def free_port() -> int:
    """A port of 127.0.0.1 that is free now, and that nobody else is given here before it is bound.

    A program that does not ask here may still be faster, so who finds it taken asks again.
    """
    for _ in range(PORT_PROBES):
        port = secrets.choice(PORTS)
        if port in _ports_given or not _reserve(port):
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _ports_given.add(port)
        return port
    raise OSError("no free port found")


def _reserve(port: int) -> bool:
    """Keep a port from other processes: whoever is given it may bind it seconds later. False: another has it.

    Linux's names of sockets without a file leave nothing behind, and are free again when their process ends, however it
    does. Elsewhere nothing is kept.
    """
    if sys.platform != "linux":
        return True
    reservation = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        reservation.bind(f"\0levata-port-{port}")
    except OSError:
        reservation.close()
        return False
    _reservations.append(reservation)
    if len(_reservations) > RESERVATIONS_MAX:
        # Bound by now, or never.
        _reservations.popleft().close()
    return True


def fresh_log(path: Path) -> IO[bytes]:
    """Open an empty log file; the one of the run before stays beside it as `.1`."""
    if path.exists():
        path.replace(path.with_name(path.name + ".1"))
    return path.open("wb")


def launched(command: Sequence[str], death_signal: signal.Signals, identity: str = "self") -> list[str]:
    """The command line that runs `command` bound to the life of this process (see launch.py for `identity`)."""
    launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), str(int(death_signal)), identity]
    return [*launcher, *command]


class Child:
    """A running child process in a session of its own.

    Start it from a thread that lives as long as the children should (the main one): the kernel sends the death signal
    when the thread that forked is gone, not the process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        death_signal: signal.Signals,
        identity: str = "self",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        output: IO[bytes] | int = subprocess.PIPE,
    ) -> None:
        self._process = subprocess.Popen(
            launched(command, death_signal, identity),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        self.pid = self._process.pid

    @property
    def output(self) -> IO[bytes]:
        """What the child prints, when no `output` was given."""
        assert self._process.stdout is not None
        return self._process.stdout

    def exit_code(self) -> int | None:
        """The exit code (negative: the signal it died of), or None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the child alone; nothing happens if it is gone."""
        self._process.send_signal(number)

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Block until the child is gone; None when the time is over before."""
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return None

    async def exited(self) -> int:
        """Wait for the end of the child without blocking the loop."""
        # A thread of its own, because a wait for ever would use up the loop's small pool of threads.
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()

        def settle(code: int) -> None:
            if not ended.done():
                ended.set_result(code)

        def watch() -> None:
            code = self._process.wait()
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, code)

        threading.Thread(target=watch, name=f"wait for {self.pid}", daemon=True).start()
        return await ended

    def stop(self, *steps: tuple[signal.Signals, float]) -> int:
        """Send each signal in turn and give the child its seconds to end; what is left is killed."""
        for number, seconds in steps:
            self.send(number)
            code = self.wait(seconds)
            if code is not None:
                return code
        self.send(signal.SIGKILL)
        return self._process.wait(KILL_WAIT_SECONDS)
