"""Servers for benches: an embedded Postgres, our services and the floors, each a process of its own on a free port."""

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from chassis.auth import KeyFiles, Signer, make_keys
from chassis.settings import Address
from services.accounts.mail import maildir
from tools.edge.configuration import Edge, Limits
from tools.embedded.envoy import EmbeddedEnvoy
from tools.embedded.nats import EmbeddedNats
from tools.embedded.postgres import ADMIN, EmbeddedPostgres
from tools.embedded.process import free_port, launched
from tools.migrate import SCHEMAS, migrate_all
from tools.up.servers import CATALOGUE
from tools.up.service import KINDS

DATABASE = "levata_bench"
LOOK_SECONDS = 0.05
# A bench plays all its games as one account in each seat.
ROOMY_LIMITS = json.dumps({"caller_burst": 1_000_000, "caller_calls_per_second": 1_000_000, "caller_streams": 20_000})
ROOMY_EDGE = Limits(
    calls_per_second=1_000_000,
    calls_burst=1_000_000,
    address_calls_per_second=1_000_000,
    address_calls_burst=1_000_000,
)


class Service(NamedTuple):
    """A service that listens."""

    address: str
    process: subprocess.Popen[str]


@dataclass(frozen=True)
class Backend:
    """A migrated database, NATS, and keys to sign tokens with."""

    postgres: EmbeddedPostgres
    nats: EmbeddedNats
    signer: Signer
    keys: KeyFiles

    def dsn(self, service: str) -> str:
        """The DSN of a service's own role."""
        return self.postgres.dsn(SCHEMAS[service].role, DATABASE)

    @contextlib.contextmanager
    def table_service(self, metrics: Address | None = None) -> Iterator[Service]:
        """A replica of the table service; two at once share the games."""
        own = {} if metrics is None else {"LEVATA_METRICS_LISTEN": str(metrics)}
        with self._service("table", own) as table:
            yield table

    @contextlib.contextmanager
    def accounts_service(self, mails: Path) -> Iterator[Service]:
        """An accounts service without limits, which writes its mails into the Maildir `mails`."""
        with self._service("accounts", self._signing_in(mails)) as accounts:
            yield accounts

    @contextlib.contextmanager
    def ledger_service(self) -> Iterator[Service]:
        """A ledger by the repository's catalogue; the services that it hears are not there."""
        with self._service("ledger", self._alone("ledger", "table", "accounts", "league")) as ledger:
            yield ledger

    @contextlib.contextmanager
    def league_service(self) -> Iterator[Service]:
        """A league by the repository's catalogue; the services that it hears are not there."""
        with self._service("league", self._alone("league", "table", "accounts", "ledger")) as league:
            yield league

    @contextlib.contextmanager
    def league_that_hears(self) -> Iterator[Service]:
        """A league that hears a table service's and a ledger's log; those hear nobody."""
        with self.table_service() as table, self.ledger_service() as ledger:
            own = self._alone("league", "accounts", table=table.address, ledger=ledger.address)
            with self._service("league", own) as league:
                yield league

    @contextlib.contextmanager
    def all_services(self) -> Iterator[Mapping[str, Service]]:
        """A replica of each service, by name; they know each other."""
        addresses = {name: f"127.0.0.1:{free_port()}" for name in KINDS}
        together = {"LEVATA_PEERS": json.dumps({name: [address] for name, address in addresses.items()})}
        with contextlib.ExitStack() as stack:
            services = {}
            for kind in KINDS.values():
                own = together | self._service_token(kind.name) | {"LEVATA_LISTEN": addresses[kind.name]}
                if kind.has_catalogue:
                    own["LEVATA_CATALOGUE_FILE"] = str(CATALOGUE)
                if kind.signs_in:
                    own |= self._signing_in(self.keys.jwks.with_name("mails"))
                services[kind.name] = stack.enter_context(self._service(kind.name, own))
            yield services

    def _signing_in(self, mails: Path) -> dict[str, str]:
        secret = self.keys.jwks.with_name("accounts-secret")
        secret.write_text(secrets.token_hex(32))
        return {
            "LEVATA_SIGNING_KEY_FILE": str(self.keys.signing_key),
            "LEVATA_SECRET_FILE": str(secret),
            "LEVATA_MAIL_URL": maildir.url_of(mails),
            "LEVATA_CODES_PER_ADDRESS": "1000000",
            "LEVATA_CODES_PER_PEER": "1000000",
        }

    def _alone(self, name: str, *away: str, **there: str) -> dict[str, str]:
        addresses = {peer: [f"127.0.0.1:{free_port()}"] for peer in away}
        addresses |= {peer: [address] for peer, address in there.items()}
        own = {"LEVATA_CATALOGUE_FILE": str(CATALOGUE), "LEVATA_PEERS": json.dumps(addresses)}
        return own | self._service_token(name)

    def _service_token(self, name: str) -> dict[str, str]:
        token = self.keys.jwks.with_name(f"{name}.token")
        token.write_text(self.signer.service_token(name, 36_000))
        return {"LEVATA_SERVICE_TOKEN_FILE": str(token)}

    @contextlib.contextmanager
    def _service(self, name: str, own: Mapping[str, str]) -> Iterator[Service]:
        environment = {
            **os.environ,
            "LEVATA_POSTGRES_DSN": self.dsn(name),
            "LEVATA_NATS_URL": self.nats.url(name),
            "LEVATA_JWKS_FILE": str(self.keys.jwks),
            "LEVATA_LISTEN": "127.0.0.1:0",
            "LEVATA_LIMITS": ROOMY_LIMITS,
            **own,
        }
        says = r"address=(\S+)|\"address\": \"([^\"]+)\""
        with _process([sys.executable, "-m", f"services.{name}"], environment, says) as (process, address):
            yield Service(address, process)


