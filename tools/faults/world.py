"""The whole backend as real processes, with a link before each of them: what a schedule of faults is carried out on.

Processes are `postgres`, `nats` and each replica, such as `table-2`. A link is named after who is reached over it, by
all who call it (`>table-2`), or after both its ends (`table-2>postgres`).
"""

import asyncio
import os
import shutil
import signal
import time
from contextlib import suppress
from datetime import UTC, timedelta
from pathlib import Path
from typing import Final, Self

import psycopg
from nats.js.errors import Error as JetStreamError
from psycopg import sql

from chassis import bus
from chassis.auth import Signer, make_keys
from chassis.facts import GAMES
from chassis.settings import Address
from rules.calendar import day_begins_us, day_of, week_of
from tools.data import DataFolder
from tools.embedded.nats import EmbeddedNats
from tools.embedded.part import POLL_SECONDS, Part, PartFailed
from tools.embedded.postgres import EmbeddedPostgres
from tools.embedded.process import free_port
from tools.faults.link import Link
from tools.migrate import SCHEMAS, migrate_all
from tools.tokens import ClockAhead, Tokens
from tools.up.servers import told_besides
from tools.up.service import KINDS, ServiceProcess, Surroundings

TOKEN_SECONDS: Final = 24 * 3600
# `up` starts what died again after as long a pause, when it is for the first time.
RESTART_PAUSE_SECONDS: Final = 0.2
OPERATOR_SECONDS: Final = 2
# Services may take longer to start than they did before.
START_SLACK: Final = 1.2


# What takes part: one more, and the same seed is another round.
SERVICES: Final = ("accounts", "table", "ledger", "league", "matchmaker")
# One forms a game's tables, the other one takes over.
MATCHMAKERS: Final = 2
# Whichever comes first closes a week.
LEAGUES: Final = 2
# Rounds are short: who held entries and died is not waited for much longer.
OLD_HOLD_SECONDS: Final = 3.0


