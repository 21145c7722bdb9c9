"""What a former remembers and tells: pictures of a pool, each player told once a round, batches of questions."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.matchmaker.app.batches import Batches
from services.matchmaker.app.forming import compare_after_seconds
from services.matchmaker.app.marks import BUCKETS, Marks, MarksFound
from services.matchmaker.app.picture import Picture
from services.matchmaker.app.ports import Standing
from services.matchmaker.app.telling import AHEAD_TOLD_MAX, AHEAD_US, LATER_US, Telling
from services.matchmaker.domain.quick_play import POOLS, QuickTicket, State

TABLE, OTHER_TABLE = UUID(int=1000), UUID(int=1001)


def ticket(number: int, state: State = State.WAITING, table_id: UUID | None = None, mark: int = 0) -> QuickTicket:
    """Somebody's ticket; who has a higher number came later."""
    account = UUID(int=number)
    return QuickTicket(
        account, account, False, POOLS[0], 1, "", 0.5, (), number, state, table_id, number, mark=mark or number
    )


def picture(*tickets: QuickTicket) -> Picture:
    made = Picture()
    for each in tickets:
        made.put(each)
    return made


# Pictures


@pytest.mark.parametrize(("took", "after"), [(0.001, 2.0), (0.04, 2.0), (0.08, 4.0), (0.1, 5.0), (3.0, 5.0)])
def test_a_slow_comparison_is_followed_by_another_one_soon_enough(took: float, after: float) -> None:
    """One that took long, perhaps only once, would else leave what got lost on the way lost for minutes."""
    assert compare_after_seconds(took) == after


def test_a_ticket_is_in_one_place_only() -> None:
    one, other = ticket(1), ticket(2)
    seen = picture(other, one)
    assert seen.waiting() == [one, other]
    seated = replace(one, state=State.SEATED, table_id=TABLE)
    seen.put(seated)
    assert (seen.waiting(), seen.seated(TABLE)) == ([other], [seated])
    moved = replace(seated, table_id=OTHER_TABLE)
    seen.put(moved)
    assert (seen.seated(TABLE), seen.seated(OTHER_TABLE)) == ([], [moved])
    assert seen.neighbours(one.account) == {one.account}
    assert seen.drop(one.account) == moved
    assert (seen.seated(OTHER_TABLE), seen.standing(one.account)) == ([], Standing())


def test_a_comparison_finds_who_came_who_left_and_who_changed() -> None:
    seen = picture(ticket(1), ticket(2), ticket(3), ticket(4))
    found = MarksFound({1, 2, 3, 5}, {UUID(int=1): 1, UUID(int=2): 20, UUID(int=5): 5})
    # What is in other buckets was the same.
    assert seen.marks.differing(found) == {UUID(int=2), UUID(int=3), UUID(int=5)}
    seen.drop(UUID(int=3))
    seen.put(ticket(2, mark=20))
    seen.put(ticket(5))
    assert seen.marks.differing(found) == set()


@given(st.lists(st.tuples(st.integers(0, 600), st.none() | st.integers(-(2**63), 2**63 - 1)), max_size=60))
def test_sums_are_those_of_the_marks_that_are_there(changes: list[tuple[int, int | None]]) -> None:
    marks = Marks()
    there: dict[UUID, int] = {}
    for number, mark in changes:
        account = UUID(int=number)
        if mark is None:
            marks.drop(account)
            there.pop(account, None)
        else:
            marks.put(account, mark)
            there[account] = mark
    sums = [0] * BUCKETS
    for account, mark in there.items():
        sums[account.int % BUCKETS] ^= mark
    assert list(marks.sums) == sums
    assert marks.differing(MarksFound(range(BUCKETS), there)) == set()


# Telling


class Told:
    """Implements `app.ports.Players`."""

    def __init__(self) -> None:
        self.states: list[tuple[int, State | None]] = []
        self.positions: list[int] = []
        self.numbers: list[int] = []

    def tell(self, account: UUID, standing: Standing, ahead: int | None, number: int) -> None:
        self.numbers.append(number)
        if ahead is None:
            self.states.append((account.int, None if standing.ticket is None else standing.ticket.state))
        else:
            self.positions.append(ahead)


class Clock:
    now_us = 1_000_000_000