@contextlib.contextmanager
def backend() -> Iterator[Backend]:
    """Start Postgres and NATS on fresh data; everything is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="levata-bench-") as folder:
        postgres = EmbeddedPostgres(Path(folder) / "postgres")
        nats = EmbeddedNats(Path(folder) / "nats")
        postgres.start()
        try:
            nats.start()
            _create_database(postgres)
            keys = make_keys(Path(folder))
            yield Backend(postgres, nats, Signer.from_file(keys.signing_key), keys)
        finally:
            nats.stop()
            postgres.stop()


@contextlib.contextmanager
def bare_server(module: str = "bench.bare_server") -> Iterator[Service]:
    """The floor of the table service, or another one."""
    with _process([sys.executable, "-m", module], dict(os.environ), r"^(\d+)$") as (process, port):
        yield Service(f"127.0.0.1:{port}", process)


@contextlib.contextmanager
def edge(service: str, replica: str) -> Iterator[str]:
    """The edge in front of a service's replica; yields its address."""
    address = Address("127.0.0.1", free_port())
    host, _, port = replica.rpartition(":")
    with tempfile.TemporaryDirectory(prefix="levata-bench-edge-") as folder:
        configuration = Edge(address, {service: [Address(host, int(port))]}, limits=ROOMY_EDGE)
        envoy = EmbeddedEnvoy(Path(folder), configuration)
        envoy.start()
        try:
            yield str(address)
        finally:
            envoy.stop()


def _create_database(postgres: EmbeddedPostgres) -> None:
    import psycopg

    with psycopg.connect(postgres.dsn(ADMIN, "postgres"), autocommit=True) as connection:
        connection.execute(f"create database {DATABASE}")
    migrate_all(postgres.dsn(ADMIN, DATABASE), postgres.passwords.of)


@contextlib.contextmanager
def _process(command: list[str], environment: dict[str, str], says: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process, and what it `says` (a pattern's one group that is there) when it listens."""
    # Into a file: nobody reads on, and a full pipe would stop the process.
    with tempfile.NamedTemporaryFile(prefix="levata-bench-", suffix=".log") as output:
        # A bench that is killed takes it along.
        command = launched(command, signal.SIGKILL)
        process = subprocess.Popen(command, env=environment, stdout=output, text=True)
        try:
            yield process, _wait_for(process, Path(output.name), says)
        finally:
            process.terminate()
            process.wait(10)


def _wait_for(process: subprocess.Popen[str], output: Path, pattern: str) -> str:
    while (match := re.search(pattern, output.read_text(), re.MULTILINE)) is None:
        if process.poll() is not None:
            raise RuntimeError(f"the process ended before it listened: {process.args!r}")
        time.sleep(LOOK_SECONDS)
    return next(group for group in match.groups() if group)
