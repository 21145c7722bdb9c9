"""People who come to quick play one after another, seated by the domain itself: a simulation with a seed."""

import random
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations
from typing import NamedTuple
from uuid import UUID

from services.matchmaker.domain.pairing import DEALS_AFTER_US, Moved, Opened, Seated, Seeker, Table, Ticket, pair

ROUND_US = 100_000
SEATS = 6


class Dealt(NamedTuple):
    """A table when its cards are dealt."""

    tickets: Sequence[Seeker]
    at_us: int


class Arrivals:
    """So many people a second, by a Poisson process, with ranks all alike; each answers the commitment at once."""

    def __init__(self, seed: int, a_second: float, seconds: float, *, rooms: int = 1) -> None:
        chance = random.Random(seed)
        self.tickets: list[Ticket] = []
        at_us = 0.0
        while (at_us := at_us + chance.expovariate(a_second) * 1_000_000) < seconds * 1_000_000:
            number = UUID(int=len(self.tickets))
            self.tickets.append(Ticket(number, number, chance.randint(1, rooms), chance.random(), int(at_us)))

    def played(self) -> list[Sequence[Seeker]]:
        """Who played with whom."""
        return [dealt.tickets for dealt in self.dealt]

    def bots_share(self) -> float:
        """How many of all seats bots had."""
        return 1 - sum(len(dealt.tickets) for dealt in self.dealt) / (SEATS * len(self.dealt))

    def waits(self) -> list[float]:
        """Seconds from the wish to the deal, in order."""
        return sorted(
            (dealt.at_us - ticket.queued_at_us) / 1_000_000 for dealt in self.dealt for ticket in dealt.tickets
        )

    @cached_property
    def dealt(self) -> list[Dealt]:
        """Every table, until the last one has been dealt."""
        return list(self._deal())

    def _deal(self) -> Iterator[Dealt]:
        coming = list(reversed(self.tickets))
        tables: dict[UUID, Table] = {}
        seated: dict[UUID, list[Seeker]] = {}
        now_us = opened = 0
        while coming or tables:
            now_us += ROUND_US
            arrived = []
            while coming and coming[-1].queued_at_us <= now_us:
                arrived.append(coming.pop())
            ids = [UUID(int=opened + number) for number in range(len(arrived))]
            opened += len(arrived)
            for decision in pair(arrived, list(tables.values()), capacity=SEATS, now_us=now_us, new_ids=ids, apart={}):
                match decision:
                    case Opened(ticket, table_id):
                        tables[table_id] = Table(table_id, ticket.room, ticket.rank, now_us, (ticket.account,))
                        seated[table_id] = [ticket]
                    case Seated(ticket, table_id):
                        seated[table_id].append(ticket)
                    case Moved(table_id, to):
                        seated[to] += seated.pop(table_id)
                        del tables[table_id]
            for table_id, table in list(tables.items()):
                people = seated[table_id]
                tables[table_id] = Table(
                    table_id, table.room, table.rank, table.opened_at_us, tuple(each.account for each in people)
                )
                if len(people) == SEATS or now_us >= table.opened_at_us + DEALS_AFTER_US:
                    del tables[table_id]
                    yield Dealt(seated.pop(table_id), now_us)


def first_come(arrivals: Arrivals, seats: int) -> list[Sequence[Seeker]]:
    """The same people, seated as they came."""
    return [arrivals.tickets[start : start + seats] for start in range(0, len(arrivals.tickets), seats)]


def distances(tables: Sequence[Sequence[Seeker]]) -> list[float]:
    """How far apart in rank each two people are who sit at one table."""
    return [abs(one.rank - other.rank) for tickets in tables for one, other in combinations(tickets, 2)]
