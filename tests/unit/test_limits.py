"""How often a caller may call, by a clock that the test moves."""

import pytest

from chassis.errors import Refused
from chassis.limits import Limits, Rates


class Rated:
    """Rates of 10 at once and 2 a second, for 3 callers."""

    def __init__(self, callers_max: int = 1000) -> None:
        self.now = 1000.0
        self.rates = Rates(10, 2, callers_max=callers_max, now=lambda: self.now)

    def taken(self, caller: str, attempts: int = 100) -> int:
        """How many of so many calls at once are let in."""
        return sum(self._is_let_in(caller) for _ in range(attempts))

    def _is_let_in(self, caller: str) -> bool:
        try:
            self.rates.take(caller)
        except Refused:
            return False
        return True


def test_a_burst_and_then_the_rate() -> None:
    rated = Rated()
    assert rated.taken("a") == 10
    rated.now += 3
    assert rated.taken("a") == 6
    rated.now += 3600
    assert rated.taken("a") == 10


def test_callers_do_not_pay_for_each_other() -> None:
    rated = Rated()
    assert rated.taken("a") == 10
    assert rated.taken("b") == 10


def test_a_refusal_says_when_to_come_back() -> None:
    rated = Rated()
    rated.taken("a")
    with pytest.raises(Refused) as refused:
        rated.rates.take("a")
    assert refused.value.reason == "RATE_LIMITED"
    wait_ms = int(refused.value.metadata["retry_after_ms"])
    assert 500 <= wait_ms <= 501
    rated.now += wait_ms / 1000
    rated.rates.take("a")


def test_who_is_refused_does_not_wait_longer_for_trying() -> None:
    rated = Rated()
    rated.taken("a", 10_000)
    rated.now += 0.5
    assert rated.taken("a") == 1


def test_looking_costs_nothing() -> None:
    rated = Rated()
    for _ in range(100):
        rated.rates.check("a")
    assert rated.taken("a") == 10
    with pytest.raises(Refused):
        rated.rates.check("a")


def test_messages_of_a_stream_wait_for_their_turn_each_behind_the_other() -> None:
    rated = Rated()
    assert [rated.rates.wait("a") for _ in range(13)] == [0.0] * 10 + [0.5, 1.0, 1.5]
    # Calls of the same caller come out of the same allowance.
    assert rated.taken("a") == 0


def test_the_memory_is_bounded_and_those_who_go_on_calling_are_remembered() -> None:
    rated = Rated(callers_max=10)
    assert rated.taken("rude") == 10
    for number in range(1000):
        rated.taken(f"caller {number}", 1)
        if number % 5 == 0:
            rated.now += 0.0001
            rated.rates.wait("rude")
        assert len(rated.rates) <= 22
    assert rated.taken("rude") == 0


@pytest.mark.parametrize("wrong", [{"calls": 0}, {"caller_calls_per_second": -1.0}, {"caller_streams": 0}])
def test_limits_that_let_nobody_in_are_an_error(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Limits(**wrong)
