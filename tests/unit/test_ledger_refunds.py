"""Refunds by the dated policy, at its edges; and what they move, against a model."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.vip import vip_weekdays
from services.ledger.domain.journal import Currency, Entry, House, Transfer
from services.ledger.domain.refunds import PlayedGame, RefundRefusal, refund_entry, refusal_of
from tests.ledger import CATALOGUE, COIN, DOUBLE, GOLD, ONE_AND_A_HALF

GAME_ID = UUID("0199bbbb-0000-7000-8000-000000000001")
# VIP on Mondays and Saturdays.
ALICE = UUID("00000000-0000-4000-8000-000000000002")
assert vip_weekdays(ALICE) == (0, 5)
NOON, HOUR = 12 * 3_600_000_000, 3_600_000_000


def begins(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000


def played(day: date, **changed: Any) -> PlayedGame:
    return replace(PlayedGame(GAME_ID, ALICE, 2, True, begins(day) + NOON, day), **changed)


def answer(game: PlayedGame, refunded: int = 0, hours: int = 1) -> RefundRefusal | None:
    return refusal_of(game, refunded, game.finished_at_us + hours * HOUR, CATALOGUE)


LAST_OLD, FIRST_NEW = date(2026, 11, 15), date(2026, 11, 16)


def test_up_to_the_15th_of_november_2026_three_a_day_on_any_day() -> None:
    # A Sunday, and no VIP day of Alice's.
    assert [answer(played(LAST_OLD), refunded) for refunded in range(4)] == [None] * 3 + ["NO_REFUNDS_LEFT"]


def test_from_the_16th_one_a_day_and_only_on_an_own_vip_day() -> None:
    assert [answer(played(FIRST_NEW), refunded) for refunded in range(2)] == [None, "NO_REFUNDS_LEFT"]
    asked = {day: answer(played(date(2026, 11, day))) for day in range(16, 23)}
    assert asked == {day: None if day in (16, 21) else "NOT_A_VIP_DAY" for day in range(16, 23)}


def test_the_day_on_which_the_game_finished_decides_and_not_the_one_on_which_it_is_asked() -> None:
    """Finished on Sunday the 15th, asked on the 16th; finished on Saturday, a VIP day, asked on Sunday."""
    assert answer(played(LAST_OLD), refunded=2, hours=20) is None
    assert answer(played(date(2026, 11, 21)), hours=20) is None
    assert answer(played(date(2026, 11, 20)), hours=20) == "NOT_A_VIP_DAY"


def test_within_24_hours() -> None:
    game = played(LAST_OLD)
    end = game.finished_at_us + 24 * HOUR
    assert (refusal_of(game, 0, end, CATALOGUE), refusal_of(game, 0, end + 1, CATALOGUE)) == (None, "REFUND_TOO_LATE")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [({"place": 1}, "REFUND_OF_A_WIN"), ({"eligible": False}, "NOT_ELIGIBLE"), ({"place": 6}, None)],
)
def test_who_can_have_one(changed: dict[str, Any], reason: str | None) -> None:
    assert answer(played(LAST_OLD, **changed)) == reason


def spent(currency: Currency, amount: int) -> Transfer:
    return Transfer(ALICE, House.ENTRIES.value, currency, amount)


def won(currency: Currency, amount: int) -> Transfer:
    return Transfer(House.PRIZES.value, ALICE, currency, amount)


def net(entry: Entry) -> dict[Currency, int]:
    """What the player has more afterwards."""
    assert {t.debit for t in entry.transfers} | {t.credit for t in entry.transfers} == {ALICE, House.REFUNDS.value}
    return {t.currency: t.amount if t.credit == ALICE else -t.amount for t in entry.transfers}


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        ([spent(COIN, 250_000), spent(GOLD, 10)], {COIN: 250_000, GOLD: 10}),
        # The prize goes back: only the difference moves.
        ([spent(COIN, 1_000), won(COIN, 750)], {COIN: 250}),
        # More was won than paid, but the coffee comes back.
        ([spent(COIN, 200), spent(DOUBLE, 1), won(COIN, 700)], {COIN: -500, DOUBLE: 1}),
        # The good play's coffee is the one that was drunk.
        ([spent(COIN, 500), spent(ONE_AND_A_HALF, 1), won(GOLD, 2), won(ONE_AND_A_HALF, 1)], {COIN: 500, GOLD: -2}),
    ],
)
def test_what_a_refund_moves(moved: Sequence[Transfer], expected: dict[Currency, int]) -> None:
    entry = refund_entry(GAME_ID, ALICE, moved)
    assert isinstance(entry, Entry) and net(entry) == expected


@pytest.mark.parametrize(
    "moved",
    [
        [],
        # The first room is free.
        [won(COIN, 210)],
        [spent(COIN, 200), won(COIN, 350)],
        [spent(COIN, 350), won(COIN, 350)],
    ],
)
def test_a_refund_that_would_return_nothing_is_refused(moved: Sequence[Transfer]) -> None:
    assert refund_entry(GAME_ID, ALICE, moved) == "NOTHING_TO_REFUND"


movements = st.builds(
    lambda build, currency, amount: build(currency, amount),
    st.sampled_from([spent, won]),
    st.sampled_from(Currency),
    st.integers(1, 1_000),
)


@given(st.lists(movements, max_size=8))
def test_after_a_refund_the_game_has_moved_nothing(moved: list[Transfer]) -> None:
    entry = refund_entry(GAME_ID, ALICE, moved)
    total: Counter[Currency] = Counter()
    for transfer in moved:
        total[transfer.currency] += transfer.amount if transfer.credit == ALICE else -transfer.amount
    if isinstance(entry, RefundRefusal):
        assert all(amount >= 0 for amount in total.values())
        return
    total.update(net(entry))
    assert not any(total.values())
    assert len({t.currency for t in entry.transfers}) == len(entry.transfers)
