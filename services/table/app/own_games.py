"""The running games in which an account holds a seat: all of them on demand, and each again when that changes."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from rules.values import value
from services.table.app.listing import TELLING, Summary, summary
from services.table.app.ports import GameLog, Store
from services.table.domain import Cancelled, ClockResumed, Commit, Created, Finished, SeatChanged, Table

# Of one account; who has more sees the newest.
OWN_GAMES_MAX: Final = 100
# Games of which the commits are decoded in one go, while everything else waits.
READ_AT_ONCE: Final = 200


@value
class OwnGame:
    """A running game, as who holds a seat of it is told of it."""

    created: Created
    seat: int
    away: bool


class News(NamedTuple):
    """What an account is told of a game."""

    account: str
    game_id: UUID
    # Of the commit that it is from.
    version: int
    # None: it is over, or the account holds no seat of it any more.
    game: OwnGame | None


class Players(Protocol):
    """The way to people who watch what becomes of their games (`rpc/me.py` implements it over NATS)."""

    def tell(self, news: News) -> None:
        """Tell an account. Does not wait; what is lost is asked for later."""
        ...


class NoPlayers:
    """Without NATS nobody is told anything; they ask."""

    def tell(self, news: News) -> None:
        """Nobody hears."""


async def own_games(store: Store, log: GameLog, accounts: Sequence[UUID]) -> list[list[News]]:
    """The running games of each account, in the order asked, at the version of the last commit that changed what is
    told of them."""
    games = await store.games_of(accounts, None, running_only=True, limit=OWN_GAMES_MAX)
    lines = await _lines(log, list({game_id: None for game_ids in games for game_id in game_ids}))
    return [
        [
            News(str(account), game_id, lines[game_id].version, game)
            for game_id in game_ids
            if (game := in_summary(lines[game_id], str(account))) is not None
        ]
        for account, game_ids in zip(accounts, games, strict=True)
    ]


async def _lines(log: GameLog, game_ids: Sequence[UUID]) -> dict[UUID, Summary]:
    """What a list has of each game, as of the last commit that changed it."""
    lines = {}
    for first in range(0, len(game_ids), READ_AT_ONCE):
        telling = await log.read_kinds(game_ids[first : first + READ_AT_ONCE], TELLING)
        for game_id, commits in telling.items():
            lines[game_id] = summary(game_id, commits[-1].version, commits)
    return lines


def news_of(game_id: UUID, before: Table | None, commit: Commit, after: Table) -> Iterator[News]:
    """Who is told what of a commit; of most commits nobody is told anything."""
    accounts: set[str] = set()
    for event in commit.events:
        match event:
            # A new host tells it again: the old one may have died before it did.
            case Created() | Finished() | Cancelled() | ClockResumed():
                accounts.update(occupant.account for occupant in after.occupants)
            case SeatChanged(seat, occupant, _):
                assert before is not None
                accounts.update((before.occupants[seat].account, occupant.account))
            case _:
                pass
    for account in accounts - {""}:
        yield News(account, game_id, commit.version, _at_table(after, account))


def in_summary(line: Summary, account: str) -> OwnGame | None:
    """What an account is told of a game by its line in a list."""
    if line.finished is not None:
        return None
    for seat, seating in enumerate(line.seats):
        if seating.occupant.account == account:
            return OwnGame(line.created, seat, seating.away)
    return None


def _at_table(table: Table, account: str) -> OwnGame | None:
    seat = None if table.over else table.seat_of(account)
    return None if seat is None else OwnGame(table.created, seat, table.away[seat])
