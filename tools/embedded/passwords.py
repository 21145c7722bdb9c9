"""Passwords of an embedded server's users: made once, one file each, readable by their owner only."""

import os
import secrets
from pathlib import Path


class Passwords:
    """A folder of passwords, by user name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, user: str) -> str:
        """The user's password, made now if there is none yet."""
        path = self._folder / user
        if not path.exists():
            self._make(path)
        return path.read_text().strip()

    def _make(self, path: Path) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Begins with a letter, because NATS reads a value that begins with a digit as a number.
        password = "p" + secrets.token_hex(24)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        unfinished.unlink(missing_ok=True)
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(password + "\n")
        unfinished.rename(path)
