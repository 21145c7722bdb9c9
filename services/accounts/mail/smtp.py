"""Mails over SMTP, to the server that the settings name."""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

import aiosmtplib

from services.accounts.mail.delivery import Deferred, MailAway, Message, Undeliverable

# Implicit TLS, TLS after STARTTLS (which must succeed), and none.
_PORTS: Final = {"smtps": 465, "smtp+starttls": 587, "smtp": 25}
SCHEMES: Final = tuple(_PORTS)
_OWN_MACHINE: Final = ("localhost", "127.0.0.1", "::1")

# The server closes the channel, whatever it was asked (RFC 5321, 3.8).
_SERVICE_CLOSING: Final = 421
# It did not understand us, or wants a sign-in or TLS first (RFC 5321, 4.2.2; RFC 4954, 6): not the mail's fault.
_NOT_ABOUT_THE_MAIL: Final = frozenset({500, 501, 502, 503, 504, 530, 534, 535, 538})
_ENHANCED_CODE: Final = re.compile(r"[245]\.\d{1,3}\.\d{1,3}(?!\S)").match

QUIT_SECONDS: Final = 2


class Server(NamedTuple):
    """A mail server and how to sign in there."""

    scheme: str
    host: str
    port: int
    user: str | None
    password: str | None


def server_from(url: str) -> Server:
    """A server from `smtps://user:password@host:port` and its like; ValueError, without the password, if it is none."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError(f"a mail server is written as {', '.join(SCHEMES)} and ://user:password@host:port")
    if parts.scheme == "smtp" and parts.hostname not in _OWN_MACHINE:
        raise ValueError("smtp:// would send codes in the clear: use smtps:// or smtp+starttls://")
    user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
    return Server(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme], user, password)


class SmtpTransport:
    """A `Transport` to one server. `tls_context` says whose certificates it may have."""

    def __init__(self, server: Server, sender: str, timeout_seconds: float, tls_context: ssl.SSLContext) -> None:
        self._server = server
        self._sender = sender
        self._timeout_seconds = timeout_seconds
        self._tls_context = tls_context

    @asynccontextmanager
    async def session(self) -> AsyncIterator["SmtpSession"]:
        """Connect and sign in."""
        client = aiosmtplib.SMTP(
            hostname=self._server.host,
            port=self._server.port,
            username=self._server.user,
            password=self._server.password,
            # What the library would take else, the name by DNS, may take longer than all the rest.
            local_hostname=socket.gethostname(),
            timeout=self._timeout_seconds,
            use_tls=self._server.scheme == "smtps",
            start_tls=self._server.scheme == "smtp+starttls",
            tls_context=self._tls_context,
        )
        try:
            with _translated():
                async with asyncio.timeout(self._timeout_seconds):
                    await client.connect()
            yield SmtpSession(client, self._sender, self._timeout_seconds)
            with suppress(aiosmtplib.SMTPException, OSError):
                await client.quit(timeout=QUIT_SECONDS)
        finally:
            client.close()


class SmtpSession:
    """A `Session` on a connection."""

    def __init__(self, client: aiosmtplib.SMTP, sender: str, timeout_seconds: float) -> None:
        self._client = client
        self._sender = sender
        self._timeout_seconds = timeout_seconds

    async def send(self, message: Message) -> None:
        """Hand a mail to the server, which is responsible for it from its answer on."""
        with _translated():
            # Over all its commands: a server that answers each of them late must not outlast the mail's lease.
            async with asyncio.timeout(self._timeout_seconds):
                await self._client.sendmail(self._sender, message.recipient, message.content)


@contextmanager
def _translated() -> Iterator[None]:
    """Errors of the library as outcomes of ours. Nothing of what the server said is kept but its codes."""
    try:
        yield
    except aiosmtplib.SMTPRecipientsRefused as error:
        raise _answered(error.recipients[0]) from None
    except aiosmtplib.SMTPResponseException as error:
        raise _answered(error) from None
    except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
        raise MailAway(f"{type(error).__name__}: {error}") from None


def _answered(error: aiosmtplib.SMTPResponseException) -> Exception:
    enhanced = _ENHANCED_CODE(error.message)
    reason = f"{_STAGES.get(type(error), 'command')} refused: {error.code}"
    if enhanced is not None:
        reason += f" {enhanced[0]}"
    about_the_mail = isinstance(error, aiosmtplib.SMTPRecipientRefused | aiosmtplib.SMTPDataError)
    if not about_the_mail or error.code == _SERVICE_CLOSING or error.code in _NOT_ABOUT_THE_MAIL:
        return MailAway(reason)
    return Undeliverable(reason) if error.code >= 500 else Deferred(reason)


_STAGES: Final[dict[type[Exception], str]] = {
    aiosmtplib.SMTPConnectResponseError: "connection",
    aiosmtplib.SMTPHeloError: "greeting",
    aiosmtplib.SMTPAuthenticationError: "sign-in",
    aiosmtplib.SMTPSenderRefused: "sender",
    aiosmtplib.SMTPRecipientRefused: "recipient",
    aiosmtplib.SMTPDataError: "content",
}
