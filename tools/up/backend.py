"""The backend on this machine: starts every part in order, keeps it running, and stops it in order.

A part that dies is started again after a pause that grows with every death in a row; the services hold out meanwhile
(that is their promise), so one of them or a server that is gone for a second costs nobody a game.
"""

import asyncio
import signal
import time
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
from psycopg import sql

from chassis.auth import key_files, make_keys
from chassis.files import LOOK_SECONDS
from chassis.schema import MigrationRefused
from chassis.settings import Address
from tools.data import DataFolder, Endpoints
from tools.edge.certificate import self_made
from tools.edge.configuration import Edge
from tools.embedded.envoy import EmbeddedEnvoy
from tools.embedded.nats import EmbeddedNats
from tools.embedded.part import POLL_SECONDS, Part, PartFailed
from tools.embedded.postgres import EmbeddedPostgres
from tools.embedded.process import Child, free_port
from tools.migrate import SCHEMAS, migrate_all
from tools.tokens import NOT_AHEAD
from tools.up.screen import Screen
from tools.up.servers import POSTGRES_VARIABLE, OwnNats, OwnPostgres, nats_for, postgres_for, told_besides
from tools.up.service import KINDS, ServiceProcess, Surroundings

RESTART_SECONDS_MIN = 0.2
RESTART_SECONDS_MAX = 10.0
# A part that ran this long has recovered; its next death is its first.
STEADY_SECONDS = 60.0
# Longer lines of a service's output are shown in pieces.
LINE_BYTES_MAX = 256 * 1024


@dataclass(frozen=True)
class Options:
    """What the operator asked for."""

    public: Address
    tls: bool
    replicas: dict[str, int]
    log_format: str
    log_level: str
    # By how much the services' clocks run ahead: for demonstrations.
    ahead: timedelta = NOT_AHEAD


