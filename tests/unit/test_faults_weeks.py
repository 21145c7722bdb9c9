"""The checker of weeks finds nothing in a sound week, and each breach that is made in one."""

import dataclasses
import json
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest
from levata.league.v1 import facts_pb2, operations_pb2
from levata.ledger.v1 import facts_pb2 as ledger_facts_pb2

from tools.faults import weeks
from tools.faults.evidence import (
    Evidence,
    Fact,
    League,
    Ledger,
    Marks,
    Matches,
    Placing,
    Reward,
    WeekClose,
    Weeks,
    is_gift,
)
from tools.faults.history import History

MONDAY, SECOND = date(2026, 11, 9), date(2026, 11, 16)
ALICE, BOB, CAROL, DAVE = (str(UUID(int=number, version=4)) for number in (1, 2, 3, 4))


def prize(number: int, account: str, coins: int, week: date = MONDAY, at_us: int = 1, *, guest: bool = False) -> Fact:
    paid = ledger_facts_pb2.PrizePaidFact(coins=coins, week=week.isoformat(), finished_at_us=at_us, guest=guest)
    return Fact(number, "", ledger_facts_pb2.LedgerFact(account_id=account, prize_paid=paid).SerializeToString(), 0)


def closed(week: date, ledger_fact: int, counted: int, podium: list[str]) -> bytes:
    fact = facts_pb2.LeagueFact(week=week.isoformat())
    fact.week_closed.games_fact, fact.week_closed.ledger_fact = 9, ledger_fact
    for name in ("jack", "queen", "king", "ace"):
        own = name == "jack"
        fact.week_closed.classes.add(name=name, counted=counted if own else 0, podium_account_ids=podium if own else [])
    return fact.SerializeToString()


# Five prizes, one of a guest, when the first week was closed; one of its week came too late, and one is of the second.
SOUND = Weeks(
    ended=MONDAY,
    closes=(WeekClose(MONDAY, 9, 6, frozenset({4})),),
    told=(closed(MONDAY, 6, 4, [BOB, CAROL, ALICE]),),
    ledger_facts=(
        prize(1, ALICE, 300),
        prize(2, BOB, 500, at_us=1),
        prize(3, CAROL, 500, at_us=2),
        # Parked when the week was closed.
        prize(4, DAVE, 9_000),
        prize(5, DAVE, 200),
        prize(6, DAVE, 9_000, guest=True),
        prize(7, ALICE, 70),
        prize(8, DAVE, 50, SECOND),
    ),
    placings=frozenset(
        {
            *(Placing(MONDAY, "jack", account, points) for account, points in ((BOB, 500), (CAROL, 500), (ALICE, 300))),
            Placing(MONDAY, "jack", DAVE, 200),
            Placing(SECOND, "queen", ALICE, 70),
            Placing(SECOND, "jack", DAVE, 9_050),
        }
    ),
    rewards=tuple(
        Reward(MONDAY, account, currency, amount)
        for account, coins, gold in ((BOB, 100_000, 50), (CAROL, 80_000, 30), (ALICE, 60_000, 10))
        for currency, amount in (("coin", coins), ("gold", gold))
    ),
    rebuilt=(),
)


def findings(**changes: Any) -> set[str]:
    """The checks that find something when this is otherwise."""
    of = dataclasses.replace(SOUND, **changes)
    league, ledger = League(0, frozenset(), frozenset(), ()), Ledger(0, (), (), frozenset(), (), (), (), {}, (), ())
    evidence = Evidence(History(), [], {}, Marks({}), league, ledger, Matches(0, (), {}, ()), of, {}, {}, 1)
    checks: list[Callable[[Evidence], Any]] = [
        weeks.weeks_are_closed_once,
        weeks.standings_follow_from_the_ledger,
        weeks.rewards_are_paid_once,
    ]
    return {check.__name__ for check in checks if list(check(evidence))}


def test_a_sound_week() -> None:
    assert findings() == set()


CLOSED, STANDINGS, REWARDS = "weeks_are_closed_once", "standings_follow_from_the_ledger", "rewards_are_paid_once"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ended": SECOND}, {CLOSED}),
        ({"told": ()}, {CLOSED}),
        ({"told": SOUND.told * 2}, {CLOSED}),
        ({"told": (closed(MONDAY, 7, 4, [BOB, CAROL, ALICE]),)}, {CLOSED}),
        ({"told": (closed(MONDAY, 6, 4, [CAROL, BOB, ALICE]),)}, {CLOSED}),
        ({"told": (closed(MONDAY, 6, 3, [BOB, CAROL, ALICE]),)}, {CLOSED}),
        # A week between two was left out.
        (
            {
                "closes": (*SOUND.closes, WeekClose(SECOND + timedelta(days=7), 9, 8, frozenset())),
                "told": (*SOUND.told, closed(SECOND + timedelta(days=7), 8, 0, [])),
            },
            {CLOSED, STANDINGS, REWARDS},
        ),
        ({"placings": SOUND.placings - {Placing(MONDAY, "jack", DAVE, 200)}}, {STANDINGS}),
        ({"placings": SOUND.placings | {Placing(MONDAY, "jack", CAROL, 1_000)}}, {STANDINGS}),
        # What was heard of after the close is counted in the closed week.
        ({"closes": (WeekClose(MONDAY, 9, 6, frozenset()),)}, {CLOSED, STANDINGS, REWARDS}),
        ({"rebuilt": ("a row",)}, {STANDINGS}),
        ({"rewards": SOUND.rewards[1:]}, {REWARDS}),
        ({"rewards": SOUND.rewards * 2}, {REWARDS}),
        ({"rewards": (Reward(MONDAY, DAVE, "coin", 60_000), *SOUND.rewards)}, {REWARDS}),
    ],
)
def test_each_breach_is_found(changes: dict[str, Any], expected: set[str]) -> None:
    assert findings(**changes) == expected


@pytest.mark.parametrize(
    ("before", "after", "is_forgiven"),
    [
        ({"xp": 1_000, "last_fact": None}, None, True),
        ({"xp": 1_030, "last_fact": 7}, {"xp": 30, "last_fact": 7}, True),
        # Too much, too little, something besides, and a row that is missing in the live build.
        ({"xp": 1_031, "last_fact": 7}, {"xp": 30, "last_fact": 7}, False),
        ({"xp": 30, "last_fact": 7}, {"xp": 30, "last_fact": 8}, False),
        ({"xp": 1_030, "last_fact": 7}, {"xp": 30, "last_fact": 8}, False),
        ({"xp": 1_000, "last_fact": 7}, None, False),
        (None, {"xp": 30, "last_fact": 7}, False),
    ],
)
def test_a_rebuild_may_miss_the_xp_that_people_were_given_and_nothing_else(
    before: dict[str, int | None] | None, after: dict[str, int | None] | None, is_forgiven: bool
) -> None:
    def row(values: dict[str, int | None] | None) -> str:
        return "" if values is None else json.dumps({"account_id": ALICE, **values})

    difference = operations_pb2.RowDifference(table="progress", before=row(before), after=row(after))
    assert is_gift(difference) is is_forgiven
    assert not is_gift(operations_pb2.RowDifference(table="prize", before=row(before), after=row(after)))
