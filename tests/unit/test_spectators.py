"""How many watch: distinct people over all replicas, and what of it may be known when."""

from services.table.app.ports import Side
from services.table.app.spectators import SILENT_SECONDS, Spectators

ANN, BOB, CAT = "ann", "bob", "cat"


def both(count: int) -> dict[Side, int]:
    """Players and spectators are told the same."""
    return {Side.PLAYERS: count, Side.SPECTATORS: count}


def test_people_are_counted_and_not_streams() -> None:
    spectators = Spectators(delay=0)
    spectators.enter(ANN)
    spectators.enter(ANN)
    spectators.enter(BOB)
    spectators.heard("there", [BOB, CAT], now=0)
    assert spectators.changes(now=1) == both(3)
    assert spectators.changes(now=1) == {}
    spectators.leave(ANN)
    assert spectators.changes(now=2) == {}
    spectators.leave(ANN)
    # Still there on the other replica.
    spectators.leave(BOB)
    assert spectators.changes(now=3) == both(2)
    spectators.heard("there", [], now=4)
    assert spectators.changes(now=4) == both(0)
    assert spectators.is_settled


def test_coming_and_going_at_once_tells_nothing() -> None:
    spectators = Spectators(delay=0)
    spectators.enter(ANN)
    spectators.leave(ANN)
    assert spectators.changes(now=0) == {}


def test_a_silent_replica_is_forgotten_with_its_spectators() -> None:
    spectators = Spectators(delay=0)
    spectators.heard("there", [ANN], now=0)
    spectators.heard("elsewhere", [BOB], now=5)
    assert spectators.changes(now=5) == both(2)
    assert spectators.changes(now=SILENT_SECONDS) == {}
    assert not spectators.is_settled
    assert spectators.changes(now=SILENT_SECONDS + 1) == both(1)
    spectators.heard("there", [ANN], now=SILENT_SECONDS + 2)
    assert spectators.changes(now=SILENT_SECONDS + 2) == both(2)


def test_spectators_of_a_delayed_game_are_told_as_late() -> None:
    spectators = Spectators(delay=60)
    spectators.enter(ANN)
    assert spectators.changes(now=0) == {Side.PLAYERS: 1}
    spectators.enter(BOB)
    assert spectators.changes(now=10) == {Side.PLAYERS: 2}
    assert spectators.changes(now=59.9) == {}
    assert not spectators.is_settled
    assert spectators.changes(now=60) == {Side.SPECTATORS: 1}
    spectators.leave(BOB)
    assert spectators.changes(now=70) == {Side.PLAYERS: 1, Side.SPECTATORS: 2}
    spectators.enter(BOB)
    # Looked at late, only the newest of what is due is told.
    assert spectators.changes(now=71) == {Side.PLAYERS: 2}
    assert spectators.changes(now=200) == {}
    assert spectators.is_settled
