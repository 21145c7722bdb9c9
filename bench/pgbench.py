"""pgbench as a peer: Postgres' own program and its usual load, TPC-B, on the server that ours runs on."""

import re
import subprocess
from typing import Final

import psycopg

from tools.embedded.postgres import ADMIN, EmbeddedPostgres, install_folder

DATABASE: Final = "pgbench"
# 100,000 accounts each.
SCALE: Final = 64
# One for each core of a small machine: its clients are never what is waited for.
THREADS: Final = 2
_TPS: Final = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)


class Pgbench:
    """TPC-B's tables in a database of their own."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._dsn = postgres.dsn(ADMIN, DATABASE)
        self._program = install_folder() / "bin" / "pgbench"
        with psycopg.connect(postgres.dsn(ADMIN, "postgres"), autocommit=True) as connection:
            connection.execute(f"create database {DATABASE}")
        # Rows made by the server itself: the quickest way.
        self._run("--initialize", "--init-steps=dtGvp", f"--scale={SCALE}")

    def transactions_per_second(self, clients: int, seconds: float) -> float:
        """What so many clients reach."""
        printed = self._run(f"--client={clients}", f"--jobs={THREADS}", f"--time={seconds:.0f}")
        tps = _TPS.search(printed)
        assert tps is not None, printed
        return float(tps[1])

    def _run(self, *options: str) -> str:
        command = [str(self._program), *options, self._dsn]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
