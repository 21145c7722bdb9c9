"""Postgres: connections that cannot hang or hog, and forward-only migrations of one service's schema.

Every service has a schema and a login role of its own. All that is in the schema belongs to a role that nobody can log
in as, so that a service can do with its tables only what a migration granted. Knows nothing of any particular service.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import asyncpg

# Strings, because asyncpg's classes take parameters in its stubs only.
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
# A connection of one's own or one that a pool lends: what SQL is run on.
Session: TypeAlias = "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"

STATEMENT_SECONDS: Final = 10
# A process that is stopped inside a transaction keeps its locks no longer than this.
IDLE_IN_TRANSACTION_SECONDS: Final = 5
CONNECT_SECONDS: Final = 5
POOL_CONNECTIONS_MAX: Final = 10

OWNER_ROLE: Final = "levata_owner"
CHASSIS_MIGRATIONS: Final = tuple(sorted((Path(__file__).parent / "migrations").glob("*.sql")))

# One at a time in a database: roles, and tables that several files touch, are not made twice.
_MIGRATION_LOCK: Final = 0x6C65_7661_7461
# Roles belong to the whole server, where migrations of other databases may run: those races are simply run again.
_ROLE_ATTEMPTS: Final = 10


class MigrationRefused(Exception):
    """The schema and the files do not go together; the message says how."""


def session_settings(application_name: str, statement_seconds: float = STATEMENT_SECONDS) -> dict[str, str]:
    """Settings of every connection of ours."""
    return {
        "application_name": application_name,
        "timezone": "UTC",
        "statement_timeout": f"{statement_seconds:g}s",
        "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS}s",
        # Our statements are short: compiling them costs more than running them.
        "jit": "off",
    }


async def open_pool(
    dsn: str,
    application_name: str,
    *,
    connections_max: int = POOL_CONNECTIONS_MAX,
    statement_seconds: float = STATEMENT_SECONDS,
) -> Pool:
    """A bounded pool; a statement that takes too long fails instead of holding its connection."""
    return await asyncpg.create_pool(
        dsn,
        min_size=1,
        max_size=connections_max,
        timeout=CONNECT_SECONDS,
        # The server's timeout comes first; this one is for a server that does not answer at all.
        command_timeout=statement_seconds + CONNECT_SECONDS,
        server_settings=session_settings(application_name, statement_seconds),
    )


@dataclass(frozen=True)
class Migration:
    """One SQL file."""

    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """Of the file's text: what has been applied is never edited."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


async def migrate(
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
    connection = await asyncpg.connect(
        admin_dsn, timeout=CONNECT_SECONDS, server_settings={"application_name": f"levata migrate {service}"}
    )
    try:
        await connection.execute(f"select pg_advisory_lock({_MIGRATION_LOCK})")
        await _make_roles(connection, owner_role, service_role, schema, password)
        await _become_owner(connection, owner_role, service_role, schema)
        files = {"chassis": _read(CHASSIS_MIGRATIONS), service: _read(migrations)}
        applied = await _applied(connection)
        _check_history(schema, files, applied)
        return await _apply_missing(connection, files, applied)
    finally:
        # Also gives the lock back.
        await connection.close()


async def begin_incarnation(admin_dsn: str, schema: str, owner_role: str = OWNER_ROLE) -> tuple[str, int]:
    """Give the schema's fact log a new identity: the operator's first act after restoring a backup.

    Facts that consumers have heard may be missing from what was restored, and their numbers will be given again.
    Consumers notice by the identity and wait for the operator. Answers it and the last number before it.
    """
    connection = await asyncpg.connect(admin_dsn, timeout=CONNECT_SECONDS)
    try:
        await connection.execute(f"set role {quoted(owner_role)}")
        await connection.execute(f"set search_path = {quoted(schema)}, pg_temp")
        row = await connection.fetchrow("select incarnation, began_after from begin_incarnation()")
        assert row is not None
        return str(row["incarnation"]), row["began_after"]
    finally:
        await connection.close()


def quoted(identifier: str) -> str:
    """An SQL identifier, whatever is in it."""
    return '"' + identifier.replace('"', '""') + '"'


async def _make_roles(
    connection: Connection, owner_role: str, service_role: str, schema: str, password: str | None
) -> None:
    for attempt in range(1, _ROLE_ATTEMPTS + 1):
        try:
            await _make_role(connection, owner_role, "nologin", {})
            await _make_role(connection, service_role, "login", {"search_path": quoted(schema)})
            if not await _may_become(connection, owner_role):
                await connection.execute(f"grant {quoted(owner_role)} to current_user")
            if password is not None:
                alter = await connection.fetchval(
                    "select format('alter role %I password %L', $1::text, $2::text)", service_role, password
                )
                await connection.execute(alter)
            return
        except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError, asyncpg.InternalServerError):
            # "Tuple concurrently updated" is an internal error.
            if attempt == _ROLE_ATTEMPTS:
                raise
            await asyncio.sleep(0.05 * attempt)


