"""A real SMTP server in the test's own process, and certificates for it."""

import asyncio
import email
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any, NamedTuple

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

USER, PASSWORD = "levata@example.org", "a/b:c@d %"


class Certificate(NamedTuple):
    """For `localhost`, signed by itself."""

    path: Path
    key: Path

    def for_server(self) -> ssl.SSLContext:
        """What the server shows."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.path, self.key)
        return context


def make_certificate(folder: Path) -> Certificate:
    """A certificate and its key, in files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = Certificate(folder / "certificate.pem", folder / "key.pem")
    files.path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return files


# Answers to a command in place of the server's own; None for its own.
Answer = Callable[[], Awaitable[str | None]]


class Inbox:
    """What a server has taken, and what it says to a recipient (`on_recipient`) or a content (`on_content`)."""

    def __init__(self) -> None:
        self.taken: list[Envelope] = []
        self.over_tls: list[bool] = []
        self.asked = 0
        self.on_recipient: Answer | None = None
        self.on_content: Answer | None = None

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: Sequence[str]
    ) -> str:
        """Called by the server."""
        self.asked += 1
        answer = None if self.on_recipient is None else await self.on_recipient()
        if answer is None:
            envelope.rcpt_tos.append(address)
        return answer or "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Called by the server."""
        answer = None if self.on_content is None else await self.on_content()
        if answer is None:
            self.taken.append(envelope)
            self.over_tls.append(
                server.transport is not None and server.transport.get_extra_info("sslcontext") is not None
            )
        return answer or "250 OK"

    def messages(self) -> list[EmailMessage]:
        """All that were taken, parsed."""
        parsed = []
        for envelope in self.taken:
            assert isinstance(envelope.content, bytes)
            message = email.message_from_bytes(envelope.content, policy=default)
            assert isinstance(message, EmailMessage)
            parsed.append(message)
        return parsed

    def recipients(self) -> list[str]:
        """Of all mails that were taken, in order."""
        return [recipient for envelope in self.taken for recipient in envelope.rcpt_tos]


def says(*answers: str | None) -> Answer:
    """These answers one after another, the last one for ever."""
    left = list(answers)

    async def answer() -> str | None:
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


class MailServer:
    """A server that can be stopped and started again on its port."""

    def __init__(self, inbox: Inbox, scheme: str, certificate: Certificate | None, *, signs_in: bool) -> None:
        self._inbox = inbox
        self._scheme = scheme
        self._certificate = certificate
        self._signs_in = signs_in
        self._server: asyncio.Server | None = None
        self._connections: set[SMTP] = set()
        self.port = 0

    async def start(self) -> None:
        """Listen."""
        context = None if self._certificate is None else self._certificate.for_server()
        self._server = await asyncio.get_running_loop().create_server(
            self._connection, "localhost", self.port, ssl=context if self._scheme == "smtps" else None
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Be away, and cut who is connected."""
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.sleep(0)

    def cut(self) -> None:
        """Cut every connection in the middle of whatever it does."""
        for connection in self._connections:
            if isinstance(connection.transport, asyncio.WriteTransport):
                connection.transport.abort()
        self._connections.clear()

    def url(self, user: str = "") -> str:
        """For `LEVATA_MAIL_URL`."""
        return f"{self._scheme}://{user}localhost:{self.port}"

    def _connection(self) -> SMTP:
        options: dict[str, Any] = {"hostname": "localhost", "loop": asyncio.get_running_loop()}
        if self._scheme == "smtp+starttls":
            assert self._certificate is not None
            options |= {"tls_context": self._certificate.for_server(), "require_starttls": True}
        if self._signs_in:
            options |= {
                "authenticator": _authenticate,
                "auth_required": True,
                "auth_require_tls": self._scheme == "smtp+starttls",
            }
        connection = SMTP(self._inbox, **options)
        self._connections.add(connection)
        return connection


def _authenticate(server: SMTP, session: Session, envelope: Envelope, mechanism: str, shown: Any) -> AuthResult:
    right = LoginPassword(USER.encode(), PASSWORD.encode())
    # Not handled: the server itself says no.
    return AuthResult(success=shown == right, handled=False)


@asynccontextmanager
async def running(
    inbox: Inbox, scheme: str = "smtp", certificate: Certificate | None = None, *, signs_in: bool = False
) -> AsyncIterator[MailServer]:
    """A server on a free port."""
    server = MailServer(inbox, scheme, certificate, signs_in=signs_in)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
