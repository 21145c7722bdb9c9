"""Cards and seats on a terminal: four colours for four suits, legible without any."""

from collections.abc import Iterable, Mapping
from typing import Final

from levata.table.v1 import play_pb2
from rich.text import Text

from tools.recorded import Card, Suit, suit_of

_SYMBOLS: Final = " ♣♦♥♠"
_STYLES: Final = ("", "green", "blue", "red", "bold")
_NAMES: Final = ("", "clubs", "diamonds", "hearts", "spades")
_RANKS: Final = ("2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A")

LEADS: Final = "▸"
TAKES: Final = "●"


def suit_text(suit: Suit) -> Text:
    """A suit's symbol."""
    return Text(_SYMBOLS[suit], style=_STYLES[suit])


def suit_name(suit: Suit) -> str:
    """A suit in a sentence."""
    return _NAMES[suit]


def card_text(card: Card) -> Text:
    """`10♥`."""
    suit = suit_of(card)
    return Text(_RANKS[(card - 1) % 13] + _SYMBOLS[suit], style=_STYLES[suit])


def hand_text(cards: Iterable[Card]) -> Text:
    """A hand by suits, high cards first: `♣ K 7  ♥ A 10 2`."""
    suits = []
    held = sorted(cards, reverse=True)
    for suit in play_pb2.Suit.values()[1:]:
        ranks = [_RANKS[(card - 1) % 13] for card in held if suit_of(card) == suit]
        if ranks:
            suits.append(Text(f"{_SYMBOLS[suit]} {' '.join(ranks)}", style=_STYLES[suit]))
    return Text("  ").join(suits) if suits else Text("none")


def seat_name(seat: int) -> str:
    """As columns and sentences have it."""
    return f"seat {seat}"


def occupant_text(info: play_pb2.SeatInfo, names: Mapping[str, str]) -> str:
    """Who is in a seat: a game itself knows only account ids, `names` may have more."""
    if not info.account_id:
        return f"{info.bot_level} bot"
    return names.get(info.account_id) or f"{'guest' if info.guest else 'account'} {info.account_id}"


def game_title(game_type: str, variant: str = "") -> str:
    """`Romanian whist 8-1-8`."""
    return f"{game_type.replace('_', ' ').capitalize()} {variant}".rstrip()
