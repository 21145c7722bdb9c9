"""Forward-only migrations of one service's schema in Postgres, from plain SQL files.

Every service has a schema and a login role of its own. All that is in the schema belongs to a role that nobody can log
in as, so that a service can do with its tables only what a migration granted. Knows nothing of any particular service.
Why no library does this: docs/decisions/migrations.md.
"""

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from chassis.database import CONNECT_SECONDS

OWNER_ROLE: Final = "levata_owner"
CHASSIS_MIGRATIONS: Final = tuple(sorted((Path(__file__).parent / "migrations").glob("*.sql")))

# One at a time in a database: roles, and tables that several files touch, are not made twice.
_MIGRATION_LOCK: Final = 0x6C65_7661_7461
# Roles belong to the whole server, where migrations of other databases may run: a race is simply run again.
_ROLE_ATTEMPTS: Final = 10
_ROLE_RACES: Final = (
    psycopg.errors.DuplicateObject,
    psycopg.errors.UniqueViolation,
    # "Tuple concurrently updated".
    psycopg.errors.InternalError_,
)
_SET_PRIVILEGE_SINCE: Final = 160000

Connection = psycopg.Connection[tuple[object, ...]]
# By origin (the chassis or a service): names and checksums of files, in order.
History = Mapping[str, Sequence[tuple[str, str]]]


class MigrationRefused(Exception):
    """The schema and the files do not go together; the message says how."""


@dataclass(frozen=True)
class Migration:
    """One SQL file."""

    name: str
    sql: bytes

    @property
    def checksum(self) -> str:
        """Of the file's text: what has been applied is never edited."""
        return hashlib.sha256(self.sql).hexdigest()


class Incarnation(NamedTuple):
    """An identity of a fact log, and the last number before it began."""

    id: UUID
    began_after: int


def migrate(
    admin_dsn: str,
    service: str,
    schema: str,
    owner_role: str,
    service_role: str,
    migrations: Sequence[Path],
    *,
    password: str | None = None,
) -> list[str]:
    """Bring `schema` up to date, as the owner role; answers the names of the files that were applied now.

    Makes the roles and the schema where they are missing. `admin_dsn` must be allowed to create roles and schemas.
    First the files of the chassis run, then the service's own, each in a transaction of its own and once only. Two
    that run at once are safe. `password`, where given, becomes the service role's.
    """
    files = {"chassis": _read(CHASSIS_MIGRATIONS), service: _read(migrations)}
    # The lock goes with the connection, also when this process is killed.
    with _connect(admin_dsn, f"levata migrate {service}") as connection:
        connection.execute(SQL("select pg_advisory_lock({})").format(_MIGRATION_LOCK))
        _make_roles(connection, owner_role, service_role, schema, password)
        _become_owner(connection, owner_role, schema)
        _make_schema(connection, schema, service_role)
        applied = _applied(connection)
        _check_history(schema, files, applied)
        return _apply_missing(connection, files, applied)


def begin_incarnation(admin_dsn: str, schema: str, owner_role: str = OWNER_ROLE) -> Incarnation:
    """Give the schema's fact log a new identity: the operator's first act after restoring a backup.

    Facts that consumers have heard may be missing from what was restored, and their numbers will be given again.
    Consumers notice by the identity and wait for the operator.
    """
    with _connect(admin_dsn, "levata begin incarnation") as connection:
        _become_owner(connection, owner_role, schema)
        row = connection.execute("select incarnation, began_after from begin_incarnation()").fetchone()
        assert row is not None
        incarnation, began_after = row
        assert isinstance(incarnation, UUID) and isinstance(began_after, int)
        return Incarnation(incarnation, began_after)


def _connect(dsn: str, application_name: str) -> Connection:
    return psycopg.connect(dsn, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name=application_name)


