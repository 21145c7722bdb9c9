"""Tokens of the services and the tools: files that only their folder's owner can read.

They live for a day and are renewed every hour, by whoever has the signing key; services take the new ones without a
restart.
"""

import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Final

from chassis.auth import Signer
from chassis.clock import Clock
from chassis.files import write_whole

TOKEN_SECONDS: Final = 24 * 3600
RENEW_SECONDS: Final = 3600
NOT_AHEAD: Final = timedelta()

# What `levata play` and `demo` open games with.
TOOLS: Final = "tools"
# The operator's own, of another role than the services'.
OPERATOR: Final = "operator"


class ClockAhead(Clock):
    """The machine's time, and so much."""

    def __init__(self, ahead: timedelta) -> None:
        super().__init__()
        self._ahead_s = int(ahead.total_seconds())

    def now_s(self) -> int:
        return super().now_s() + self._ahead_s


class Tokens:
    """The folder at `path`, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._issued_at = 0.0
        self._key = ""

    def file(self, name: str) -> Path:
        """Where the token of a service, of the tools or of the operator is."""
        return self._path / f"{name}.token"

    def issue(self, signing_key: Path, services: Iterable[str], ahead: timedelta = NOT_AHEAD) -> None:
        """Write new ones for all, for services whose clocks run ahead by so much."""
        self._issued_at, self._key = time.time(), signing_key.read_text()
        signer = Signer.from_file(signing_key, ClockAhead(ahead))
        tokens = {name: signer.service_token(name, TOKEN_SECONDS) for name in (*services, TOOLS)}
        tokens[OPERATOR] = signer.operator_token(OPERATOR, TOKEN_SECONDS)
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, token in tokens.items():
            write_whole(self.file(name), token + "\n", 0o600)

    def are_due(self, signing_key: Path) -> bool:
        """Whether they should be renewed: in time, or because there is another key."""
        # The machine's clock may have been put back.
        in_time = 0 <= time.time() - self._issued_at < RENEW_SECONDS
        return not in_time or signing_key.read_text() != self._key
