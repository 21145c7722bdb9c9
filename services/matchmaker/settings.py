"""What the matchmaker is told besides what every service is."""

from pathlib import Path
from zoneinfo import ZoneInfo

from chassis.settings import Settings


class MatchmakerSettings(Settings):
    """Settings of the matchmaker."""

    # The rooms: deploy/catalogue.yaml, or the operator's own.
    catalogue_file: Path
    # VIP days are of it; the same for all services.
    time_zone: ZoneInfo = ZoneInfo("UTC")
    # Who was not heard for so long loses the seat at a friendly table that waits; an owner the role with it.
    friendly_gone_seconds: float = 60
    # A friendly table that is dealt waits so long for answers to its commitment.
    friendly_answers_seconds: float = 1
