"""Who is seated with whom in quick play: players of like rank first, with a tolerance that widens as time goes by.

Each round takes the tickets without a table in the order of their waiting. A ticket goes to the nearest open table that
has it, of its own room first, and opens one where there is none; tables that would begin with many bots then move to
others of like rank. It knows no clock, no store and no network: what a round decides is a wish until the database has
taken it.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

from rules.values import value

# Ranks are shares of all players, from 0, the best, to 1: so much apart from who opened the table may one be at first,
# and so much more with each second that either has waited.
TOLERANCE: Final = 0.1
TOLERANCE_A_SECOND: Final = 0.1
# A table is open to players from other rooms after so long, and deals by itself after so long.
OTHER_ROOMS_US: Final = 1_000_000
DEALS_AFTER_US: Final = 10_000_000
# A full table waits so long for answers to its commitment.
ANSWERS_US: Final = 1_000_000
# A table that could not fill for so long may move to another one, if that one leaves its people the time to see where
# they are and to answer the commitment.
MOVES_AFTER_US: Final = 3_000_000
LAST_MOVE_US: Final = 2_000_000

# Accounts that may not sit at one table: each with those that it is kept apart from.
Apart = Mapping[UUID, Collection[UUID]]


class Seeker(Protocol):
    """Somebody who looks for a table."""

    @property
    def ticket_id(self) -> UUID: ...

    @property
    def account(self) -> UUID: ...

    @property
    def room(self) -> int: ...

    @property
    def rank(self) -> float: ...

    @property
    def queued_at_us(self) -> int: ...


@value
class Ticket:
    """As little of somebody as has to be known to find a table."""

    ticket_id: UUID
    account: UUID
    room: int
    rank: float
    queued_at_us: int


@value
class Table:
    """A table that has seats left."""

    table_id: UUID
    # Those of who opened it.
    room: int
    rank: float
    opened_at_us: int
    # Who sits there; never empty.
    accounts: tuple[UUID, ...]


@value
class Seated:
    """A ticket gets a seat at a table."""

    ticket: Seeker
    table_id: UUID


@value
class Opened:
    """A ticket opens a table."""

    ticket: Seeker
    table_id: UUID


@value
class Moved:
    """All of a table move to another one; the one that they leave is no more."""

    table_id: UUID
    to: UUID


Decision = Seated | Opened | Moved


def pair(
    tickets: Sequence[Seeker],
    tables: Sequence[Table],
    *,
    capacity: int,
    now_us: int,
    new_ids: Iterable[UUID],
    apart: Apart,
) -> list[Decision]:
    """The decisions of one round, in an order in which they can be carried out.

    `tickets` have no table, the longest waiting first. Each table that is opened takes one of `new_ids`: no more are
    opened than there are, so that those who make games of them are not swamped.
    """
    floor = _Floor(tables, capacity, now_us, apart)
    ids = iter(new_ids)
    spare = next(ids, None)
    decisions: list[Decision] = []
    for ticket in tickets:
        if floor.is_full and spare is None:
            break
        place = floor.nearest(ticket)
        if place is not None:
            floor.seat(ticket, place)
            decisions.append(Seated(ticket, place.table_id))
        elif spare is not None:
            floor.open(ticket, spare)
            decisions.append(Opened(ticket, spare))
            spare = next(ids, None)
    decisions += floor.moves()
    return decisions


def distance_max(*waited_us: int) -> float:
    """How far apart in rank people may be seated, when the longest of them has waited for so long."""
    return TOLERANCE + TOLERANCE_A_SECOND * max(waited_us) / 1_000_000


class _Place:
    """A table while a round fills it."""

    __slots__ = ("accounts", "opened_at_us", "rank", "room", "table_id")

    def __init__(self, table: Table) -> None:
        self.table_id = table.table_id
        self.room = table.room
        self.rank = table.rank
        self.opened_at_us = table.opened_at_us
        self.accounts = list(table.accounts)


class _Row:
    """Places in the order of rank."""

    __slots__ = ("places", "ranks")

    def __init__(self) -> None:
        self.ranks: list[float] = []
        self.places: list[_Place] = []

    def add(self, place: _Place) -> None:
        at = bisect_left(self.ranks, place.rank)
        self.ranks.insert(at, place.rank)
        self.places.insert(at, place)

    def remove(self, place: _Place) -> None:
        at = bisect_left(self.ranks, place.rank)
        while self.places[at] is not place:
            at += 1
        del self.ranks[at], self.places[at]

    def outward(self, rank: float) -> Iterator[_Place]:
        """All places, the nearest to `rank` first."""
        ranks, places = self.ranks, self.places
        right = bisect_left(ranks, rank)
        left = right - 1
        while left >= 0 or right < len(ranks):
            if right == len(ranks) or (left >= 0 and rank - ranks[left] <= ranks[right] - rank):
                yield places[left]
                left -= 1
            else:
                yield places[right]
                right += 1


class _Floor:
    """The open tables of one round, as it fills them."""

    def __init__(self, tables: Sequence[Table], capacity: int, now_us: int, apart: Apart) -> None:
        self._capacity = capacity
        self._now_us = now_us
        self._apart = apart
        self._rooms: dict[int, _Row] = {}
        # Places that are open to players from other rooms.
        self._open_to_all = _Row()
        self._oldest_us = min((table.opened_at_us for table in tables), default=now_us)
        self._places_count = 0
        for table in tables:
            if len(table.accounts) < capacity:
                self._add(_Place(table))

    @property
    def is_full(self) -> bool:
        """Whether no table has a seat left."""
        return not self._places_count

    def nearest(self, ticket: Seeker) -> _Place | None:
        """Where a ticket is seated best, in its own room if it can be."""
        own = self._rooms.get(ticket.room)
        return (own and self._nearest_in(own, ticket)) or self._nearest_in(self._open_to_all, ticket)

    def seat(self, ticket: Seeker, place: _Place) -> None:
        """Give a ticket a seat."""
        place.accounts.append(ticket.account)
        if len(place.accounts) == self._capacity:
            self._remove(place)

    def open(self, ticket: Seeker, table_id: UUID) -> None:
        """A new table with one seat taken."""
        self._add(_Place(Table(table_id, ticket.room, ticket.rank, self._now_us, (ticket.account,))))

    def moves(self) -> list[Moved]:
        """Tables that could not fill move to older ones of like rank; one move a table and round."""
        aged = [place for place in self._open_to_all.places if self._age_us(place) >= MOVES_AFTER_US]
        # The youngest first: the others' people have been told longer where they sit.
        aged.sort(key=lambda place: -place.opened_at_us)
        settled: set[UUID] = set()
        moves = []
        for place in aged:
            target = None if place.table_id in settled else self._target(place, settled)
            if target is not None:
                settled |= {place.table_id, target.table_id}
                moves.append(Moved(place.table_id, target.table_id))
        return moves

    def _target(self, place: _Place, settled: Collection[UUID]) -> _Place | None:
        for other in self._open_to_all.outward(place.rank):
            age = self._age_us(other)
            if abs(other.rank - place.rank) > distance_max(self._now_us - self._oldest_us):
                return None
            if (
                other is not place
                and other.table_id not in settled
                and other.opened_at_us <= place.opened_at_us
                and age <= DEALS_AFTER_US - LAST_MOVE_US
                and len(other.accounts) + len(place.accounts) <= self._capacity
                and abs(other.rank - place.rank) <= distance_max(age)
                and not any(self._is_kept_apart(account, other) for account in place.accounts)
            ):
                return other
        return None

    def _nearest_in(self, row: _Row, ticket: Seeker) -> _Place | None:
        waited_us = self._now_us - ticket.queued_at_us
        # Nobody is taken from farther away than the oldest table would.
        farthest = distance_max(waited_us, self._now_us - self._oldest_us)
        for place in row.outward(ticket.rank):
            distance = abs(place.rank - ticket.rank)
            if distance > farthest:
                return None
            if distance <= distance_max(waited_us, self._age_us(place)) and not self._is_kept_apart(
                ticket.account, place
            ):
                return place
        return None

    def _is_kept_apart(self, account: UUID, place: _Place) -> bool:
        others = self._apart.get(account)
        return others is not None and any(seated in others for seated in place.accounts)

    def _age_us(self, place: _Place) -> int:
        return self._now_us - place.opened_at_us

    def _add(self, place: _Place) -> None:
        self._places_count += 1
        self._rooms.setdefault(place.room, _Row()).add(place)
        if self._age_us(place) >= OTHER_ROOMS_US:
            self._open_to_all.add(place)

    def _remove(self, place: _Place) -> None:
        self._places_count -= 1
        self._rooms[place.room].remove(place)
        if self._age_us(place) >= OTHER_ROOMS_US:
            self._open_to_all.remove(place)
