"""Files that are replaced while processes run that use them: keys and tokens, by rotation."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import structlog

from chassis.tasks import end

log = structlog.get_logger(__name__)

# A new file is in use after so long; rotation waits for several times as long.
LOOK_SECONDS: Final = 2.0


def write_whole(path: Path, text: str, mode: int) -> None:
    """Write a file whole or not at all, with `mode` from its first moment."""
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
    unfinished.replace(path)


@asynccontextmanager
async def followed(path: Path, use: Callable[[str], None]) -> AsyncIterator[None]:
    """Have `use` take the file's text now, and again whenever it has been replaced.

    `use` refuses with ValueError what it cannot take: the first time that is an error, later the former text stays.
    """
    version = _Version(path)
    use(version.text())
    looking = asyncio.create_task(_look(version, use), name=f"follow {path.name}")
    try:
        yield
    finally:
        await end(looking)


async def _look(version: "_Version", use: Callable[[str], None]) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            if version.is_old():
                use(version.text())
                log.info("a file was replaced", file=str(version.path))
        except (OSError, ValueError) as error:
            log.error("a file cannot be taken, the former stays in use", file=str(version.path), error=repr(error))


class TokenFile:
    """A token in a file, as it is now: whoever issues it puts a new one there long before the old one runs out."""

    def __init__(self, path: Path) -> None:
        self._version = _Version(path)
        self._token = ""
        self._look_at = 0.0

    def __call__(self) -> str:
        """The token; OSError while there never was one."""
        now = time.monotonic()
        if now >= self._look_at:
            try:
                if self._version.is_old():
                    self._token = self._version.text().strip()
            except OSError:
                if not self._token:
                    raise
            self._look_at = now + LOOK_SECONDS
        return self._token


class _Version:
    """Which version of a file has been read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[int, ...] = ()

    def is_old(self) -> bool:
        """Whether there is another one."""
        return self._identity() != self._read

    def text(self) -> str:
        """The file's text."""
        # Looked at before it is read: what is replaced in between is read once more.
        found = self._identity()
        text = self.path.read_text()
        self._read = found
        return text

    def _identity(self) -> tuple[int, ...]:
        """Changes with each replacement, also with one of the same size and time, as mounted secrets may have."""
        stat = self.path.stat()
        return stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size
