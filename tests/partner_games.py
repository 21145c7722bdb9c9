"""What the tests of euchre and klaverjas share: seats by compass, and packs that deal wanted hands in packets."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rules.cards import CODE, Card
from rules.game import Command, Event, Game, Rejection, Seat, Setup
from rules.moves import NAME_TRUMP, NAME_TRUMP_ALONE, ORDER_UP, ORDER_UP_ALONE, PASS, Move, text
from tests.playing import fold

COMPASS = "NESW"
CALLS: dict[str, Move] = {
    text(move): move for move in (PASS, ORDER_UP, ORDER_UP_ALONE, *range(NAME_TRUMP, NAME_TRUMP_ALONE + 4))
}


def seat_of(name: str) -> Seat:
    """The seat of a point of the compass."""
    return COMPASS.index(name)


def side_of(name: str) -> int:
    """The side NS or EW."""
    return ("NS", "EW").index(name)


def codes(names: Iterable[str]) -> list[Card]:
    """Cards by name."""
    return [CODE[name] for name in names]


def setup(game: Game, dealer: Seat = 0, variant: str | None = None) -> Setup:
    """A setup with this first dealer."""
    hand_sizes = {"euchre": (), "klaverjas": (8,) * 16}[game.game_type]
    return Setup(variant or next(iter(game.variants)), 4, dealer, hand_sizes)


def decided(game: Game, state: Any, command: Command) -> tuple[Any, tuple[Event, ...]]:
    """The state after a command that must be accepted, and its events."""
    events = game.decide(state, command)
    assert not isinstance(events, Rejection), (events, command)
    return fold(game, state, events), events


def refusal(game: Game, state: Any, command: Command) -> Rejection:
    """The reason against a command that must be refused."""
    answer = game.decide(state, command)
    assert isinstance(answer, Rejection), answer
    return answer


def packed(
    game: Game, packets: Sequence[int], hands: Mapping[Seat, Iterable[Card]], dealer: Seat, upcard: Card | None = None
) -> tuple[Card, ...]:
    """A pack that deals at least these cards to these seats, in packets of these sizes, and turns up this card."""
    wanted = {seat: list(hands.get(seat, ())) for seat in range(4)}
    turned = [] if upcard is None else [upcard]
    taken = [*turned, *(card for hand in wanted.values() for card in hand)]
    assert len(set(taken)) == len(taken)
    rest = [card for card in game.deck(4) if card not in taken]
    for hand in wanted.values():
        while len(hand) < sum(packets):
            hand.append(rest.pop(0))
    pack: list[Card] = []
    for size in packets:
        for place in range(1, 5):
            seat = (dealer + place) % 4
            pack += wanted[seat][:size]
            del wanted[seat][:size]
    return (*pack, *turned, *rest)
