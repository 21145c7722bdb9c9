"""Mails into a folder, for machines without a mail server: `./levata mail` prints them."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from services.accounts.mail.delivery import MailAway, Message

SCHEME: Final = "maildir"


def folder_from(url: str) -> Path:
    """The folder of `maildir:///path`, percent-encoded where needed; ValueError if it names none."""
    parts = urlsplit(url)
    path = Path(unquote(parts.path))
    if parts.scheme != SCHEME or parts.netloc or not path.is_absolute():
        raise ValueError("a mailbox is written as maildir:///absolute/path")
    return path


def url_of(folder: Path) -> str:
    """The URL of a folder."""
    return folder.absolute().as_uri().replace("file:", f"{SCHEME}:", 1)


class MaildirTransport:
    """A `Transport` into a Maildir, which shows every mail whole or not at all, whoever reads it meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def session(self) -> AsyncIterator["MaildirTransport"]:
        """The folder is always there."""
        yield self

    async def send(self, message: Message) -> None:
        """Put a mail into the folder, and on the disk."""
        try:
            await asyncio.to_thread(self._add, message.content.replace(b"\r\n", b"\n"))
        except OSError as error:
            raise MailAway(f"the mailbox cannot be written: {error.strerror}") from None

    def _add(self, content: bytes) -> None:
        # Not the library's `add`, whose names are unique only as long as one mail is written at a time.
        for part in ("tmp", "new", "cur"):
            (self._folder / part).mkdir(mode=0o700, parents=True, exist_ok=True)
        written = self._folder / "tmp" / f"{time.time():.6f}.{uuid4().hex}.levata"
        with open(written, "xb", opener=_private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        written.rename(self._folder / "new" / written.name)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
