"""Where accounts stand: ranks, leaderboards, and the facts behind each number."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, date, tzinfo
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from grpc import StatusCode

from chassis.errors import Refused
from rules.calendar import day_of, week_of
from services.league.domain.boards import Board, Contest, daily_board, friendly_board, league_board
from services.league.domain.classes import LeagueClass, standing
from services.league.domain.progress import Progress, Streak, xp_of
from services.league.domain.terms import Terms

TOP_MAX: Final = 100
NEIGHBOURS_MAX: Final = 20
WEEKS_MAX: Final = 20
CAUSES_MAX: Final = 100

# Told of accounts for whom something has changed, after the commit.
Moved: TypeAlias = Callable[[Collection[UUID]], None]


def nobody_is_told(accounts: Collection[UUID]) -> None:
    """For who has no clients."""


class Placed(NamedTuple):
    """A line of a leaderboard."""

    place: int
    # None of an account that is no more: its line stays, for everybody has the place that is rewarded.
    account_id: UUID | None
    points: int
    reached_at_us: int


class Around(NamedTuple):
    """A part of a leaderboard, of one moment."""

    lines: Sequence[Placed]
    players: int
    closed: bool


class Reached(NamedTuple):
    """What an account has reached; without a place it has won no prize in the week."""

    account_id: UUID
    progress: Progress
    league_class: LeagueClass
    placed: Placed | None
    # Who counts in the class in the week.
    players: int
    # Of the moment: a later one's is higher.
    number: int


class Rank(NamedTuple):
    """Where an account stands in a week."""

    account_id: UUID
    week: date
    xp: int
    level: int
    # What this level and the next one need in all.
    level_xp: int
    next_level_xp: int
    league_class: LeagueClass
    streak: Streak
    place: int
    points: int
    # Among all players: from 0, the best, to 1, a beginner.
    standing: float
    # Of the moment: a later one's is higher.
    number: int


class OwnWeek(NamedTuple):
    """An account's part in a week of the league."""

    week: date
    league_class: LeagueClass
    place: int
    points: int
    players: int
    closed: bool


class Cause(NamedTuple):
    """A game, and what it adds to a number."""

    game_id: UUID
    fact: int
    finished_at_us: int
    amount: int
    taken_back: bool = False
    podium: bool = False


class Explained(NamedTuple):
    """The facts behind a number, a page of them."""

    total: int
    causes: Sequence[Cause]
    more: bool


class Xp(NamedTuple):
    """The number that is explained: all XP."""


class StreakOf(NamedTuple):
    """The number that is explained: the streak."""


Number: TypeAlias = Xp | StreakOf | Board


class Standings(Protocol):
    """What the live build has. Refused while the database is away."""

    async def now_us(self) -> int:
        """The database's time, by which weeks are closed."""
        ...

    async def reached(self, accounts: Sequence[UUID], week: date) -> list[Reached]:
        """Of each account, in the order asked."""
        ...

    async def is_deleted(self, account: UUID) -> bool:
        """Whether an account is no more, as far as is known here."""
        ...

    async def class_of(self, account: UUID) -> LeagueClass:
        """An account's class."""
        ...

    async def around(self, board: Board, account: UUID, neighbours: int) -> Around:
        """An account's line and its neighbours'; no line for who does not count."""
        ...

    async def top(self, board: Board, limit: int) -> Around:
        """The first lines."""
        ...

    async def weeks(self, account: UUID, before: date, limit: int) -> list[OwnWeek]:
        """Weeks of the league in which an account counted, the latest first."""
        ...

    async def causes(self, account: UUID, number: Number, before_fact: int, limit: int) -> Explained:
        """What a number is made of, the latest first."""
        ...


class League:
    """Answers where accounts stand now."""

    def __init__(self, standings: Standings, terms: Terms, zone: tzinfo) -> None:
        self._standings = standings
        self._terms = terms
        self._zone = zone

    async def week(self) -> date:
        """The week that runs."""
        return week_of(day_of(await self._standings.now_us(), self._zone))

    async def ranks(self, accounts: Collection[UUID]) -> list[Rank]:
        """Of each account, in the order asked."""
        week = await self.week()
        return [self._rank(week, reached) for reached in await self._standings.reached(list(accounts), week)]

    async def refuse_deleted(self, account: UUID) -> None:
        """Refused with ACCOUNT_NOT_FOUND if an account is no more. Who never played is nobody that the league knows."""
        if await self._standings.is_deleted(account):
            raise Refused("ACCOUNT_NOT_FOUND", StatusCode.NOT_FOUND, "There is no such account.")

    async def board(
        self, contest: Contest, account: UUID, begins: date | None, league_class: LeagueClass | None, game_type: str
    ) -> Board:
        """The leaderboard that is meant: what is left out is the caller's and of now."""
        match contest:
            case Contest.LEAGUE:
                # Of an earlier week too: there is one of each class, and one's own is that of now.
                own = await self._standings.class_of(account) if league_class is None else league_class
                return league_board(begins or await self.week(), own)
            case Contest.FRIENDLY:
                return friendly_board(begins or await self.week())
            case Contest.DAILY:
                return daily_board(begins or day_of(await self._standings.now_us(), UTC), game_type)

    async def around(self, board: Board, account: UUID, neighbours: int) -> Around:
        """An account's line and its neighbours'."""
        return await self._standings.around(board, account, neighbours)

    async def top(self, board: Board, limit: int) -> Around:
        """The first lines."""
        return await self._standings.top(board, limit or TOP_MAX)

    async def weeks(self, account: UUID, before: date | None) -> list[OwnWeek]:
        """An account's weeks of the league."""
        return await self._standings.weeks(account, before or date.max, WEEKS_MAX)

    async def explain(self, account: UUID, number: Number, before_fact: int) -> Explained:
        """The facts behind a number of an account."""
        return await self._standings.causes(account, number, before_fact or 2**63 - 1, CAUSES_MAX)

    def _rank(self, week: date, reached: Reached) -> Rank:
        account, progress, league_class, placed, players, number = reached
        level = progress.level(self._terms)
        place = placed.place if placed else 0
        return Rank(
            account,
            week,
            progress.xp,
            level,
            xp_of(level, self._terms),
            xp_of(level + 1, self._terms),
            league_class,
            progress.streak,
            place,
            placed.points if placed else 0,
            standing(league_class, place, players, progress.xp, self._terms),
            number,
        )
