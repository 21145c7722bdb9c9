"""What the terminal client says, in plain words. No rules are in here: what may be done is in the open decision."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from levata.matchmaker.v1 import matchmaker_pb2
from levata.table.v1 import play_pb2, table_pb2
from rich.text import Text

from tools.picture import Picture, suit_of
from tools.telling.cards import card_text, suit_name, suit_text

# Bots have no names of their own; people keep neighbours apart better by names than by numbers.
_BOT_NAMES: Final = ("Ana", "Dan", "Ema", "Ion", "Mia", "Ovi", "Zoe")

# What people are called, by account id.
Names: TypeAlias = Mapping[str, str]

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


def name_of(picture: Picture, seat: int, names: Names) -> str:
    """Who is in a seat, as the player is told."""
    if seat == picture.view.seat:
        return "You"
    account_id = picture.seats[seat].account_id
    if not account_id:
        return _BOT_NAMES[seat]
    return names.get(account_id) or stranger(account_id)


def stranger(account_id: str) -> str:
    """Somebody whose name is not known."""
    # Its beginning is the time, which people who came together have in common.
    return f"Player {account_id[-4:]}"


def side_of(picture: Picture, seat: int, names: Names) -> str:
    """Two partners, the player first."""
    partners = sorted((seat, (seat + 2) % 4), key=lambda one: one != picture.view.seat)
    return " & ".join(name_of(picture, one, names) for one in partners)


def said(picture: Picture, seat: int, verb: str, names: Names) -> str:
    """`You play`, `Ana plays`."""
    if seat == picture.view.seat:
        return f"You {verb}"
    return f"{name_of(picture, seat, names)} {verb}{'es' if verb.endswith('s') else 's'}"


def news_of_move(picture: Picture, seat: int, move: play_pb2.Move, names: Names) -> Text:
    """What a seat did, before it is folded into the picture."""

    def does(verb: str) -> str:
        return said(picture, seat, verb, names)

    match move.WhichOneof("kind"):
        case "play_card":
            return Text(does("play") + " ").append_text(card_text(move.play_card))
        case "place_bid":
            return Text(f"{does('bid')} {move.place_bid}")
        case "pass":
            return Text(does("pass"))
        case "order_up":
            text = Text(does("order") + " up the ").append_text(card_text(picture.view.turned))
            return text.append(_and_alone(picture, seat, move.order_up.alone))
        case "name_trump":
            suit = move.name_trump.suit
            text = Text(does("name") + " ").append_text(suit_text(suit)).append(f" {suit_name(suit)}")
            return text.append(_and_alone(picture, seat, move.name_trump.alone))
        case "discard":
            text = Text(does("discard") + " ")
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


def prompt(picture: Picture, legal_moves: Sequence[play_pb2.Move], names: Names) -> str:
    """What is asked of the player."""
    kinds = {move.WhichOneof("kind") for move in legal_moves}
    if "play_card" in kinds:
        return "Play a card" if picture.view.trick.cards else "You lead: play a card"
    if "discard" in kinds:
        return "You took up the turned card: discard one"
    if "place_bid" in kinds:
        return "How many tricks will you take?"
    if "order_up" in kinds:
        dealer = name_of(picture, picture.view.dealer, names)
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


# Quick play


def entry(room: matchmaker_pb2.Room) -> str:
    """What a room takes when the cards are dealt."""
    if not room.coins:
        return "free entry"
    return f"entry {room.coins:,}" + (f" and {room.gold} gold" if room.gold else "")


def coffee(currency: str) -> str:
    """`coffee x 1.5`, of coffee_1_5."""
    return f"coffee x {currency.removeprefix('coffee_').replace('_', '.')}"


def locked(room: matchmaker_pb2.Room, level: int) -> str:
    """Everything that keeps somebody of a level out of a room."""
    why = {
        matchmaker_pb2.WHY_NOT_GUEST: "guests play in the first room only",
        matchmaker_pb2.WHY_NOT_LEVEL: f"it opens at level {room.level}, and you are at level {level}",
        matchmaker_pb2.WHY_NOT_VIP_DAY: f"it is open on your VIP days only, the next is {room.next_vip_day}",
        matchmaker_pb2.WHY_NOT_COINS: f"its entry is {room.coins:,} coins, more than you have",
        matchmaker_pb2.WHY_NOT_GOLD: f"it takes {room.gold} gold, more than you have",
    }
    return f"{room.name} is not open to you: {'; '.join(why[reason] for reason in room.why_not)}."


def refused(reason: str | None, currency: str) -> str:
    """Why there is no ticket, where it is not the room."""
    return f"You have no {coffee(currency)}." if reason == "INSUFFICIENT_COFFEE" else ""


_TICKET_ENDS: Final = {
    "CANCELLED": "Your place was given up on another device.",
    "GONE": "You were not heard for ten seconds, so your place was given away.",
    "INSUFFICIENT_COINS": "Your coins were gone when the cards were dealt; a bot took your place.",
    "INSUFFICIENT_GOLD": "Your gold was gone when the cards were dealt; a bot took your place.",
    "INSUFFICIENT_COFFEE": "Your coffee was gone when the cards were dealt; a bot took your place.",
}


def ended(reason: str) -> str:
    """Why no game came of a ticket."""
    return _TICKET_ENDS.get(reason) or f"No game came of it: {reason}."