async def _make_role(connection: Connection, role: str, login: str, settings: Mapping[str, str]) -> None:
    existing = await connection.fetchrow("select rolconfig from pg_roles where rolname = $1", role)
    if existing is None:
        await connection.execute(f"create role {quoted(role)} {login}")
    present = (existing and existing["rolconfig"]) or []
    for name, value in settings.items():
        if f"{name}={value}" not in present:
            await connection.execute(f"alter role {quoted(role)} set {name} = {value}")


async def _may_become(connection: Connection, role: str) -> bool:
    # Since Postgres 16 who created a role is its member, but may not become it without a grant.
    privilege = "SET" if connection.get_server_version().major >= 16 else "MEMBER"
    return bool(await connection.fetchval("select pg_has_role(current_user, $1, $2)", role, privilege))


async def _become_owner(connection: Connection, owner_role: str, service_role: str, schema: str) -> None:
    await connection.execute(f"""
        create schema if not exists {quoted(schema)} authorization {quoted(owner_role)};
        set role {quoted(owner_role)};
        set search_path = {quoted(schema)}, pg_temp;
        grant usage on schema {quoted(schema)} to {quoted(service_role)};
        create table if not exists migration (
            origin text not null,
            name text not null,
            checksum text not null,
            applied_at timestamptz not null default clock_timestamp(),
            primary key (origin, name)
        );
    """)
    # The files of the chassis are the same for every service; this tells them whom to grant to.
    await connection.execute("select set_config('levata.service_role', $1, false)", service_role)


def _read(paths: Iterable[Path]) -> list[Migration]:
    return [Migration(path.name, path.read_text(encoding="utf-8")) for path in sorted(paths)]


async def _applied(connection: Connection) -> dict[str, list[tuple[str, str]]]:
    applied: dict[str, list[tuple[str, str]]] = {}
    for row in await connection.fetch("select origin, name, checksum from migration order by origin, name"):
        applied.setdefault(row["origin"], []).append((row["name"], row["checksum"]))
    return applied


def _check_history(
    schema: str, files: Mapping[str, list[Migration]], applied: Mapping[str, list[tuple[str, str]]]
) -> None:
    """What was applied must be the beginning of the files, unchanged."""
    for origin, history in applied.items():
        known = files.get(origin, [])
        for (name, checksum), file in zip(history, known, strict=False):
            if name != file.name:
                raise MigrationRefused(f"schema {schema}: {origin}/{min(name, file.name)} is missing or came too late")
            if checksum != file.checksum:
                raise MigrationRefused(f"schema {schema}: {origin}/{name} was edited after it had been applied")
        if len(history) > len(known):
            newest = history[-1][0]
            raise MigrationRefused(f"schema {schema} is newer than this program: it has {origin}/{newest}")


async def _apply_missing(
    connection: Connection, files: Mapping[str, list[Migration]], applied: Mapping[str, list[tuple[str, str]]]
) -> list[str]:
    done: list[str] = []
    for origin, known in files.items():
        for file in known[len(applied.get(origin, ())) :]:
            async with connection.transaction():
                # The whole file in one go: the server itself takes it apart.
                await connection.execute(file.sql)
                await connection.execute(
                    "insert into migration (origin, name, checksum) values ($1, $2, $3)",
                    origin,
                    file.name,
                    file.checksum,
                )
            done.append(f"{origin}/{file.name}")
    return done
