"""Rounds of quick play: what holds whoever comes, and how alike those are who are seated together."""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from bench.arrivals import Arrivals, distances, first_come
from services.matchmaker.domain.pairing import (
    DEALS_AFTER_US,
    LAST_MOVE_US,
    MOVES_AFTER_US,
    OTHER_ROOMS_US,
    Moved,
    Opened,
    Seated,
    Table,
    Ticket,
    distance_max,
    pair,
)

NOW_US = 1_800_000_000_000_000
CAPACITY = 6


def ticket(number: int, rank: float, *, room: int = 1, waited_us: int = 0) -> Ticket:
    return Ticket(UUID(int=number), UUID(int=1000 + number), room, rank, NOW_US - waited_us)


def table(number: int, rank: float, *, room: int = 1, age_us: int = 0, people: int = 1) -> Table:
    accounts = tuple(UUID(int=10_000 * number + seat) for seat in range(people))
    return Table(UUID(int=number), room, rank, NOW_US - age_us, accounts)


def paired(
    tickets: Sequence[Ticket], tables: Sequence[Table] = (), openings: int = 1000, apart: Sequence[set[UUID]] = ()
) -> list[object]:
    ids = [UUID(int=500_000 + number) for number in range(openings)]
    apart_of: dict[UUID, set[UUID]] = {}
    for together in apart:
        for account in together:
            apart_of.setdefault(account, set()).update(together - {account})
    return list(pair(tickets, tables, capacity=CAPACITY, now_us=NOW_US, new_ids=ids, apart=apart_of))


def test_a_ticket_goes_to_the_nearest_table_of_its_room() -> None:
    near, far, other_room = table(1, 0.50), table(2, 0.58), table(3, 0.52, room=2, age_us=OTHER_ROOMS_US)
    mine = ticket(1, 0.53)
    assert paired([mine], [far, near, other_room]) == [Seated(mine, near.table_id)]


def test_a_ticket_opens_a_table_where_none_is_like_it() -> None:
    mine = ticket(1, 0.5)
    assert paired([mine], [table(1, 0.61)]) == [Opened(mine, UUID(int=500_000))]


def test_who_opens_a_table_has_the_next_one_with_him() -> None:
    first, second = ticket(1, 0.5), ticket(2, 0.55)
    assert paired([first, second]) == [Opened(first, UUID(int=500_000)), Seated(second, UUID(int=500_000))]


def test_tolerance_widens_with_the_waiting_of_either() -> None:
    mine, patient = ticket(1, 0.5), ticket(2, 0.5, waited_us=2_000_000)
    assert isinstance(paired([mine], [table(1, 0.79)])[0], Opened)
    assert paired([mine], [table(1, 0.79, age_us=2_000_000)]) == [Seated(mine, UUID(int=1))]
    assert paired([patient], [table(1, 0.79)]) == [Seated(patient, UUID(int=1))]


def test_other_rooms_open_after_a_second_and_not_before() -> None:
    mine = ticket(1, 0.5)
    assert isinstance(paired([mine], [table(1, 0.5, room=2, age_us=OTHER_ROOMS_US - 1)])[0], Opened)
    assert paired([mine], [table(1, 0.5, room=2, age_us=OTHER_ROOMS_US)]) == [Seated(mine, UUID(int=1))]


def test_accounts_of_one_device_are_kept_apart() -> None:
    one, other = ticket(1, 0.5), ticket(2, 0.5)
    decisions = paired([one, other], apart=[{one.account, other.account}])
    assert [type(decision) for decision in decisions] == [Opened, Opened]
    near = table(1, 0.5)
    assert isinstance(paired([one], [near], apart=[{one.account, near.accounts[0]}])[0], Opened)


def test_no_more_tables_are_opened_than_there_are_ids() -> None:
    tickets = [ticket(number, number / 10) for number in range(10)]
    assert sum(isinstance(decision, Opened) for decision in paired(tickets, openings=2)) == 2
    assert paired(tickets, openings=0) == []