class Backend:
    """All parts over one data folder, which the caller holds."""

    def __init__(self, folder: DataFolder, options: Options, screen: Screen) -> None:
        self._folder = folder
        self._options = options
        self._screen = screen
        # In the order of their start.
        self._parts: list[Part] = []
        self._watches: set[asyncio.Task[None]] = set()
        self._outputs: set[asyncio.Task[None]] = set()

    async def run(self, told_to_stop: asyncio.Event) -> None:
        """Start, run until told to stop, and stop. PartFailed, after stopping, if it does not come up."""
        starting = asyncio.create_task(self._start())
        stopping = asyncio.create_task(told_to_stop.wait())
        try:
            await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                # What went wrong, if anything did.
                starting.result()
                await stopping
        finally:
            starting.cancel()
            stopping.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await starting
            await self._stop()

    async def _start(self) -> None:
        postgres, nats = postgres_for(self._folder), nats_for(self._folder)
        await self._bring_up(server for server in (postgres, nats) if isinstance(server, Part))
        for server in (postgres, nats):
            if not isinstance(server, Part):
                self._screen.ready(server.name, server.where, 0)
        if isinstance(postgres, EmbeddedPostgres) and postgres.remark:
            self._screen.note(postgres.remark)
        await self._migrate(postgres)
        if self._options.ahead:
            await asyncio.to_thread(_set_clocks_ahead, postgres.admin_dsn, self._options.ahead)
        services = self._services(postgres, nats)
        await self._bring_up(services)
        replicas = {name: [part.address for part in services if part.service == name] for name in KINDS}
        certificate = self_made(self._folder.tls) if self._options.tls else None
        key_set = key_files(self._folder.keys).jwks
        edge = Edge(self._options.public, replicas, certificate=certificate, key_set=key_set)
        await self._bring_up([EmbeddedEnvoy(self._folder.envoy, edge)])
        addresses = {name: [str(address) for address in of_service] for name, of_service in replicas.items()}
        trusted = "" if certificate is None else str(certificate.chain)
        self._folder.write_endpoints(Endpoints(str(self._options.public), addresses, trusted))
        self._screen.up(str(self._options.public), trusted, str(self._folder.path))

    async def _bring_up(self, parts: Iterable[Part]) -> None:
        """Start parts that do not need each other, and look after them from then on."""
        parts = list(parts)
        with self._screen.starting(" and ".join(part.name for part in parts)):
            began = {}
            for part in parts:
                began[part] = time.monotonic()
                self._parts.append(part)
                self._launch(part)
            await asyncio.gather(*(self._announce(part, began[part]) for part in parts))

    async def _announce(self, part: Part, began: float) -> None:
        await self._until_ready(part)
        self._screen.ready(part.name, part.where, time.monotonic() - began)
        self._in_background(self._watches, self._look_after(part))

    async def _migrate(self, postgres: EmbeddedPostgres | OwnPostgres) -> None:
        began = time.monotonic()
        try:
            applied = await asyncio.to_thread(migrate_all, postgres.admin_dsn, postgres.passwords.of)
        except MigrationRefused as error:
            raise PartFailed(f"The database cannot be used: {error}.") from None
        except psycopg.errors.InsufficientPrivilege as error:
            raise PartFailed(f"The role of {POSTGRES_VARIABLE} may not do what is needed: {error}.") from None
        news = f"{len(applied)} migrations applied" if applied else "up to date"
        self._screen.ready("schemas", news, time.monotonic() - began)

    def _services(
        self, postgres: EmbeddedPostgres | OwnPostgres, nats: EmbeddedNats | OwnNats
    ) -> Sequence[ServiceProcess]:
        self._folder.keys.mkdir(exist_ok=True, mode=0o700)
        keys = make_keys(self._folder.keys)
        self._folder.tokens.issue(keys.signing_key, KINDS, self._options.ahead)
        self._in_background(self._watches, self._renew_tokens(keys.signing_key))
        # Chosen before any service starts, because each is told where the others are.
        peers = {
            name: [Address("127.0.0.1", free_port()) for _ in range(self._options.replicas.get(name, 1))]
            for name in KINDS
        }
        services = []
        for kind in KINDS.values():
            surroundings = Surroundings(
                postgres_dsn=postgres.dsn(SCHEMAS[kind.name].role),
                nats_url=nats.url(kind.name),
                jwks_file=keys.jwks,
                service_token_file=self._folder.tokens.file(kind.name),
                peers=peers,
                signing_key_file=keys.signing_key if kind.signs_in else None,
                own=told_besides(kind, self._folder),
                log_format=self._options.log_format,
                log_level=self._options.log_level,
            )
            for number, address in enumerate(peers[kind.name], start=1):
                name = kind.name if len(peers[kind.name]) == 1 else f"{kind.name}-{number}"
                services.append(ServiceProcess(kind.name, address, surroundings, name=name))
        return services

    async def _renew_tokens(self, signing_key: Path) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if self._folder.tokens.are_due(signing_key):
                    self._folder.tokens.issue(signing_key, KINDS, self._options.ahead)
            except (OSError, ValueError) as error:
                self._screen.problem(f"The services' tokens cannot be renewed: {error}")

    def _launch(self, part: Part) -> None:
        part.launch()
        if isinstance(part, ServiceProcess):
            self._in_background(self._outputs, self._show_output(part.name, part.child))

    async def _until_ready(self, part: Part) -> None:
        while not part.is_ready():
            await asyncio.sleep(POLL_SECONDS)

    async def _look_after(self, part: Part) -> None:
        """Start the part again whenever it dies."""
        pause = RESTART_SECONDS_MIN
        while True:
            began = time.monotonic()
            code = await part.child.exited()
            if time.monotonic() - began > STEADY_SECONDS:
                pause = RESTART_SECONDS_MIN
            self._screen.problem(f"{part.name} ended ({_ending(code)}); it starts again in {pause:g} seconds.")
            pause = await self._restart(part, pause)

    async def _restart(self, part: Part, pause: float) -> float:
        """Try until the part is up again; answers the pause before the next try, should it die at once."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(pause)
            pause = min(2 * pause, RESTART_SECONDS_MAX)
            try:
                self._launch(part)
                await self._until_ready(part)
            except (PartFailed, OSError) as error:
                self._screen.problem(f"{error} The next try is in {pause:g} seconds.")
            else:
                self._screen.ready(part.name, part.where, time.monotonic() - began)
                return pause

    async def _show_output(self, source: str, child: Child) -> None:
        """Show what a service prints until it ends."""
        reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), child.output
        )
        try:
            while line := await _next_line(reader):
                self._screen.log(source, line.decode(errors="replace").rstrip())
        finally:
            transport.close()

    def _in_background(self, group: set[asyncio.Task[None]], work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        group.add(task)

        def ended(_: asyncio.Task[None]) -> None:
            group.discard(task)
            if not task.cancelled() and task.exception() is not None:
                self._screen.problem(f"up itself failed: {task.exception()!r}")

        task.add_done_callback(ended)

    async def _stop(self) -> None:
        """Services first, so that their streams end with a word and through an edge that still stands."""
        self._folder.clear_endpoints()
        # Nothing is started again from here on; what the services say to the end is still shown.
        for watch in self._watches:
            watch.cancel()
        services = [part for part in self._parts if isinstance(part, ServiceProcess)]
        await asyncio.gather(*(asyncio.to_thread(service.stop) for service in services))
        await asyncio.gather(*self._outputs)
        for part in reversed(self._parts):
            if part not in services:
                await asyncio.to_thread(part.stop)


def _set_clocks_ahead(dsn: str, ahead: timedelta) -> None:
    with psycopg.connect(dsn, autocommit=True) as admin:
        for schema in SCHEMAS.values():
            admin.execute(
                sql.SQL("update {}.clock_offset set amount = %s").format(sql.Identifier(schema.name)), [ahead]
            )


async def _next_line(reader: asyncio.StreamReader) -> bytes:
    """The next line or a piece of one that is too long; empty at the end."""
    try:
        return await reader.readuntil()
    except asyncio.IncompleteReadError as end:
        return end.partial
    except asyncio.LimitOverrunError as piece:
        return await reader.readexactly(piece.consumed)


def _ending(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
