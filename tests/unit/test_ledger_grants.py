"""The welcome, Monday's coffees and the week's rewards."""

from datetime import date
from uuid import UUID

from services.ledger.domain.grants import ClosedClass, monday_entries, weekly_entries, welcome_entry
from services.ledger.domain.journal import COFFEES, Entry
from tests.ledger import CATALOGUE, COIN, GOLD

ALICE, BOB, CAROL, DAVE = (UUID(int=number, version=4) for number in (1, 2, 3, 4))
WEEK = date(2026, 11, 9)
WEEKLY = CATALOGUE.weekly


def given(entry: Entry) -> list[tuple[UUID, str, int]]:
    return [(t.credit, t.currency.value, t.amount) for t in entry.transfers]


def test_the_welcome() -> None:
    entry = welcome_entry(ALICE, CATALOGUE.welcome)
    assert given(entry) == [(ALICE, "coin", 1_000), *((ALICE, coffee.value, 10) for coffee in COFFEES)]


def test_two_of_each_coffee_for_each_monday_also_for_who_was_away() -> None:
    entries = monday_entries(ALICE, date(2026, 11, 1), date(2026, 11, 22), CATALOGUE.monday)
    assert [entry.key for entry in entries] == [f"monday:2026-11-{day:02}:{ALICE}" for day in (2, 9, 16)]
    assert [entry.cause.id for entry in entries] == ["2026-11-02", "2026-11-09", "2026-11-16"]
    for entry in entries:
        assert given(entry) == [(ALICE, coffee.value, 2) for coffee in COFFEES]


def test_the_first_three_of_each_class_get_the_classs_times_as_much() -> None:
    classes = [ClosedClass("jack", 9, (ALICE, BOB, CAROL)), ClosedClass("ace", 1, (DAVE,))]
    entries = weekly_entries(WEEK, classes, (), CATALOGUE.weekly)
    assert [given(entry) for entry in entries] == [
        [(ALICE, "coin", 100_000), (ALICE, "gold", 50)],
        [(BOB, "coin", 80_000), (BOB, "gold", 30)],
        [(CAROL, "coin", 60_000), (CAROL, "gold", 10)],
        [(DAVE, "coin", 1_200_000), (DAVE, "gold", 600)],
    ]
    assert {entry.key for entry in entries} == {f"weekly:2026-11-09:{who}" for who in (ALICE, BOB, CAROL, DAVE)}


def test_king_and_queen() -> None:
    entries = weekly_entries(WEEK, [ClosedClass("king", 1, (ALICE,)), ClosedClass("queen", 1, (BOB,))], (), WEEKLY)
    assert [given(entry)[0][2] for entry in entries] == [400_000, 200_000]


def test_a_reward_of_an_account_that_is_gone_lapses_and_nobody_moves_up() -> None:
    entries = weekly_entries(WEEK, [ClosedClass("jack", 3, (ALICE, BOB, CAROL))], {ALICE}, WEEKLY)
    assert [given(entry)[0] for entry in entries] == [(BOB, COIN.value, 80_000), (CAROL, COIN.value, 60_000)]


def test_a_class_in_which_too_few_counted_gets_nothing() -> None:
    assert weekly_entries(WEEK, [ClosedClass("jack", 0, (ALICE,))], (), WEEKLY) == []


def test_no_more_than_three_however_many_are_named() -> None:
    entries = weekly_entries(WEEK, [ClosedClass("jack", 4, (ALICE, BOB, CAROL, DAVE))], (), WEEKLY)
    assert [entry.transfers[1].amount for entry in entries if entry.transfers[1].currency is GOLD] == [50, 30, 10]
