"""Bring the schemas of all services up to date: a schema and a login role for each, all owned by a role of nobody.

`up` and the tests do it with the embedded Postgres; an operator does it once per release, before
the new services start.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chassis.schema import OWNER_ROLE, migrate

SERVICES_FOLDER = Path(__file__).parents[1] / "services"


@dataclass(frozen=True)
class Schema:
    """Where a service keeps its tables, and as whom it logs in."""

    service: str
    name: str
    role: str

    @property
    def migrations(self) -> list[Path]:
        """The service's own SQL files, oldest first."""
        return sorted((SERVICES_FOLDER / self.service / "migrations").glob("*.sql"))


SCHEMAS = {
    schema.service: schema
    for schema in (
        Schema("accounts", "accounts", "levata_accounts"),
        Schema("table", "tables", "levata_table"),
        Schema("ledger", "ledger", "levata_ledger"),
        Schema("league", "league", "levata_league"),
        Schema("matchmaker", "matchmaker", "levata_matchmaker"),
    )
}


def migrate_all(admin_dsn: str, password_of: Callable[[str], str]) -> list[str]:
    """Migrate every service's schema and set each role's password; answers the files that were applied now."""
    applied: list[str] = []
    for schema in SCHEMAS.values():
        applied += migrate(
            admin_dsn,
            schema.service,
            schema.name,
            OWNER_ROLE,
            schema.role,
            schema.migrations,
            password=password_of(schema.role),
        )
    return applied
