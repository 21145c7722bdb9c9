"""A letter as the bytes that go over the wire.

Headers are made by the standard library's structured classes, which refuse line breaks: nobody can smuggle one in.
"""

from datetime import datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import parseaddr
from uuid import UUID

from services.accounts.mail.delivery import Message, Undeliverable
from services.accounts.mail.letters import Letter


def sender_from(text: str) -> Address:
    """A sender from a setting, as `Levata <levata@example.org>`; ValueError if it is none."""
    name, spec = parseaddr(text)
    try:
        address = Address(name, addr_spec=spec)
    except (MessageError, ValueError, IndexError) as error:
        raise ValueError(f"{text!r} is no mail address") from error
    if not address.username or not address.domain or not spec.isascii():
        raise ValueError(f"{text!r} is no mail address")
    return address


def compose(letter: Letter, sender: Address, recipient: str, mail_id: UUID, at: datetime) -> Message:
    """A letter to one recipient; Undeliverable if that is no address. Sent twice, it has one Message-ID."""
    message = EmailMessage(policy=SMTP)
    try:
        message["To"] = Address(addr_spec=recipient)
        # Accounts keep domains in their ASCII form.
        recipient.encode("ascii")
    except (MessageError, ValueError, IndexError):
        # From nothing: what the library says repeats the address.
        raise Undeliverable("the address is malformed") from None
    message["From"] = sender
    message["Subject"] = letter.subject
    message["Date"] = at
    message["Message-ID"] = f"<{mail_id}@{sender.domain}>"
    # RFC 3834: nobody's absence is to be told to us.
    message["Auto-Submitted"] = "auto-generated"
    # Not every server takes eight bits.
    message.set_content(letter.text, cte="quoted-printable")
    message.add_alternative(letter.html, subtype="html", cte="quoted-printable")
    # Last, or it would be taken for the text's.
    message["Content-Language"] = letter.language
    return Message(recipient, message.as_bytes())
