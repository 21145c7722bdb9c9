"""What the games of partners (euchre, klaverjas) have in common: four seats, sides (0, 2) and (1, 3)."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from rules.cards import BIT, Card, Cards, Suit, bit_of, mask
from rules.game import DealRecord, Draws, Rejection, Seat, Setup, Trick
from rules.places import shared_places
from rules.values import value

SEATS: Final = 4
NO_CARD: Final[Card] = -1
NO_TRUMP: Final[Suit] = -1

SIDE_OF: Final[tuple[int, ...]] = (0, 1, 0, 1)
PARTNER: Final[tuple[Seat, ...]] = (2, 3, 0, 1)
LEFT_OF: Final[tuple[Seat, ...]] = (1, 2, 3, 0)

# ORDER[sitting_out][leader]: seats in playing order. The last row is for nobody, so NO_SEAT finds it.
ORDER: Final[tuple[tuple[tuple[Seat, ...], ...], ...]] = tuple(
    tuple(
        tuple(seat % SEATS for seat in range(leader, leader + SEATS) if seat % SEATS != sitting_out)
        for leader in range(SEATS)
    )
    for sitting_out in (0, 1, 2, 3, None)
)

# Picks a seat's cards, as bits, out of a pack's.
OwnBits = Callable[[Sequence[Cards]], tuple[Cards, ...]]


@value
class Sheet:
    """The score sheet, and what the game was set up with. Totals are by seat."""

    setup: Setup
    totals: tuple[int, ...] = (0, 0, 0, 0)
    scored: tuple[DealRecord, ...] = ()


def set_up(
    variants: Mapping[str, frozenset[int]], hand_sizes: tuple[int, ...], variant: str, seats: int, draws: Draws
) -> Setup | Rejection:
    """The setup of a game with deals of these sizes, or why there is none such."""
    if variant not in variants:
        return Rejection.UNKNOWN_VARIANT
    if seats not in variants[variant]:
        return Rejection.SEATS_NOT_ALLOWED
    return Setup(variant, seats, draws.below("dealer", 0, seats), hand_sizes)


def dealt_in(*packets: int) -> tuple[tuple[OwnBits, ...], ...]:
    """By dealer and seat. Every seat gets a packet of each of these sizes in turn, the dealer last each time."""
    # Where in the pack the cards of a seat are, from forehand on.
    places: list[list[int]] = [[] for _ in range(SEATS)]
    start = 0
    for size in packets:
        for own in places:
            own.extend(range(start, start + size))
            start += size
    pick = [itemgetter(*own) for own in places]
    return tuple(tuple(pick[(seat - dealer - 1) % SEATS] for seat in range(SEATS)) for dealer in range(SEATS))


def hands_of(pack: Sequence[Card], dealt: Sequence[OwnBits]) -> tuple[Cards, ...]:
    """The hands by seat that are dealt from this pack to a row of `dealt_in`."""
    bits = list(map(bit_of, pack))
    # The cards differ, so that their sum is their union.
    return tuple([sum(own_bits(bits)) for own_bits in dealt])


def winners_of(tricks: Sequence[Trick], leader: Seat) -> tuple[Seat, ...]:
    """Who took each trick: who takes one leads the next, and `leader` is to lead now."""
    return (*[trick.seats[0] for trick in tricks[1:]], leader) if tricks else ()


def added(totals: tuple[int, ...], points: tuple[int, ...]) -> tuple[int, ...]:
    """Totals with the points of one more deal. Partners have the same of both."""
    return by_seat((totals[0] + points[0], totals[1] + points[1]))


def by_seat(sides: Sequence[int]) -> tuple[int, ...]:
    """For each seat what its side has."""
    first, second = sides
    return (first, second, first, second)


def places(totals: Sequence[int]) -> tuple[int, ...]:
    """Places by seat for totals by seat: winners 1, losers 3, and all 1 in a draw (platform.md)."""
    return shared_places(totals)


def beating(suits: Sequence[Sequence[Card]], trump: Suit) -> tuple[Cards, ...]:
    """By card, the cards that take the trick from it while it is winning.

    `suits` are the cards of each suit from low to high; a left bower stands among the trumps.
    """
    beats = [0] * len(BIT)
    for suit, ranking in enumerate(suits):
        higher = 0 if suit == trump else mask(suits[trump])
        for card in reversed(ranking):
            beats[card] = higher
            higher |= BIT[card]
    return tuple(beats)


def winning(trick: tuple[Card, ...], beats: Sequence[Cards]) -> int:
    """The place in a trick, which has been led to, of the card that is winning it."""
    best = trick[0]
    better = beats[best]
    for card in trick:
        if better & BIT[card]:
            best = card
            better = beats[card]
    return trick.index(best)


def tricks_won(tricks: Sequence[Trick], leader: Seat) -> tuple[int, ...]:
    """How many tricks each seat took; as `winners_of`."""
    won = [0, 0, 0, 0]
    if tricks:
        for trick in tricks[1:]:
            won[trick.seats[0]] += 1
        won[leader] += 1
    return tuple(won)
