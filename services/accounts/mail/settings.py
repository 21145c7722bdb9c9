"""What the accounts service is told about mail."""

import ssl
from email.headerregistry import Address
from pathlib import Path
from typing import Self

from pydantic import model_validator

from chassis.settings import Settings
from services.accounts.mail import maildir, smtp
from services.accounts.mail.delivery import Transport
from services.accounts.mail.message import sender_from


class MailSettings(Settings):
    """Where mails go, and from whom they come."""

    # smtps://user:password@host:465, smtp+starttls://user:password@host:587, or maildir:///folder on a machine that has
    # no mail server. What is not a plain letter or digit in a user or password is percent-encoded.
    mail_url: str
    mail_from: str = "Levata <levata@localhost>"
    # Certificate authorities that the mail server is checked against; the system's where none are named.
    mail_ca_file: Path | None = None
    # For connecting and signing in, and again for each mail.
    mail_timeout_seconds: float = 20
    # The first pause after something went wrong; it doubles each time.
    mail_retry_seconds: float = 2

    @model_validator(mode="after")
    def _can_be_used(self) -> Self:
        self.mail_transport()
        self.mail_sender()
        return self

    def mail_sender(self) -> Address:
        """From whom mails come."""
        return sender_from(self.mail_from)

    def mail_transport(self) -> Transport:
        """The way that mails go."""
        if self.mail_url.startswith(f"{maildir.SCHEME}:"):
            return maildir.MaildirTransport(maildir.folder_from(self.mail_url))
        server = smtp.server_from(self.mail_url)
        tls_context = ssl.create_default_context(cafile=self.mail_ca_file)
        return smtp.SmtpTransport(server, self.mail_sender().addr_spec, self.mail_timeout_seconds, tls_context)
