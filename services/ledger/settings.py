"""What the ledger is told besides what every service is."""

from pathlib import Path
from zoneinfo import ZoneInfo

from pydantic import Field

from chassis.settings import Settings


class LedgerSettings(Settings):
    """Settings of the ledger."""

    # What things cost and bring: deploy/catalogue.yaml, or the operator's own.
    catalogue_file: Path
    # Days, weeks, VIP days and limits a day are of it; the same for all services.
    time_zone: ZoneInfo = ZoneInfo("UTC")
    # How long entries are held before the table service is asked what became of the game.
    old_hold_seconds: float = Field(120.0, gt=0)
