"""Mails into a folder, for machines without a mail server: `./levata mail` prints them."""

import asyncio
import mailbox
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

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
        # The library's names for files are unique as long as one thread makes them.
        self._one_at_a_time = asyncio.Lock()

    @asynccontextmanager
    async def session(self) -> AsyncIterator["MaildirTransport"]:
        """The folder is always there."""
        yield self

    async def send(self, message: Message) -> None:
        """Put a mail into the folder, and on the disk."""
        try:
            async with self._one_at_a_time:
                await asyncio.to_thread(self._add, message)
        except OSError as error:
            raise MailAway(f"the mailbox cannot be written: {error.strerror}") from None

    def _add(self, message: Message) -> None:
        mailbox.Maildir(self._folder).add(message.content.replace(b"\r\n", b"\n"))
