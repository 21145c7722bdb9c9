"""What the player may choose from now, and how keys get there: cards in the hand, bids, calls.

A choice that is not legal can be asked for all the same: the server refuses it and says why.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from levata.table.v1 import play_pb2
from rich.text import Text

from tools.picture import Picture, suit_of
from tools.recorded import Card
from tools.telling.cards import card_text, suit_text

# Without q, which leaves: no hand has more than ten cards.
_CARD_KEYS: Final = "abcdefghijklm"
_SUIT_KEYS: Final = " cdhs"
# Red and black take turns.
_SUIT_ORDER: Final = (play_pb2.SUIT_SPADES, play_pb2.SUIT_HEARTS, play_pb2.SUIT_CLUBS, play_pb2.SUIT_DIAMONDS)
_CARD_KINDS: Final = frozenset({"play_card", "discard"})


@dataclass(frozen=True)
class Choice:
    """One thing to choose."""

    move: play_pb2.Move
    key: str
    label: Text
    legal: bool


@dataclass
class Choices:
    """All of them, in the order shown, and the one that is pointed at."""

    all: tuple[Choice, ...] = ()
    # They are the cards of the hand, in its order.
    of_hand: bool = False
    at: int = 0
    _typed: str = field(default="", repr=False)

    @property
    def pointed(self) -> Choice | None:
        """What enter would do."""
        return self.all[self.at] if self.all else None

    def move(self, by: int) -> None:
        """To the next legal choice in a direction, round the ends."""
        if any(choice.legal for choice in self.all):
            self.at = (self.at + by) % len(self.all)
            while not self.all[self.at].legal:
                self.at = (self.at + by) % len(self.all)

    def press(self, key: str) -> bool:
        """Point at the choice of a key; answers whether the key pointed there already, which is as good as enter."""
        if key.isdecimal() and len(key) == 1:
            return self._type(key)
        found = next((place for place, choice in enumerate(self.all) if choice.key == key), None)
        if found is None:
            return False
        again = found == self.at
        self.at = found
        return again

    def _type(self, digit: str) -> bool:
        """Numbers may have two digits."""
        keys = {choice.key: place for place, choice in enumerate(self.all)}
        self._typed = self._typed + digit if self._typed + digit in keys else digit
        self.at = keys.get(self._typed, self.at)
        return False


def sorted_hand(cards: Sequence[Card]) -> list[Card]:
    """By suits of alternating colours, high cards first."""
    return sorted(cards, key=lambda card: (_SUIT_ORDER.index(suit_of(card)), -card))


def choices(picture: Picture, legal_moves: Sequence[play_pb2.Move]) -> Choices:
    """What there is to choose from; nothing when it is not the player's turn."""
    if not legal_moves:
        return Choices()
    kind = str(legal_moves[0].WhichOneof("kind"))
    if kind in _CARD_KINDS:
        found = _cards(picture, legal_moves, kind)
    elif kind == "place_bid":
        found = _bids(picture, legal_moves)
    else:
        found = tuple(Choice(move, *_call(picture, move), legal=True) for move in legal_moves)
    first = next(place for place, choice in enumerate(found) if choice.legal)
    return Choices(found, kind in _CARD_KINDS, first)


def _cards(picture: Picture, legal_moves: Sequence[play_pb2.Move], kind: str) -> tuple[Choice, ...]:
    legal = {getattr(move, kind) for move in legal_moves}
    return tuple(
        Choice(_card_move(kind, card), key, card_text(card), card in legal)
        for key, card in zip(_CARD_KEYS, sorted_hand(picture.view.hand), strict=False)
    )


def _card_move(kind: str, card: Card) -> play_pb2.Move:
    return play_pb2.Move(discard=card) if kind == "discard" else play_pb2.Move(play_card=card)


def _bids(picture: Picture, legal_moves: Sequence[play_pb2.Move]) -> tuple[Choice, ...]:
    bids = {move.place_bid: True for move in legal_moves}
    if picture.decision.HasField("hook_forbids"):
        bids[picture.decision.hook_forbids] = False
    return tuple(Choice(play_pb2.Move(place_bid=bid), str(bid), Text(str(bid)), bids[bid]) for bid in sorted(bids))


def _call(picture: Picture, move: play_pb2.Move) -> tuple[str, Text]:
    match move.WhichOneof("kind"):
        case "order_up":
            suit = suit_of(picture.view.turned)
            if move.order_up.alone:
                return "a", Text("alone with ").append_text(suit_text(suit))
            return "o", Text("order up ").append_text(suit_text(suit))
        case "name_trump":
            suit, alone = move.name_trump.suit, move.name_trump.alone
            label = Text().append_text(suit_text(suit)).append(" alone" if alone else "")
            return _SUIT_KEYS[suit].upper() if alone else _SUIT_KEYS[suit], label
        case _:
            return "p", Text("pass")
