"""Romanian whist (games.md, 1): 4 to 6 players, exact bids, compulsory trump, places never shared."""

from functools import partial
from itertools import accumulate, combinations
from typing import Final

from rules import exact_bid
from rules.bots import exact_bid as bots
from rules.bots import sharp
from rules.bots.exact_bid import Style
from rules.cards import ACE, Card, mask
from rules.cards import deck as deck_from
from rules.exact_bid import Rules
from rules.game import DealRecord, Draws, Game, Seat
from rules.places import unique_places

GAME_TYPE: Final = "romanian_whist"
RULES_VERSION: Final = 1
VARIANTS: Final = {
    "8-1-8": frozenset({4, 5, 6}),
    "8-8-8": frozenset({4, 5, 6}),
    "1-8-1": frozenset({4, 5, 6}),
    "quick": frozenset({6}),
}
LARGEST_HAND: Final = 8


def deck(seats: int) -> tuple[Card, ...]:
    """As many of the highest ranks as give each seat eight cards."""
    return deck_from(ACE + 1 - LARGEST_HAND * seats // 4)


def plans(variant: str, seats: int) -> tuple[tuple[int, ...], ...]:
    """The cards in each deal: every sequence that the variant may have, one unless it is drawn."""
    falling = (7, 6, 5, 4, 3, 2)
    rising = falling[::-1]
    ones, eights = (1,) * seats, (8,) * seats
    match variant:
        case "8-1-8":
            return ((*eights, *falling, *ones, *rising, *eights),)
        case "8-8-8":
            return ((*eights, *falling, *eights, *rising, *eights),)
        case "1-8-1":
            return ((*ones, *rising, *eights, *falling, *ones),)
        case "quick":
            return tuple((8, *five) for five in combinations(falling, 5))
        case _:
            raise AssertionError(variant)


def hand_sizes(variant: str, seats: int, draws: Draws) -> tuple[int, ...]:
    """The plan that a game's seed gives."""
    if variant == "quick":
        five = draws.shuffled("sizes", 0, (2, 3, 4, 5, 6, 7))[:5]
        return (8, *sorted(five, reverse=True))
    (plan,) = plans(variant, seats)
    return plan


def points(bid: int, won: int) -> int:
    """Points of a seat for a deal."""
    return 5 + bid if bid == won else -abs(bid - won)


def places(scored: tuple[DealRecord, ...]) -> tuple[int, ...]:
    """Places by seat, never shared: the whole chain of tie-breaks is one sort key."""
    return unique_places([_rank(scored, seat) for seat in range(len(scored[0].points))])


def _rank(scored: tuple[DealRecord, ...], seat: Seat) -> tuple[object, ...]:
    """Smaller is better."""
    running = list(accumulate(deal.points[seat] for deal in scored))
    misses = [abs(deal.bids[seat] - deal.tricks_won[seat]) for deal in scored]
    return (
        -running[-1],
        sum(miss > 0 for miss in misses),
        sum(miss > 0 for miss, deal in zip(misses, scored, strict=True) if deal.hand_size == LARGEST_HAND),
        sum(misses),
        max(misses),
        # The latest deal after which two seats were not level decides, the higher total first.
        [-total for total in reversed(running)],
        seat,
    )


RULES: Final = Rules(variants=VARIANTS, deck=deck, hand_sizes=hand_sizes, must_trump=True, points=points, places=places)

STYLE: Final = Style(decks=tuple(mask(deck(seats)) for seats in range(7)), tricks_score=False)

GAME: Final = Game(
    game_type=GAME_TYPE,
    rules_version=RULES_VERSION,
    variants=VARIANTS,
    partners=False,
    daily=("quick", 6),
    quick_play={"quick": 6, "8-1-8": 6},
    cards_count=False,
    deck=deck,
    setup=partial(exact_bid.setup, RULES),
    start=partial(exact_bid.start, RULES),
    decide=exact_bid.decide,
    evolve=exact_bid.evolve,
    advance=exact_bid.advance,
    legal_moves=exact_bid.legal_moves,
    view=exact_bid.view,
    standings=exact_bid.standings,
    bots={"steady": partial(bots.steady, STYLE), "sharp": partial(sharp.exact_bid, STYLE, RULES.must_trump)},
    bot_version=bots.VERSION,
)
