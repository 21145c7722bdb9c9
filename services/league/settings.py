"""What the league is told besides what every service is."""

from pathlib import Path
from zoneinfo import ZoneInfo

from chassis.settings import Settings


class LeagueSettings(Settings):
    """Settings of the league."""

    # What games bring, and who moves: deploy/catalogue.yaml, or the operator's own.
    catalogue_file: Path
    # Days and weeks are of it; the same for all services.
    time_zone: ZoneInfo = ZoneInfo("UTC")
