"""What the terminal client says, in plain words. No rules are in here: what may be done is in the open decision."""

from collections.abc import Sequence
from typing import Final

from levata.table.v1 import play_pb2, table_pb2
from rich.text import Text

from tools.picture import Picture, suit_of
from tools.telling.cards import card_text, suit_name, suit_text

# Bots have no names of their own; people keep neighbours apart better by names than by numbers.
_BOT_NAMES: Final = ("Ana", "Dan", "Ema", "Ion", "Mia", "Ovi", "Zoe")

# Games whose bids are a number of tricks; their players call a deal a round.
EXACT_BID: Final = frozenset({"romanian_whist", "oh_hell"})

_REFUSALS: Final = {
    "NOT_YOUR_TURN": "It is not your turn.",
    "WRONG_PHASE": "That cannot be done now.",
    "GAME_FINISHED": "The game is over.",
    "STALE": "Too late: the game has gone on. Look again and choose anew.",
    "BID_OUT_OF_RANGE": "A bid is at most the number of your cards.",
    "HOOK_FORBIDDEN": "You bid last, and the bids may not come out even. Bid more or less.",
    "CARD_NOT_HELD": "You do not hold that card.",
    "MUST_TRUMP": "You cannot follow suit, so you must play a trump.",
    "MUST_OVERTRUMP": "You must play a higher trump than those in the trick.",
    "MAY_NOT_UNDERTRUMP": "A trump lower than the one in the trick may not be played here.",
    "MUST_NAME_TRUMP": "Everybody has passed: you must name trump.",
    "SUIT_TURNED_DOWN": "That suit was turned down: name another.",
    "NOT_YOUR_SEAT": "You hold no seat in this game.",
    "COMMAND_ID_REUSED": "That move was mixed up with another one. Choose again.",
}


def name_of(picture: Picture, seat: int) -> str:
    """Who is in a seat, as the player is told."""
    if seat == picture.view.seat:
        return "You"
    info = picture.seats[seat]
    return f"Guest {info.account_id[:4]}" if info.account_id else _BOT_NAMES[seat]


def side_of(picture: Picture, seat: int) -> str:
    """Two partners, the player first."""
    partners = sorted((seat, (seat + 2) % 4), key=lambda one: one != picture.view.seat)
    return " & ".join(name_of(picture, one) for one in partners)


def said(picture: Picture, seat: int, verb: str) -> str:
    """`You play`, `Ana plays`."""
    if seat == picture.view.seat:
        return f"You {verb}"
    return f"{name_of(picture, seat)} {verb}{'es' if verb.endswith('s') else 's'}"


def news_of_move(picture: Picture, seat: int, move: play_pb2.Move) -> Text:
    """What a seat did, before it is folded into the picture."""
    match move.WhichOneof("kind"):
        case "play_card":
            return Text(said(picture, seat, "play") + " ").append_text(card_text(move.play_card))
        case "place_bid":
            return Text(f"{said(picture, seat, 'bid')} {move.place_bid}")
        case "pass":
            return Text(said(picture, seat, "pass"))
        case "order_up":
            text = Text(said(picture, seat, "order") + " up the ").append_text(card_text(picture.view.turned))
            return text.append(_and_alone(picture, seat, move.order_up.alone))
        case "name_trump":
            suit = move.name_trump.suit
            text = Text(said(picture, seat, "name") + " ").append_text(suit_text(suit)).append(f" {suit_name(suit)}")
            return text.append(_and_alone(picture, seat, move.name_trump.alone))
        case "discard":
            text = Text(said(picture, seat, "discard") + " ")
            return text.append_text(card_text(move.discard) if move.discard else Text("a card"))
        case _:
            return Text()


def worth(before: play_pb2.View, taken: table_pb2.TrickTaken) -> str:
    """What a trick was worth, where tricks have points."""
    if not taken.card_points:
        return ""
    had_cards, had_roem = (list(points) or [0] * len(taken.roem) for points in (before.card_points, before.roem))
    cards = taken.card_points[taken.seat] - had_cards[taken.seat]
    roem = taken.roem[taken.seat] - had_roem[taken.seat]
    return f": {cards} points" + (f" and {roem} roem" if roem else "")


def call_text(picture: Picture, move: play_pb2.Move) -> Text:
    """A call of this deal, in a word or two."""
    match move.WhichOneof("kind"):
        case "place_bid":
            return Text(str(move.place_bid))
        case "order_up":
            text = Text("up ").append_text(suit_text(suit_of(picture.view.turned)))
            return text.append(" alone" if move.order_up.alone else "")
        case "name_trump":
            return Text().append_text(suit_text(move.name_trump.suit)).append(" alone" if move.name_trump.alone else "")
        case _:
            return Text("pass")


def prompt(picture: Picture, legal_moves: Sequence[play_pb2.Move]) -> str:
    """What is asked of the player."""
    kinds = {move.WhichOneof("kind") for move in legal_moves}
    if "play_card" in kinds:
        return "Play a card" if picture.view.trick.cards else "You lead: play a card"
    if "discard" in kinds:
        return "You took up the turned card: discard one"
    if "place_bid" in kinds:
        return "How many tricks will you take?"
    if "order_up" in kinds:
        dealer = name_of(picture, picture.view.dealer)
        return f"Shall {suit_name(suit_of(picture.view.turned))} be trump? {dealer} would take the card"
    return "Name trump, or pass" if "pass" in kinds else "Everybody passed: you must name trump"


def hook(picture: Picture) -> str:
    """Why a bid is forbidden, where one is."""
    if not picture.decision.HasField("hook_forbids"):
        return ""
    forbidden = picture.decision.hook_forbids
    others = sum(call.move.place_bid for call in picture.view.calls)
    even = f"{others} + {forbidden} = {picture.view.hand_size}"
    return f"You may not bid {forbidden}: the bids would come out even ({even})."


def refusal(reason: str, message: str, picture: Picture) -> str:
    """Why the server did not take a move."""
    if reason == "MUST_FOLLOW_SUIT" and picture.view.trick.cards:
        return f"You hold {suit_name(suit_of(picture.view.trick.cards[0]))}, which were led: you must follow suit."
    return _REFUSALS.get(reason) or message or "The server did not take that."


def bids_so_far(picture: Picture) -> str:
    """How the bids compare with the tricks there are."""
    view = picture.view
    total = sum(call.move.place_bid for call in view.calls)
    if len(view.calls) < len(picture.seats):
        return f"{total} bid so far, of {view.hand_size}"
    over = total - view.hand_size
    return f"{total} bid of {view.hand_size}: {abs(over)} too {'many' if over > 0 else 'few'}"


def _and_alone(picture: Picture, seat: int, alone: bool) -> str:
    if not alone:
        return ""
    return " and play alone" if seat == picture.view.seat else " and plays alone"
