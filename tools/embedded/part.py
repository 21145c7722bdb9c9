"""What every server that we run as a child has in common: start, readiness, stop, and a sentence when it goes wrong."""

import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar

from tools.embedded.process import Child, fresh_log

POLL_SECONDS = 0.02
PORT_ATTEMPTS = 5


class PartFailed(Exception):
    """A part did not start; the message is a sentence for the person who started it."""


class Part(ABC):
    """A server as a child process.

    `start` and `stop` block. Who must not be blocked calls `launch` and then polls `is_ready`; both belong into the
    main thread (see `Child`). A part that has been ready keeps its port for good, so that clients find it again.
    """

    name: str
    start_seconds: ClassVar[float] = 30.0
    # Signals that end it, each with the time it is given; then it is killed.
    stop_steps: ClassVar[Sequence[tuple[signal.Signals, float]]] = ((signal.SIGTERM, 10.0),)
    # What the log says when the port is taken; empty where the part cannot take another one.
    port_taken_words: ClassVar[bytes] = b""

    def __init__(self, log_path: Path | None, port: int | None) -> None:
        # Without one, what the process prints is left to the reader of `child.output`.
        self._log_path = log_path
        self._port = port
        self._port_is_settled = port is not None
        self._child: Child | None = None
        self._ports_tried = 0
        self._deadline = 0.0

    @property
    def port(self) -> int:
        """The port it listens on, once launched."""
        assert self._port is not None, f"{self.name} was not launched"
        return self._port

    @property
    def where(self) -> str:
        """Its address, for people."""
        return f"127.0.0.1:{self.port}"

    @property
    def log_path(self) -> Path:
        """Where the process logs to."""
        assert self._log_path is not None, f"{self.name} has no log file"
        return self._log_path

    @property
    def child(self) -> Child:
        """The running process."""
        assert self._child is not None, f"{self.name} does not run"
        return self._child

    @abstractmethod
    def launch(self) -> None:
        """Start the process, with no word about whether it will come up."""

    @abstractmethod
    def _is_up(self) -> bool:
        """Whether the living process takes connections; asked again and again, so it must be quick."""

    def is_ready(self) -> bool:
        """Whether it takes connections by now; PartFailed if it never will."""
        if self.child.exit_code() is None:
            if time.monotonic() > self._deadline:
                self.stop()
                raise PartFailed(f"{self.name} was not ready after {self.start_seconds:g} seconds{self._see_log()}.")
            self._port_is_settled |= (is_up := self._is_up())
            return is_up
        if self._may_take_another_port():
            self._port = None
            self.launch()
            return False
        code, self._child = self.child.exit_code(), None
        raise PartFailed(f"{self.name} did not start (exit code {code}): {self._complaint()}{self._see_log()}.")

    def start(self) -> None:
        """Launch it and wait until it takes connections."""
        self.launch()
        while not self.is_ready():
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End it in order; nothing happens if it does not run."""
        if self._child is not None:
            self._child.stop(*self.stop_steps)
            self._child = None

    def kill(self) -> None:
        """End it as a crash would, for tests of faults."""
        self.child.send(signal.SIGKILL)
        self.child.wait()
        self._child = None

    def _spawn(
        self,
        command: Sequence[str],
        *,
        death_signal: signal.Signals,
        identity: str = "self",
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Run `command` with its output in the log; `launch` ends with this."""
        self._ports_tried += 1
        self._deadline = time.monotonic() + self.start_seconds
        with fresh_log(self.log_path) if self._log_path else nullcontext(subprocess.PIPE) as output:
            self._child = Child(command, death_signal=death_signal, identity=identity, env=env, output=output)

    def _may_take_another_port(self) -> bool:
        snatched_away = bool(self.port_taken_words) and self.port_taken_words in self.log_path.read_bytes()
        return snatched_away and not self._port_is_settled and self._ports_tried < PORT_ATTEMPTS

    def _complaint(self) -> str:
        """The line of the log that says what is wrong."""
        if self._log_path is None:
            return "see what it printed"
        lines = self.log_path.read_text(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else "it said nothing"

    def _see_log(self) -> str:
        return f"; its log is {self._log_path}" if self._log_path else ""