def test_each_is_told_once_what_there_is_to_tell_then() -> None:
    told, clock = Told(), Clock()
    telling = Telling(told, lambda: clock.now_us)
    seen = picture(ticket(1, State.SEATED, TABLE))
    telling.soon([UUID(int=1)])
    telling.soon([UUID(int=1)])
    seen.put(ticket(1, State.DEALING, TABLE))
    telling.tell(seen)
    assert told.states == [(1, State.DEALING)]
    telling.tell(seen)
    assert len(told.states) == 1


def test_what_is_told_later_is_told_only_if_nothing_overtakes_it() -> None:
    told, clock = Told(), Clock()
    telling = Telling(told, lambda: clock.now_us)
    seen = picture(*(ticket(number, State.SEATED, TABLE) for number in (1, 2, 3)))
    telling.later(seen.tickets)
    telling.soon([UUID(int=1)])
    telling.forget([UUID(int=2)])
    telling.tell(seen)
    assert told.states == [(1, State.SEATED)]
    clock.now_us += LATER_US - 1
    # Asked for again, it is not put off.
    telling.later([UUID(int=3)])
    telling.tell(seen)
    clock.now_us += 1
    telling.tell(seen)
    assert told.states == [(1, State.SEATED), (3, State.SEATED)]


def test_numbers_grow_whatever_the_clock_does() -> None:
    told, clock = Told(), Clock()
    telling = Telling(told, lambda: clock.now_us)
    for step in (0, 0, -500_000, 7):
        clock.now_us += step
        telling.say(UUID(int=1), Standing())
    assert told.numbers == sorted(set(told.numbers))


def test_those_who_wait_are_told_their_positions_some_at_a_time() -> None:
    told, clock = Told(), Clock()
    telling = Telling(told, lambda: clock.now_us)
    seen = picture(*(ticket(number) for number in range(1, AHEAD_TOLD_MAX + 11)))
    for _ in range(3):
        telling.tell(seen)
        telling.tell(seen)
        clock.now_us += AHEAD_US
    everybody = list(range(AHEAD_TOLD_MAX + 10))
    assert told.positions == everybody + everybody[:AHEAD_TOLD_MAX]


# Batches


async def test_questions_that_come_meanwhile_go_together_and_each_gets_its_own_answer() -> None:
    asked: list[Sequence[int]] = []

    async def double(numbers: Sequence[int]) -> Sequence[int | Exception]:
        asked.append(numbers)
        await asyncio.sleep(0)
        return [ValueError(number) if number == 3 else 2 * number for number in numbers]

    batches = Batches("double", double, at_once_max=2)
    first = asyncio.create_task(batches.ask(1))
    while not asked:
        await asyncio.sleep(0)
    answers = await asyncio.gather(*map(batches.ask, (2, 3, 4)), return_exceptions=True)
    assert await first == 2
    assert (answers[0], answers[2]) == (4, 8)
    assert isinstance(answers[1], ValueError)
    assert asked == [[1], [2, 3], [4]]
    await batches.stop()


async def test_a_call_that_fails_fails_for_all_who_asked() -> None:
    async def fail(numbers: Sequence[int]) -> Sequence[int]:
        raise OSError(str(numbers))

    batches = Batches("fail", fail)
    for answer in await asyncio.gather(batches.ask(1), batches.ask(2), return_exceptions=True):
        assert isinstance(answer, OSError)
    with pytest.raises(OSError, match="3"):
        await batches.ask(3)
    await batches.stop()


async def test_too_few_answers_are_an_error_of_the_call_and_leave_nobody_waiting() -> None:
    async def forget(numbers: Sequence[int]) -> Sequence[int]:
        return numbers[1:]

    batches = Batches("forget", forget)
    async with asyncio.timeout(10):
        with pytest.raises(ValueError, match="shorter"):
            await batches.ask(1)
    await batches.stop()


async def test_so_many_calls_are_under_way_at_once_and_who_stops_leaves_nobody_waiting() -> None:
    under_way: list[Sequence[int]] = []

    async def never(numbers: Sequence[int]) -> Sequence[int]:
        under_way.append(numbers)
        await asyncio.Event().wait()
        return numbers

    batches = Batches("never", never, calls_max=2)
    asking = []
    for number in range(4):
        asking.append(asyncio.create_task(batches.ask(number)))
        await asyncio.sleep(0.01)
    assert under_way == [[0], [1]]
    await batches.stop()
    async with asyncio.timeout(10):
        await asyncio.wait(asking)
    assert all(task.cancelled() for task in asking)
