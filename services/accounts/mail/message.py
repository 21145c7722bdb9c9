"""A letter as the bytes that go over the wire.

Put together here, in a twentieth of the time that the standard library's `EmailMessage` takes: with that, mails cost
more than all else of signing in. The one part that is not ours is the recipient, and it is checked: nobody can smuggle
a header in.
"""

from binascii import b2a_qp
from datetime import datetime
from email.errors import MessageError
from email.header import Header
from email.headerregistry import Address
from email.utils import format_datetime, formataddr, parseaddr
from typing import Final
from uuid import UUID

from services.accounts.mail.delivery import Message, Undeliverable
from services.accounts.mail.letters import Letter

# What the library raises for a text that is no address; AttributeError for a domain that begins a literal, as in `a@[`.
MALFORMED: Final = (MessageError, ValueError, IndexError, AttributeError)


def sender_from(text: str) -> Address:
    """A sender from a setting, as `Levata <levata@example.org>`; ValueError if it is none."""
    name, spec = parseaddr(text)
    try:
        address = Address(name, addr_spec=spec)
    except MALFORMED as error:
        raise ValueError(f"{text!r} is no mail address") from error
    if not address.username or not address.domain or not spec.isascii():
        raise ValueError(f"{text!r} is no mail address")
    return address


def compose(letter: Letter, sender: Address, recipient: str, mail_id: UUID, at: datetime) -> Message:
    """A letter to one recipient; Undeliverable if that is no address. Sent twice, it has one Message-ID."""
    boundary = f"=_{mail_id.hex}"
    headers = (
        ("To", _checked(recipient)),
        ("From", formataddr((sender.display_name, sender.addr_spec))),
        ("Subject", _folded("Subject", letter.subject)),
        ("Date", format_datetime(at)),
        ("Message-ID", f"<{mail_id}@{sender.domain}>"),
        # RFC 3834: nobody's absence is to be told to us.
        ("Auto-Submitted", "auto-generated"),
        ("MIME-Version", "1.0"),
        ("Content-Type", f'multipart/alternative; boundary="{boundary}"'),
        ("Content-Language", letter.language),
    )
    head = "".join(f"{name}: {text}\r\n" for name, text in headers).encode("ascii")
    parts = _part(boundary, "plain", letter.text) + _part(boundary, "html", letter.html)
    return Message(recipient, head + b"\r\n" + parts + f"--{boundary}--\r\n".encode())


def _checked(recipient: str) -> str:
    # Accounts keep domains in their ASCII form.
    if not recipient.isascii() or not recipient.isprintable():
        raise Undeliverable("the address is malformed")
    try:
        return Address(addr_spec=recipient).addr_spec
    except MALFORMED:
        # From nothing: what the library says repeats the address.
        raise Undeliverable("the address is malformed") from None


def _folded(name: str, text: str) -> str:
    """A header's text in ASCII, and in lines that are short enough together with its name."""
    return Header(text, None if text.isascii() else "utf-8", header_name=name).encode(linesep="\r\n")


def _part(boundary: str, subtype: str, text: str) -> bytes:
    head = (
        f"--{boundary}\r\n"
        f'Content-Type: text/{subtype}; charset="utf-8"\r\n'
        # Not every server takes eight bits.
        "Content-Transfer-Encoding: quoted-printable\r\n\r\n"
    )
    return head.encode() + b2a_qp(text.replace("\n", "\r\n").encode()) + b"\r\n"
