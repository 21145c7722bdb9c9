"""Finished games, and what each brings to who played it."""

from datetime import date
from enum import Enum
from uuid import UUID

from rules.registry import game as rules_of
from rules.shares import share
from rules.values import value
from services.league.domain.terms import Amounts, Terms


class Mode(Enum):
    """What a game was played as."""

    QUICK_PLAY = "quick_play"
    FRIENDLY = "friendly"
    SOLO = "solo"
    DAILY = "daily"


@value
class Seat:
    """A seat when its game finished; without an account a bot's."""

    place: int
    account_id: UUID | None = None
    guest: bool = False
    total: int = 0
    own_deals: int = 0
    eligible: bool = False
    # Accounts that left it while the game ran.
    left: tuple[UUID, ...] = ()


@value
class FinishedGame:
    """A game that is over."""

    game_id: UUID
    game_type: str
    mode: Mode
    seats: tuple[Seat, ...]
    # The fact that told of it, and its time.
    fact: int
    finished_at_us: int
    # The day of that time.
    finished_on: date
    # Of a daily.
    day: date | None = None


@value
class Result:
    """What a game brought to the account that held a seat at its end."""

    seat: int
    account_id: UUID
    place: int
    xp: int
    # Whether it was a podium, for the streak; None where streaks do not count.
    podium: bool | None
    # In the friendly table of the week.
    friendly_points: int
    # On the leaderboard of the day; None where it has no place there.
    daily_score: int | None


def results(game: FinishedGame, terms: Terms) -> tuple[Result, ...]:
    """What it brought to each account that held a seat at its end."""
    amounts = terms.on(game.finished_on)
    shared_by = sum(_qualifies(seat) for seat in game.seats)
    return tuple(
        Result(
            number,
            seat.account_id,
            seat.place,
            _xp(seat, game.mode, shared_by, amounts),
            is_podium(game, seat, terms) if game.mode is Mode.QUICK_PLAY else None,
            _friendly_points(seat, game, shared_by, amounts),
            _daily_score(number, game),
        )
        for number, seat in enumerate(game.seats)
        if seat.account_id is not None
    )


def leavers(game: FinishedGame) -> tuple[UUID, ...]:
    """Who left a quick-play game, which counts as off the podium."""
    if game.mode is not Mode.QUICK_PLAY:
        return ()
    return tuple(account for seat in game.seats for account in seat.left)


def is_podium(game: FinishedGame, seat: Seat, terms: Terms) -> bool:
    """Whether a place in quick play has a share of the prize, held by who was eligible."""
    if not seat.eligible:
        return False
    rules = rules_of(game.game_type)
    assert rules is not None, f"no such game: {game.game_type}"
    percents = terms.partners if rules.partners else terms.alone[len(game.seats)]
    return share(percents, [each.place for each in game.seats], seat.place) > 0


def _qualifies(seat: Seat) -> bool:
    return seat.account_id is not None and seat.eligible and not seat.guest


def _xp(seat: Seat, mode: Mode, shared_by: int, amounts: Amounts) -> int:
    if not seat.eligible:
        return 0
    xp = amounts.deal_xp * seat.own_deals + _by_place(amounts.place_xp, seat.place)
    is_half = mode is Mode.SOLO or (mode is Mode.FRIENDLY and shared_by < amounts.friendly_people_min)
    return xp // 2 if is_half else xp


def _friendly_points(seat: Seat, game: FinishedGame, shared_by: int, amounts: Amounts) -> int:
    if game.mode is not Mode.FRIENDLY or shared_by < amounts.friendly_people_min or not _qualifies(seat):
        return 0
    return _by_place(amounts.friendly_points[: len(game.seats)], seat.place)


def _daily_score(number: int, game: FinishedGame) -> int | None:
    """The own score; in team games the own side's less the other's."""
    seat = game.seats[number]
    if game.mode is not Mode.DAILY or not _qualifies(seat):
        return None
    rules = rules_of(game.game_type)
    assert rules is not None, f"no such game: {game.game_type}"
    # Partners sit opposite each other, and so the next seat is the other side's.
    return seat.total - (game.seats[(number + 1) % len(game.seats)].total if rules.partners else 0)


def _by_place(some: tuple[int, ...], place: int) -> int:
    return some[place - 1] if 1 <= place <= len(some) else 0
