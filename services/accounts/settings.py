"""What the accounts service is told."""

from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field

from services.accounts.app.signing_in import CodePolicy
from services.accounts.domain.secret import Secret
from services.accounts.mail.settings import MailSettings

Positive = Annotated[int, Field(gt=0)]


class AccountsSettings(MailSettings):
    """Keys, lifetimes and limits."""

    # The private key that tokens are signed with; no other service has it.
    signing_key_file: Path
    # The secret that codes and refresh tokens are made with, at least 32 bytes; the same for all replicas.
    secret_file: Path
    # From the last refresh on.
    refresh_token_seconds: Positive = 30 * 86_400
    code_seconds: Positive = 10 * 60
    code_attempts: Positive = 5
    # Sent within any hour to one address, and for one peer.
    codes_per_address: Positive = 5
    codes_per_peer: Positive = 30
    # Days follow it; the same for all services.
    time_zone: ZoneInfo = ZoneInfo("UTC")

    def secret(self) -> Secret:
        """The service's secret."""
        return Secret(self.secret_file.read_bytes().strip())

    def code_policy(self) -> CodePolicy:
        """How codes are given out."""
        return CodePolicy(self.code_seconds, self.code_attempts, self.codes_per_address, self.codes_per_peer)