def _make_roles(connection: Connection, owner_role: str, service_role: str, schema: str, password: str | None) -> None:
    for attempt in range(1, _ROLE_ATTEMPTS + 1):
        try:
            _make_role(connection, owner_role, "nologin")
            _make_role(connection, service_role, "login", search_path=schema)
            if not _may_become(connection, owner_role):
                connection.execute(SQL("grant {} to current_user").format(Identifier(owner_role)))
            if password is not None:
                alter = SQL("alter role {} password {}")
                connection.execute(alter.format(Identifier(service_role), Literal(password)))
            return
        except _ROLE_RACES:
            if attempt == _ROLE_ATTEMPTS:
                raise
            time.sleep(0.05 * attempt)


def _make_role(connection: Connection, role: str, login: str, **settings: str) -> None:
    existing = connection.execute("select rolconfig from pg_roles where rolname = %s", (role,)).fetchone()
    if existing is None:
        connection.execute(SQL("create role {} {}").format(Identifier(role), SQL(login)))
    present = (existing and existing[0]) or ()
    assert isinstance(present, list | tuple)
    for name, value in settings.items():
        if f"{name}={value}" not in present:
            alter = SQL("alter role {} set {} = {}")
            connection.execute(alter.format(Identifier(role), Identifier(name), Identifier(value)))


def _may_become(connection: Connection, role: str) -> bool:
    # Since Postgres 16 who created a role is its member, but may not become it without a grant.
    privilege = "SET" if connection.info.server_version >= _SET_PRIVILEGE_SINCE else "MEMBER"
    row = connection.execute("select pg_has_role(current_user, %s, %s)", (role, privilege)).fetchone()
    return row == (True,)


def _become_owner(connection: Connection, owner_role: str, schema: str) -> None:
    create = SQL("create schema if not exists {} authorization {}")
    connection.execute(create.format(Identifier(schema), Identifier(owner_role)))
    connection.execute(SQL("set role {}").format(Identifier(owner_role)))
    # What functions take as their own path; temporary tables come last, so that none can pass for one of ours.
    connection.execute(SQL("set search_path = {}, pg_temp").format(Identifier(schema)))


def _make_schema(connection: Connection, schema: str, service_role: str) -> None:
    connection.execute(SQL("grant usage on schema {} to {}").format(Identifier(schema), Identifier(service_role)))
    connection.execute("""
        create table if not exists migration (
            origin text not null,
            name text not null,
            checksum text not null,
            applied_at timestamptz not null default clock_timestamp(),
            primary key (origin, name)
        )
    """)
    # The files of the chassis are the same for every service; this tells them whom to grant to.
    connection.execute("select set_config('levata.service_role', %s, false)", (service_role,))


def _read(paths: Iterable[Path]) -> list[Migration]:
    return [Migration(path.name, path.read_bytes()) for path in sorted(paths)]


def _applied(connection: Connection) -> dict[str, list[tuple[str, str]]]:
    applied: dict[str, list[tuple[str, str]]] = {}
    for origin, name, checksum in connection.execute(
        "select origin, name, checksum from migration order by origin, name"
    ):
        applied.setdefault(str(origin), []).append((str(name), str(checksum)))
    return applied


def _check_history(schema: str, files: Mapping[str, Sequence[Migration]], applied: History) -> None:
    """What was applied must be the beginning of the files, unchanged."""
    for origin, history in applied.items():
        known = files.get(origin, ())
        for (name, checksum), file in zip(history, known, strict=False):
            if name != file.name:
                raise MigrationRefused(f"schema {schema}: {origin}/{min(name, file.name)} is missing or came too late")
            if checksum != file.checksum:
                raise MigrationRefused(f"schema {schema}: {origin}/{name} was edited after it had been applied")
        if len(history) > len(known):
            raise MigrationRefused(f"schema {schema} is newer than this program: it has {origin}/{history[-1][0]}")


def _apply_missing(connection: Connection, files: Mapping[str, Sequence[Migration]], applied: History) -> list[str]:
    done: list[str] = []
    for origin, known in files.items():
        for file in known[len(applied.get(origin, ())) :]:
            with connection.transaction():
                # The whole file in one go: the server itself takes it apart.
                connection.execute(file.sql)
                connection.execute(
                    "insert into migration (origin, name, checksum) values (%s, %s, %s)",
                    (origin, file.name, file.checksum),
                )
            done.append(f"{origin}/{file.name}")
    return done
