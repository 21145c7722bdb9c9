"""The data folder of `./levata up`, shared by `up`, which fills it, and by the tools that call what `up` runs.

version         the folder's layout, as a number
lock            held by the `up` that uses the folder
endpoints.json  where everything listens; there while `up` runs
tokens/         of the services, the tools and the operator (0600)
player          the request id that makes the guest who plays in this terminal (0600)
keys/           the signing key and the accounts service's secret (0600), and the public keys
passwords/      of the services' roles in a Postgres of one's own (0600)
postgres/       cluster/, passwords/ and postgres.log of the embedded server
nats/           jetstream/, passwords/ and nats.log of the embedded server
envoy/          envoy.yaml, envoy.log and access.log
tls/            the self-made certificate of --tls, and its key (0600)
mail/           the mails of a backend without a mail server, as a Maildir
"""

import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO
from uuid import uuid4

from chassis.files import write_whole
from tools.tokens import OPERATOR, TOOLS, Tokens

DEFAULT_DATA = Path(__file__).parents[1] / ".levata"
LAYOUT_VERSION = 1
# A tool that looks whether somebody runs holds the lock for a moment, and an `up` that was killed as long as it takes
# the kernel to bury it.
LOCK_ATTEMPTS = 10
LOCK_RETRY_SECONDS = 0.05


class DataFolderRefused(Exception):
    """The folder cannot be used; the message is a sentence for the person who named it."""


class NotRunning(Exception):
    """No `up` runs on the folder; the message is a sentence for the person who named it."""


@dataclass(frozen=True)
class Endpoints:
    """Where to call, each as host:port."""

    public: str
    # By service, each replica's own address: internal services are called here.
    services: dict[str, list[str]]
    # A file with what to trust of the public port; empty, where it speaks without TLS.
    certificate: str = ""

    def trusted(self) -> bytes:
        """The certificate to trust of the public port, as PEM; nothing, where it speaks without TLS."""
        return Path(self.certificate).read_bytes() if self.certificate else b""


class DataFolder:
    """The folder at `path`, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.keys = self.path / "keys"
        self.passwords = self.path / "passwords"
        self.postgres = self.path / "postgres"
        self.nats = self.path / "nats"
        self.envoy = self.path / "envoy"
        self.tls = self.path / "tls"
        self.mail = self.path / "mail"
        self._version = self.path / "version"
        self._lock = self.path / "lock"
        self._endpoints = self.path / "endpoints.json"
        self.tokens = Tokens(self.path / "tokens")
        self._player = self.path / "player"

    def endpoints(self) -> Endpoints:
        """Where the `up` on this folder listens; NotRunning if none does."""
        try:
            # Of an `up` that was killed, the file is still there and the lock is not, or is already another's.
            if not self._is_held():
                raise FileNotFoundError
            told = json.loads(self._endpoints.read_text())
            # None in the file of an older program.
            process = told.pop("process", None)
            if process is not None and not is_alive(process):
                raise FileNotFoundError
            return Endpoints(**told)
        except FileNotFoundError:
            raise NotRunning(f"Nothing runs on {self.path}; start it with ./levata up.") from None

    def tools_token(self) -> str:
        """The tools' service token, with which games are opened; NotRunning if there never was an `up` here."""
        return self._token(TOOLS)

    def operator_token(self) -> str:
        """The operator's token; NotRunning if there never was an `up` here."""
        return self._token(OPERATOR)

    def write_endpoints(self, endpoints: Endpoints) -> None:
        """Tell the tools where to call."""
        told = {"process": os.getpid()} | asdict(endpoints)
        write_whole(self._endpoints, json.dumps(told, indent=2) + "\n", 0o644)

    def clear_endpoints(self) -> None:
        """Tell the tools that nothing runs."""
        self._endpoints.unlink(missing_ok=True)

    def accounts_secret(self) -> Path:
        """The file with the accounts service's secret, made now if there is none yet."""
        path = self.keys / "accounts-secret"
        if not path.exists():
            self.keys.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(path, secrets.token_hex(32) + "\n", 0o600)
        return path

    def player(self) -> str:
        """The request id of the guest who plays here, made now if there is none yet."""
        if not self._player.exists():
            write_whole(self._player, f"{uuid4()}\n", 0o600)
        return self._player.read_text().strip()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep every other `up` out; DataFolderRefused if one is in."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = self._lock.open("a+")
        except OSError as error:
            raise DataFolderRefused(f"The data folder {self.path} cannot be used: {error.strerror}.") from None
        with lock:
            if not _locked(lock, fcntl.LOCK_EX, LOCK_ATTEMPTS):
                lock.seek(0)
                holder = lock.read().strip() or "unknown"
                raise DataFolderRefused(
                    f"Levata already runs on {self.path} (process {holder}); stop it, or name another with --data."
                )
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            # Left by an `up` that was killed.
            self.clear_endpoints()
            yield

    def check_version(self) -> None:
        """Mark a new folder as ours, refuse one of a newer program or of somebody else's."""
        try:
            version = self._version.read_text().strip()
        except FileNotFoundError:
            self.refuse_foreign()
            write_whole(self._version, f"{LAYOUT_VERSION}\n", 0o644)
            return
        if not version.isdecimal() or int(version) > LAYOUT_VERSION:
            raise DataFolderRefused(
                f"The data folder {self.path} is of a newer Levata (layout {version}; this one knows "
                f"{LAYOUT_VERSION}); use that one, or name another folder with --data."
            )

    def refuse_foreign(self) -> None:
        """DataFolderRefused if something is in the folder that is not ours."""
        if self._entries() and not self._version.exists():
            raise DataFolderRefused(
                f"{self.path} is not empty and not a data folder of Levata; name another with --data."
            )

    def wipe(self) -> None:
        """Delete what is in the folder, while it is held; DataFolderRefused if it is not ours."""
        self.refuse_foreign()
        for entry in self._entries():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def _token(self, name: str) -> str:
        try:
            return self.tokens.file(name).read_text().strip()
        except FileNotFoundError:
            raise NotRunning(f"{self.path} has no token for tools; ./levata up makes it.") from None

    def _is_held(self) -> bool:
        with self._lock.open() as lock:
            return not _locked(lock, fcntl.LOCK_SH, attempts=1)

    def _entries(self) -> list[Path]:
        return [entry for entry in self.path.iterdir() if entry != self._lock]


def is_alive(process: int) -> bool:
    """Whether a process of this number runs, whoever it belongs to."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _locked(file: TextIO, kind: int, attempts: int) -> bool:
    """Whether the lock could be had."""
    for attempt in range(attempts):
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 < attempts:
                time.sleep(LOCK_RETRY_SECONDS)
        else:
            return True
    return False