def test_lonely_tables_come_together() -> None:
    younger, older = table(1, 0.3, age_us=MOVES_AFTER_US), table(2, 0.6, age_us=MOVES_AFTER_US + 1)
    assert paired([], [younger, older]) == [Moved(younger.table_id, older.table_id)]


def test_nobody_is_moved_too_early_too_late_too_far_or_to_where_there_is_no_room() -> None:
    aged = table(1, 0.5, age_us=MOVES_AFTER_US)
    dealing_soon = table(2, 0.5, age_us=DEALS_AFTER_US - LAST_MOVE_US + 1)
    crowded = table(3, 0.5, age_us=MOVES_AFTER_US + 1, people=CAPACITY)
    unlike = table(4, 0.95, age_us=MOVES_AFTER_US + 1)
    assert paired([], [table(5, 0.5, age_us=MOVES_AFTER_US - 1), aged]) == []
    assert paired([], [aged, dealing_soon]) == []
    assert paired([], [aged, crowded]) == []
    assert paired([], [aged, unlike]) == []


ranks = st.floats(0, 1)
ages = st.integers(0, DEALS_AFTER_US)


@given(
    tickets=st.lists(st.tuples(ranks, st.integers(1, 12), ages), max_size=15),
    tables=st.lists(st.tuples(ranks, st.integers(1, 12), ages, st.integers(1, CAPACITY)), max_size=8),
    openings=st.integers(0, 10),
    chance=st.randoms(use_true_random=False),
)
def test_every_round_keeps_the_rules(
    tickets: list[tuple[float, int, int]],
    tables: list[tuple[float, int, int, int]],
    openings: int,
    chance: random.Random,
) -> None:
    waiting = [ticket(number, rank, room=room, waited_us=age) for number, (rank, room, age) in enumerate(tickets)]
    waiting.sort(key=lambda each: each.queued_at_us)
    open_tables = [
        table(number + 1, rank, room=room, age_us=age, people=people)
        for number, (rank, room, age, people) in enumerate(tables)
    ]
    by_account = {each.account: each for each in waiting}
    apart = [set(pair_) for pair_ in combinations(by_account, 2) if chance.random() < 0.1]
    known = {each.table_id: each for each in open_tables}
    sitting = {each.table_id: list(each.accounts) for each in open_tables}
    served: set[UUID] = set()
    for decision in paired(waiting, open_tables, openings, apart):
        match decision:
            case Opened(mine, table_id):
                assert table_id not in known
                known[table_id] = Table(table_id, mine.room, mine.rank, NOW_US, (mine.account,))
                sitting[table_id] = [mine.account]
                assert mine.account not in served
                served.add(mine.account)
            case Seated(mine, table_id):
                at = known[table_id]
                waited = NOW_US - mine.queued_at_us
                assert abs(at.rank - mine.rank) <= distance_max(waited, NOW_US - at.opened_at_us)
                assert at.room == mine.room or NOW_US - at.opened_at_us >= OTHER_ROOMS_US
                sitting[table_id].append(mine.account)
                assert mine.account not in served
                served.add(mine.account)
            case Moved(gone, to):
                sitting[to] += sitting.pop(gone)
    everybody = Counter(account for accounts in sitting.values() for account in accounts)
    assert all(count == 1 for count in everybody.values())
    assert all(len(accounts) <= CAPACITY for accounts in sitting.values())
    for accounts in sitting.values():
        assert not any(together <= set(accounts) for together in apart)


def test_those_seated_together_are_at_most_half_as_far_apart_as_first_come_first_served() -> None:
    """Ten arrivals a second, ranks uniform, six seats (the issue's measure of quality)."""
    arrivals = Arrivals(seed=7, a_second=10, seconds=300)
    ours, theirs = fmean(distances(arrivals.played())), fmean(distances(first_come(arrivals, CAPACITY)))
    assert ours <= theirs / 2
    assert arrivals.bots_share() < 0.1
