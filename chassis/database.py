"""Postgres: connections that cannot hang or hog. Migrations are in `chassis.schema`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias
from uuid import UUID

import asyncpg
import grpc
import structlog
from asyncpg.pgproto import pgproto

from chassis.errors import Refused

log = structlog.get_logger(__name__)

# Strings, because asyncpg's classes take parameters in its stubs only.
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
# A connection of one's own or one that a pool lends: what SQL is run on.
Session: TypeAlias = "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"

# A UUID from its text, made by the driver: one of the standard library's class, in a quarter of the time.
uuid_of: Final[Callable[[str], UUID]] = pgproto.UUID

STATEMENT_SECONDS: Final = 10
# A process that is stopped inside a transaction keeps its locks no longer than this.
IDLE_IN_TRANSACTION_SECONDS: Final = 5
CONNECT_SECONDS: Final = 5
POOL_CONNECTIONS_MAX: Final = 10

# Postgres cannot serve now, whatever it was asked.
_TROUBLE: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
    asyncpg.InternalServerError,
    # After a fail-over: the primary of before is a standby now.
    asyncpg.ReadOnlySQLTransactionError,
    # The driver lost its way in the protocol: seen when a connection is cut between two messages.
    asyncpg.InternalClientError,
)


def is_trouble(error: Exception, session: Session) -> bool:
    """Whether Postgres or the way to it failed, rather than what was asked of it."""
    return session.is_closed() or isinstance(error, _TROUBLE)


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
        reset=_leave_as_it_is,
    )


async def _leave_as_it_is(connection: Connection) -> None:
    """Spare the round trip after each use: what our statements set in a session ends with their transaction, and a
    transaction that was left open the pool has rolled back before this."""


# The server cannot be reached, shuts down, has too many connections, or takes too long.
_AWAY: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.exceptions.OperatorInterventionError,
    asyncpg.exceptions.InsufficientResourcesError,
    asyncpg.InternalClientError,
    # Of two that waited for each other this one had to give way.
    asyncpg.exceptions.TransactionRollbackError,
    # A closed connection; see below for what it is besides.
    asyncpg.InterfaceError,
    OSError,
    TimeoutError,
)


@contextmanager
def refusing_while_away() -> Iterator[None]:
    """Around the statements of a request: while the database is away, the request is refused and may be repeated. So
    is a text that Postgres cannot hold, for good."""
    try:
        yield
    except asyncpg.exceptions.CharacterNotInRepertoireError as error:
        # Of all that a string field may have only this.
        raise Refused(
            "INVALID_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "A text has the character U+0000 in it."
        ) from error
    except _AWAY as error:
        if isinstance(error, ValueError):
            # The driver's word for an argument that does not fit.
            raise
        log.warning("the database is away", error=repr(error))
        raise Refused(
            "TEMPORARILY_UNAVAILABLE",
            grpc.StatusCode.UNAVAILABLE,
            "Something is away; repeat the call with the same ids.",
        ) from error
