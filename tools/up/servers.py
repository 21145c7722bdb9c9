"""The servers that the services stand on: the embedded ones, or one's own where the environment names them."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from services.accounts.mail import maildir
from tools.data import DataFolder
from tools.embedded.nats import EmbeddedNats
from tools.embedded.part import PartFailed
from tools.embedded.passwords import Passwords
from tools.embedded.postgres import EmbeddedPostgres
from tools.up.service import Kind

POSTGRES_VARIABLE = "LEVATA_POSTGRES_DSN"
NATS_VARIABLE = "LEVATA_NATS_URL"
# What an operator may tell the accounts service: its mail server, and how codes are given out.
SIGN_IN_VARIABLES = ("LEVATA_MAIL_", "LEVATA_CODE_", "LEVATA_CODES_")
CATALOGUE_VARIABLE = "LEVATA_CATALOGUE_FILE"
TIME_ZONE_VARIABLE = "LEVATA_TIME_ZONE"
CATALOGUE = Path(__file__).parents[2] / "deploy" / "catalogue.yaml"
REACH_SECONDS = 5.0
NATS_PORT = 4222


class OwnPostgres:
    """The server that LEVATA_POSTGRES_DSN names; it is used, never started or stopped."""

    name = "Postgres"

    def __init__(self, admin_dsn: str, passwords: Passwords) -> None:
        self.admin_dsn = admin_dsn
        self.passwords = passwords
        try:
            self._parameters = {
                name: str(value) for name, value in conninfo_to_dict(admin_dsn).items() if value is not None
            }
            with psycopg.connect(admin_dsn, connect_timeout=int(REACH_SECONDS)):
                pass
        except psycopg.Error as error:
            raise PartFailed(f"{POSTGRES_VARIABLE} does not work: {' '.join(str(error).split())}") from None

    def dsn(self, role: str) -> str:
        """The admin's DSN with another role's name and password."""
        others = {name: value for name, value in self._parameters.items() if name not in ("user", "password", "dbname")}
        # As libpq has it: without a name, the database is called as the user.
        database = self._parameters.get("dbname") or self._parameters.get("user", "")
        return f"postgresql://{quote(role)}:{quote(self.passwords.of(role))}@/{quote(database)}?{urlencode(others)}"

    @property
    def where(self) -> str:
        """Without the password."""
        host = self._parameters.get("host", "local")
        return f"{host}:{self._parameters.get('port', 5432)} (your own)"


class OwnNats:
    """The server that LEVATA_NATS_URL names; its operator makes the users, deploy/nats.conf shows them.

    LEVATA_NATS_URL_TABLE and its like name the URL of one service's own user.
    """

    name = "NATS"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        target = urlsplit(environment[NATS_VARIABLE])
        self.where = f"{target.hostname}:{target.port or NATS_PORT} (your own)"
        try:
            socket.create_connection((target.hostname or "", target.port or NATS_PORT), REACH_SECONDS).close()
        except OSError as error:
            raise PartFailed(f"{NATS_VARIABLE} does not work: {self.where} cannot be reached: {error}.") from None

    def url(self, user: str) -> str:
        """The user's own URL, or the one that all share."""
        return self._environment.get(f"{NATS_VARIABLE}_{user.upper()}", self._environment[NATS_VARIABLE])


def postgres_for(folder: DataFolder) -> EmbeddedPostgres | OwnPostgres:
    """The operator's own server if there is one."""
    own = os.environ.get(POSTGRES_VARIABLE)
    return OwnPostgres(own, Passwords(folder.passwords)) if own else EmbeddedPostgres(folder.postgres)


def nats_for(folder: DataFolder) -> EmbeddedNats | OwnNats:
    """The operator's own server if there is one."""
    return OwnNats(os.environ) if os.environ.get(NATS_VARIABLE) else EmbeddedNats(folder.nats)


def told_besides(kind: Kind, folder: DataFolder) -> Mapping[str, str]:
    """What services of a kind are told besides, unless the operator says otherwise.

    Who signs people in: its secret, and a mailbox. Ledger, league and matchmaker: the catalogue.
    """
    told: dict[str, str] = {}
    # Days and weeks must be the same for all.
    variables: tuple[str, ...] = (TIME_ZONE_VARIABLE,)
    if kind.signs_in:
        told = {"LEVATA_SECRET_FILE": str(folder.accounts_secret()), "LEVATA_MAIL_URL": maildir.url_of(folder.mail)}
        variables += SIGN_IN_VARIABLES
    if kind.has_catalogue:
        told = {CATALOGUE_VARIABLE: str(CATALOGUE)}
        variables += (CATALOGUE_VARIABLE,)
    return told | {name: value for name, value in os.environ.items() if name.startswith(variables)}
