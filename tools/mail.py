"""The mails that `./levata up` keeps instead of sending them, while it has no mail server (LEVATA_MAIL_URL).

The newest comes first; with `--follow` they come as they are written, until Ctrl-C.
"""

import email
import signal
from collections.abc import Iterator
from datetime import datetime
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from threading import Event
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

from tools.data import DEFAULT_DATA, DataFolder

LOOK_SECONDS = 0.2


class Mail(NamedTuple):
    """One mail of the mailbox."""

    to: str
    at: datetime
    subject: str
    text: str


class Mailbox:
    """The mailbox of a data folder, which need not exist yet."""

    def __init__(self, folder: DataFolder) -> None:
        # A mail is whole once it is here: that is what a Maildir is for.
        self._new = folder.mail / "new"

    def mails(self, to: str | None = None) -> list[Mail]:
        """All mails, or those to one address, newest first."""
        return list(self._read(reversed(self._files()), to))

    def follow(self, to: str | None, stop: Event) -> Iterator[Mail]:
        """Mails that come from now on, until somebody wants it to stop."""
        known = set(self._files())
        while not stop.wait(LOOK_SECONDS):
            fresh = [file for file in self._files() if file not in known]
            known.update(fresh)
            yield from self._read(fresh, to)

    def _files(self) -> list[Path]:
        """Oldest first."""
        return sorted(self._new.iterdir(), key=lambda file: file.stat().st_mtime_ns) if self._new.exists() else []

    def _read(self, files: Iterator[Path] | list[Path], to: str | None) -> Iterator[Mail]:
        for file in files:
            message = email.message_from_bytes(file.read_bytes(), policy=default)
            assert isinstance(message, EmailMessage)
            mail = Mail(str(message["To"]), message["Date"].datetime, str(message["Subject"]), _text(message))
            if to is None or mail.to.lower() == to.lower():
                yield mail


def main(
    to: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Only mails to this address.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print mails as they come.")] = False,
    last: Annotated[int, typer.Option(min=1, metavar="N", help="How many, without --follow.")] = 5,
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="The data folder of `up`.")] = DEFAULT_DATA,
) -> None:
    """Print the mails that the backend on this machine has written."""
    console = Console(highlight=False, soft_wrap=True)
    mailbox = Mailbox(DataFolder(data))
    if follow:
        # Not by KeyboardInterrupt: raised in the callback of an import or of the collector it is lost.
        stop = Event()
        signal.signal(signal.SIGINT, lambda *_: stop.set())
        for mail in mailbox.follow(to, stop):
            _print(console, mail)
        return
    mails = mailbox.mails(to)
    if not mails:
        raise SystemExit(f"There are no mails{f' to {to}' if to else ''} in {data}.")
    for mail in mails[:last]:
        _print(console, mail)


def _text(message: EmailMessage) -> str:
    part = message.get_body(("plain",))
    return "" if part is None else str(part.get_content())


def _print(console: Console, mail: Mail) -> None:
    console.print(Text(mail.subject, style="bold"))
    console.print(Text(f"to {mail.to}, {mail.at.astimezone():%Y-%m-%d %H:%M:%S}", style="dim"))
    console.print(Text(f"\n{mail.text}"))
