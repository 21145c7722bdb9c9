"""Oh Hell (games.md, 3): 3 to 7 players, exact bids, any card when one cannot follow, places may be shared."""

from functools import partial
from typing import Final

from rules import exact_bid
from rules.bots import exact_bid as bots
from rules.bots import sharp
from rules.bots.exact_bid import Style
from rules.cards import TWO, Card, mask
from rules.cards import deck as deck_from
from rules.exact_bid import Rules
from rules.game import SEATS_MAX, DealRecord, Draws, Game
from rules.places import shared_places

GAME_TYPE: Final = "oh_hell"
RULES_VERSION: Final = 1
VARIANTS: Final = {"standard": frozenset({3, 4, 5, 6, 7})}
DECK: Final = deck_from(TWO)


def deck(_seats: int) -> tuple[Card, ...]:
    """All 52 cards, however many play."""
    return DECK


def hand_sizes(_variant: str, seats: int, _draws: Draws) -> tuple[int, ...]:
    """Down to one card and up again; one card is always left to turn."""
    largest = min(10, (len(DECK) - 1) // seats)
    return (*range(largest, 1, -1), *range(1, largest + 1))


def points(bid: int, won: int) -> int:
    """Points of a seat for a deal."""
    return won + 10 if bid == won else won


def places(scored: tuple[DealRecord, ...]) -> tuple[int, ...]:
    """Places by seat; equal totals share theirs."""
    return shared_places([sum(of_seat) for of_seat in zip(*(deal.points for deal in scored), strict=True)])


RULES: Final = Rules(
    variants=VARIANTS, deck=deck, hand_sizes=hand_sizes, must_trump=False, points=points, places=places
)

STYLE: Final = Style(decks=(mask(DECK),) * (SEATS_MAX + 1), tricks_score=True)

GAME: Final = Game(
    game_type=GAME_TYPE,
    rules_version=RULES_VERSION,
    variants=VARIANTS,
    partners=False,
    daily=("standard", 4),
    quick_play={"standard": 4},
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
