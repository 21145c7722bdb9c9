"""How mails leave this process, and what can become of one."""

from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol


class Message(NamedTuple):
    """A mail as a transport takes it."""

    recipient: str
    # With lines that end in CR LF.
    content: bytes


class Undeliverable(Exception):
    """This mail will never be delivered; the reason names neither the address nor the code."""


class Deferred(Exception):
    """This mail is not taken now; others may be."""


class MailAway(Exception):
    """No mail can be delivered now: the server is away, or does not take us for who we are."""


class Session(Protocol):
    """A way that is open."""

    async def send(self, message: Message) -> None:
        """Hand a mail over for good; after MailAway the session is of no use, and the mail may have been taken."""
        ...


class Transport(Protocol):
    """Where mails go."""

    def session(self) -> AbstractAsyncContextManager[Session]:
        """Open a way for one mail after another; MailAway if there is none."""
        ...
