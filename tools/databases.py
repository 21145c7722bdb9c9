"""How tools reach the database of an `up` that runs."""

from tools.data import DataFolder
from tools.embedded.postgres import EmbeddedPostgres
from tools.migrate import SCHEMAS
from tools.up.servers import OwnPostgres, postgres_for


def service_dsn(folder: DataFolder, service: str) -> str | None:
    """A service's own DSN in the database of the `up` that runs on a folder; None where that cannot be found."""
    server = _running_postgres(folder)
    return None if server is None else server.dsn(SCHEMAS[service].role)


def admin_dsn(folder: DataFolder) -> str | None:
    """The DSN of who may do everything; None as above."""
    server = _running_postgres(folder)
    return None if server is None else server.admin_dsn


def _running_postgres(folder: DataFolder) -> EmbeddedPostgres | OwnPostgres | None:
    server = postgres_for(folder)
    if isinstance(server, OwnPostgres):
        return server
    try:
        # As Postgres has it: the port is the fourth line.
        port = int((folder.postgres / "cluster" / "postmaster.pid").read_text().splitlines()[3])
    except (OSError, ValueError, IndexError):
        return None
    return EmbeddedPostgres(folder.postgres, port)
