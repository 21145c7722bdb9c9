"""What the league is told besides what every service is."""

from zoneinfo import ZoneInfo

from chassis.settings import Settings


class LeagueSettings(Settings):
    """Settings of the league."""

    # Days and weeks are of it; the same for all services.
    time_zone: ZoneInfo = ZoneInfo("UTC")