class World:
    """A context: everything runs inside, and nothing is left afterwards."""

    def __init__(self, folder: Path, tables: int) -> None:
        self._folder = folder
        self._counts = {"table": tables, "matchmaker": MATCHMAKERS, "league": LEAGUES}
        # Only processes are killed, never the machine: what is committed needs no disk that others keep busy.
        self.postgres = EmbeddedPostgres(folder / "postgres", synced=False)
        self.nats = EmbeddedNats(folder / "nats")
        self.services: dict[str, ServiceProcess] = {}
        self.links: dict[str, Link] = {}
        keys = make_keys(folder)
        self._jwks_file, self._signing_key_file = keys.jwks, keys.signing_key
        self._tokens = Tokens(folder / "tokens")
        self._issue_tokens()
        # How long the services took to start.
        self._start_seconds = 0.0
        # By process: those that are not meant to run now, or not expected to work.
        self._down: set[str] = set()
        self._stalled: set[str] = set()

    @property
    def processes(self) -> dict[str, Part]:
        """All processes by name."""
        return {"postgres": self.postgres, "nats": self.nats, **self.services}

    def replicas(self, service: str) -> list[Address]:
        """Where clients reach the replicas of a service."""
        return [self.links[f">{name}"].address for name, process in self.services.items() if process.service == service]

    def listener(self, address: str) -> str | None:
        """The name of the process that itself listens at an address."""
        return next((name for name, process in self.services.items() if str(process.address) == address), None)

    async def __aenter__(self) -> Self:
        try:
            self.postgres.start()
            self.nats.start()
            await asyncio.to_thread(migrate_all, self.postgres.admin_dsn, self.postgres.passwords.of)
            await self._place_services()
            await self._start_services()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def _stop(self) -> None:
        for name in list(self._stalled):
            self.wake(name)
        for link in self.links.values():
            await link.stop()
        await asyncio.gather(*(asyncio.to_thread(process.stop) for process in self.services.values()))
        self.nats.stop()
        self.postgres.stop()

    async def _place_services(self) -> None:
        """Give every replica its address and its links, before any of them starts."""
        places = {
            name: Address("127.0.0.1", free_port())
            for kind in SERVICES
            for name in _names(kind, self._counts.get(kind, 1))
        }
        peers: dict[str, list[Address]] = {kind: [] for kind in SERVICES}
        for name, address in places.items():
            peers[_kind_of(name)].append((await self._link(f">{name}", address)).address)
        for name, address in places.items():
            kind = KINDS[_kind_of(name)]
            to_postgres = await self._link(f"{name}>postgres", Address("127.0.0.1", self.postgres.port))
            to_nats = await self._link(f"{name}>nats", Address("127.0.0.1", self.nats.port))
            surroundings = Surroundings(
                postgres_dsn=to_postgres.url(self.postgres.dsn(SCHEMAS[kind.name].role)),
                nats_url=to_nats.url(self.nats.url(kind.name)),
                jwks_file=self._jwks_file,
                service_token_file=self._tokens.file(kind.name),
                peers=peers,
                signing_key_file=self._signing_key_file if kind.signs_in else None,
                own={
                    **told_besides(kind, DataFolder(self._folder)),
                    **({"LEVATA_OLD_HOLD_SECONDS": str(OLD_HOLD_SECONDS)} if kind.name == "ledger" else {}),
                },
            )
            log_path = self._folder / f"{name}.log"
            self.services[name] = ServiceProcess(kind.name, address, surroundings, name=name, log_path=log_path)

    async def _start_services(self) -> None:
        began = time.monotonic()
        for process in self.services.values():
            process.launch()
        for name in self.services:
            await self._until_ready(name)
        self._start_seconds = time.monotonic() - began

    def _issue_tokens(self) -> None:
        """For the services, and for those who call them: by their clocks."""
        ahead = timedelta(microseconds=_ahead_us)
        self.signer = Signer.from_file(self._signing_key_file, ClockAhead(ahead))
        self._tokens.issue(self._signing_key_file, SERVICES, ahead)

    # Time

    async def come_to_end_of_week(self, seconds: float) -> int:
        """Move all clocks ahead so that in some seconds, once all services are back, the week ends; says when.

        Services look at the database's time when they start and seldom afterwards: so they are started anew.
        """
        self._down |= self.services.keys()
        await asyncio.gather(*(asyncio.to_thread(process.stop) for process in self.services.values()))
        begins_us = day_begins_us(week_of(day_of(now_us(), UTC)), UTC)
        ends_us = begins_us + 7 * 86_400_000_000
        _move_clock(ends_us - int((seconds + self._start_seconds * START_SLACK) * 1_000_000))
        await asyncio.to_thread(self._move_databases_clock)
        self._issue_tokens()
        await self._start_services()
        self._down.clear()
        return ends_us

    def _move_databases_clock(self) -> None:
        with psycopg.connect(self.postgres.admin_dsn, autocommit=True) as admin:
            for schema in SCHEMAS.values():
                table = sql.Identifier(schema.name, "clock_offset")
                amount = timedelta(microseconds=_ahead_us)
                admin.execute(sql.SQL("update {} set amount = %s").format(table), [amount])

    async def _link(self, name: str, target: Address) -> Link:
        link = self.links[name] = Link(name, target)
        await link.start()
        return link

    # What can be done to processes

    def kill(self, name: str) -> None:
        """End a process and all that it started, at once and without a word."""
        self._down.add(name)
        self._stalled.discard(name)
        self._signal(name, signal.SIGKILL)
        self.processes[name].kill()

    def stall(self, name: str) -> None:
        """Stop a process and all that it started where they are."""
        self._stalled.add(name)
        self._signal(name, signal.SIGSTOP)

    def wake(self, name: str) -> None:
        """Let it go on."""
        self._stalled.discard(name)
        self._signal(name, signal.SIGCONT)

    def _signal(self, name: str, number: signal.Signals) -> None:
        # The parent first: it starts no more children then.
        for pid in _family(self.processes[name].child.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    async def restart(self, name: str) -> None:
        """Start a process that was killed; as often as it takes, because what it needs may be away."""
        while True:
            try:
                self.processes[name].launch()
                await self._until_ready(name)
            except PartFailed:
                await asyncio.sleep(RESTART_PAUSE_SECONDS)
            else:
                self._down.discard(name)
                return

    async def _until_ready(self, name: str) -> None:
        # Asking blocks for as long as a process that does not answer is waited for.
        while not await asyncio.to_thread(self.processes[name].is_ready):
            await asyncio.sleep(POLL_SECONDS)

    def died(self) -> dict[str, int]:
        """Processes that ended though nobody killed them, and their exit codes."""
        ended = {}
        for name, process in self.processes.items():
            if name not in self._down:
                code = process.child.exit_code()
                if code is not None:
                    ended[name] = code
        return ended

    async def bring_back(self, name: str) -> None:
        """Start a process again that ended by itself."""
        self._down.add(name)
        await self.restart(name)

    # What can be done to JetStream

    async def delete_stream(self) -> None:
        """Delete the stream of games as an operator may; nothing happens while NATS is away."""
        with suppress(TimeoutError, OSError, JetStreamError):
            async with asyncio.timeout(OPERATOR_SECONDS):
                client = await bus.connect(self.nats.admin_url, "operator")
                try:
                    await client.jetstream().delete_stream(GAMES.name)
                finally:
                    await client.close()

    def delete_store(self) -> None:
        """Delete all that JetStream has; NATS must be down."""
        shutil.rmtree(self.nats.data_dir / "jetstream", ignore_errors=True)

    async def mend(self) -> None:
        """Everything runs and reaches everything."""
        for link in self.links.values():
            link.mend()
        for name in list(self._stalled):
            self.wake(name)
        ended = self._down | self.died().keys()
        # Services do not start without the servers.
        for name in ("postgres", "nats"):
            if name in ended:
                await self.bring_back(name)
        await asyncio.gather(*(self.bring_back(name) for name in self.services if name in ended))

    def copy_logs(self, folder: Path) -> None:
        """What every process has said since it was started last, and in the run before."""
        for process in self.processes.values():
            for log in (process.log_path, process.log_path.with_name(process.log_path.name + ".1")):
                if log.exists():
                    shutil.copy(log, folder)


def _names(kind: str, count: int) -> list[str]:
    return [kind] if count == 1 else [f"{kind}-{number}" for number in range(1, count + 1)]


def _kind_of(name: str) -> str:
    return name.partition("-")[0]


def _family(pid: int) -> list[int]:
    """A process and all its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name in the second field may have blanks in it.
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    family = [pid]
    for member in family:
        family += children.get(member, [])
    return family


# By how much all clocks of this world are ahead of the machine's.
_ahead_us = 0


def _move_clock(to_us: int) -> None:
    global _ahead_us  # noqa: PLW0603 - there is one time in a process, as there is one world
    _ahead_us = to_us - time.time_ns() // 1000


def now_us() -> int:
    """The time as the database of the world has it: microseconds since 1970."""
    return time.time_ns() // 1000 + _ahead_us
