"""What tests share: one real Postgres and one real NATS for the whole run, and a database of its own for who asks.

Servers start when the first test wants them, and die with the test process however it ends.
"""

import inspect
import itertools
import json
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from chassis.auth import KeyFiles, make_keys
from chassis.schema import begin_incarnation
from chassis.settings import Address
from tests import time_limit
from tools.data import DataFolder
from tools.embedded.nats import EmbeddedNats
from tools.embedded.part import Part
from tools.embedded.postgres import ADMIN, EmbeddedPostgres
from tools.embedded.process import free_port
from tools.migrate import SCHEMAS, migrate_all
from tools.tokens import Tokens
from tools.up.servers import told_besides
from tools.up.service import KINDS, ServiceProcess, Surroundings

TEMPLATE = "levata_template"

# Where a service is told to be that a test does not start.
NOBODY = Address("127.0.0.1", 9)

# Tests play faster than people, and hundreds of games at once as one account. Those of the limits set their own.
ROOMY_LIMITS = json.dumps({"caller_burst": 100_000, "caller_calls_per_second": 10_000, "caller_streams": 10_000})

# Many tests at once take a machine longer to start something than anybody would wait elsewhere.
Part.start_seconds = 120.0

# Folders whose files take long go first: at the end of a run no process has much left while the others have nothing.
LONGEST_FIRST = ("e2e", "faults", "integration")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Limit asynchronous tests' time, and order all tests for several processes, a file's as they are in it."""
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            time_limit.limit(item)
    ranks = {folder: rank for rank, folder in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path.parent.name, len(ranks)))


@dataclass(frozen=True)
class Database:
    """A migrated database that nobody else uses."""

    server: EmbeddedPostgres
    name: str

    @property
    def admin_dsn(self) -> str:
        """The superuser's DSN."""
        return self.server.dsn(ADMIN, self.name)

    def dsn(self, service: str) -> str:
        """The DSN of a service's own role, as the service itself would be given it."""
        return self.server.dsn(SCHEMAS[service].role, self.name)


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard() -> None:
    """By what tests start, too: a shell that runs a script in the background has it ignored, which is inherited."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    """A folder with a space in its name, because somebody's has one."""
    with tempfile.TemporaryDirectory(prefix="levata tests ") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres(servers_folder: Path) -> Iterator[EmbeddedPostgres]:
    """A running Postgres without any schema of ours."""
    server = EmbeddedPostgres(servers_folder / "postgres", synced=False)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def nats(servers_folder: Path) -> Iterator[EmbeddedNats]:
    """A running NATS with JetStream, shared by the whole run: see `empty_jetstream`."""
    server = EmbeddedNats(servers_folder / "nats")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def template(postgres: EmbeddedPostgres) -> str:
    """The name of a migrated database that others are copied from."""
    _run_as_admin(postgres, sql.SQL("create database {}").format(sql.Identifier(TEMPLATE)))
    migrate_all(postgres.dsn(ADMIN, TEMPLATE), postgres.passwords.of)
    return TEMPLATE


@pytest.fixture(scope="session")
def make_database(postgres: EmbeddedPostgres, template: str) -> Callable[[], Database]:
    """Make a fresh migrated database; each log in it has an incarnation of its own."""
    numbers = itertools.count(1)

    def make() -> Database:
        database = Database(postgres, f"levata_test_{next(numbers)}")
        statement = sql.SQL("create database {} template {}")
        _run_as_admin(postgres, statement.format(sql.Identifier(database.name), sql.Identifier(template)))
        _begin_incarnations(database)
        return database

    return make


@pytest.fixture
def database(make_database: Callable[[], Database]) -> Database:
    """A fresh migrated database for one test."""
    return make_database()


@pytest.fixture(scope="module")
def module_database(make_database: Callable[[], Database]) -> Database:
    """A fresh migrated database for the tests of a module together."""
    return make_database()


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFiles:
    """A signing key and its public key set."""
    return make_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def start_service(
    database: Database, nats: EmbeddedNats, keys: KeyFiles, tmp_path: Path
) -> Iterator[Callable[..., ServiceProcess]]:
    """Start a service as a process of its own, as `up` does, and wait until it serves: `start_service("table")`.

    It logs to `<name>.log` in the test's folder and is stopped at the test's end, if it still runs.
    """
    with _starting_services(database, nats, keys, tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def module_start_service(
    module_database: Database, nats: EmbeddedNats, keys: KeyFiles, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., ServiceProcess]]:
    """The same over the module's database, for services that a module's tests share."""
    with _starting_services(module_database, nats, keys, tmp_path_factory.mktemp("services")) as start:
        yield start


@contextmanager
def _starting_services(
    database: Database, nats: EmbeddedNats, keys: KeyFiles, folder: Path
) -> Iterator[Callable[..., ServiceProcess]]:
    started: list[ServiceProcess] = []
    tokens = Tokens(folder / "tokens")
    tokens.issue(keys.signing_key, KINDS)

    def start(
        service: str,
        *,
        name: str = "",
        peers: Mapping[str, Sequence[Address]] | None = None,
        settings: Mapping[str, str] | None = None,
        address: Address | None = None,
    ) -> ServiceProcess:
        own = dict(told_besides(KINDS[service], DataFolder(folder)))
        surroundings = Surroundings(
            postgres_dsn=database.dsn(service),
            nats_url=nats.url(service),
            jwks_file=keys.jwks,
            service_token_file=tokens.file(service),
            peers=peers or {},
            signing_key_file=keys.signing_key,
            own={"LEVATA_LIMITS": ROOMY_LIMITS} | own | dict(settings or {}),
        )
        name = name or service
        # Chosen beforehand by who tells others where it will be.
        address = address or Address("127.0.0.1", free_port())
        process = ServiceProcess(service, address, surroundings, name=name, log_path=folder / f"{name}.log")
        started.append(process)
        process.start()
        return process

    try:
        yield start
    finally:
        for process in reversed(started):
            process.stop()


def _run_as_admin(server: EmbeddedPostgres, statement: sql.Composed) -> None:
    with psycopg.connect(server.dsn(ADMIN, "postgres"), autocommit=True) as connection:
        connection.execute(statement)


def _begin_incarnations(database: Database) -> None:
    """Tell the copy's logs from the template's: NATS is shared, and would take the second fact 1 for the first."""
    for schema in SCHEMAS.values():
        begin_incarnation(database.admin_dsn, schema.name)
