"""Leaderboards: who is before whom, in which contest and when."""

from datetime import date
from enum import Enum
from uuid import UUID

from rules.values import value
from services.league.domain.classes import LeagueClass


class Contest(Enum):
    """What a leaderboard is of."""

    # A class's week, by prizes won in quick play.
    LEAGUE = "league"
    # A week at friendly tables.
    FRIENDLY = "friendly"
    # A day's game.
    DAILY = "daily"


@value
class Board:
    """One leaderboard."""

    contest: Contest
    # A Monday, or the day of a daily.
    begins: date
    # The class, or the daily's game type; empty at friendly tables.
    division: str = ""


@value
class Score:
    """What an account has on a board. Who has more is before who has less, then who had it earlier."""

    account_id: UUID
    points: int
    # When the last game that counts had finished.
    reached_at_us: int


def league_board(week: date, league_class: LeagueClass) -> Board:
    """The board of a class's week."""
    return Board(Contest.LEAGUE, week, league_class.label)


def friendly_board(week: date) -> Board:
    """The friendly table of a week."""
    return Board(Contest.FRIENDLY, week)


def daily_board(day: date, game_type: str) -> Board:
    """The leaderboard of a day's game."""
    return Board(Contest.DAILY, day, game_type)


def before(score: Score) -> tuple[int, int, UUID]:
    """By this scores are sorted, the best first."""
    return -score.points, score.reached_at_us, score.account_id
