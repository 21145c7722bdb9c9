"""The table service's refusals, each with its stable reason (docs/errors.md)."""

from typing import Final

import grpc

from chassis.errors import Refused, refused
from rules.game import Rejection
from services.table.domain import SeatRejection

_MESSAGES: dict[Rejection | SeatRejection, str] = {
    Rejection.GAME_FINISHED: "The game is over.",
    Rejection.WRONG_PHASE: "The deal is not waiting for a move of this kind.",
    Rejection.NOT_YOUR_TURN: "It is another seat's turn.",
    Rejection.BID_OUT_OF_RANGE: "A bid is at most the number of cards in hand.",
    Rejection.HOOK_FORBIDDEN: "The dealer may not make the bids come out even.",
    Rejection.CARD_NOT_HELD: "The seat does not hold this card.",
    Rejection.MUST_FOLLOW_SUIT: "The led suit must be followed.",
    Rejection.MUST_TRUMP: "Void in the led suit, the seat must play a trump.",
    Rejection.MUST_OVERTRUMP: "The seat must play a higher trump than those in the trick.",
    Rejection.MAY_NOT_UNDERTRUMP: "A lower trump may not be played here.",
    Rejection.MUST_NAME_TRUMP: "The seat must name trump.",
    Rejection.SUIT_TURNED_DOWN: "The suit that was turned down may not be named.",
    Rejection.UNKNOWN_VARIANT: "The game has no such variant.",
    Rejection.SEATS_NOT_ALLOWED: "The variant is not played with so many seats.",
    SeatRejection.GAME_WAITS: "Solo and daily games are not left: they wait for you.",
    SeatRejection.SEATS_NOT_OPEN: "Seats are taken at friendly tables only.",
    SeatRejection.NO_SUCH_SEAT: "The game has no such seat.",
    SeatRejection.ALREADY_SEATED: "You hold a seat in this game.",
    SeatRejection.SEAT_TAKEN: "A person holds this seat.",
    SeatRejection.SEAT_NOT_VACATED: "Nobody left this seat: it is a bot's.",
    SeatRejection.OTHER_SEAT_LEFT: "You left another seat of this game, and may come back to that one only.",
}
_INVALID: Final = frozenset(
    {
        Rejection.UNKNOWN_VARIANT,
        Rejection.SEATS_NOT_ALLOWED,
        Rejection.BID_OUT_OF_RANGE,
        SeatRejection.NO_SUCH_SEAT,
    }
)


def rejected(rejection: Rejection | SeatRejection) -> Refused:
    """The engines' or the table's rejection as the API gives it."""
    code = grpc.StatusCode.INVALID_ARGUMENT if rejection in _INVALID else grpc.StatusCode.FAILED_PRECONDITION
    return Refused(rejection.value, code, _MESSAGES[rejection])


def game_not_found() -> Refused:
    """No such game."""
    return refused("GAME_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "There is no such game.")


def not_seated() -> Refused:
    """The caller holds no seat of the game."""
    return refused("NOT_YOUR_SEAT", grpc.StatusCode.PERMISSION_DENIED, "You hold no seat in this game.")


def not_a_daily() -> Refused:
    """A daily is the same game for everybody."""
    return refused(
        "NOT_A_DAILY",
        grpc.StatusCode.INVALID_ARGUMENT,
        "A daily has its own variant and seats, a person in seat 0 among steady bots, and no nonces.",
    )


def not_in_quick_play() -> Refused:
    """Not everything that friends may play is played in the rooms."""
    return refused(
        "NOT_IN_QUICK_PLAY",
        grpc.StatusCode.INVALID_ARGUMENT,
        "Quick play does not have this variant with so many seats.",
    )


def day_over() -> Refused:
    """A daily is begun and played by people on its own day only."""
    return refused("DAY_OVER", grpc.StatusCode.FAILED_PRECONDITION, "The daily's day has ended.")


def stale(version: int) -> Refused:
    """The decision that the command answers is no longer open."""
    return refused(
        "STALE", grpc.StatusCode.ABORTED, "The game has moved on since this was decided.", version=str(version)
    )


def future_version(version: int) -> Refused:
    """A version that the game has not reached."""
    return refused(
        "FUTURE_VERSION", grpc.StatusCode.OUT_OF_RANGE, "The game has not come to this version.", version=str(version)
    )


def command_id_reused() -> Refused:
    """The command id was used for another command."""
    return refused(
        "COMMAND_ID_REUSED", grpc.StatusCode.ALREADY_EXISTS, "This command id was used for something else before."
    )


def busy() -> Refused:
    """Too many commands wait for this game."""
    return refused("GAME_BUSY", grpc.StatusCode.RESOURCE_EXHAUSTED, "Too many commands wait for this game.")


def no_chat_here() -> Refused:
    """There is a chat at friendly tables only."""
    return refused("NO_CHAT_HERE", grpc.StatusCode.FAILED_PRECONDITION, "There is a chat at friendly tables only.")


def line_empty() -> Refused:
    """Nothing is left of the line that could be seen."""
    return refused("LINE_EMPTY", grpc.StatusCode.INVALID_ARGUMENT, "A line needs something to be seen.")


def line_too_long() -> Refused:
    """The line is too long, also without what is taken out of it."""
    return refused("LINE_TOO_LONG", grpc.StatusCode.INVALID_ARGUMENT, "A line has at most 280 characters.")


def too_many_lines() -> Refused:
    """Nobody may say so much in so short a time."""
    return refused("TOO_MANY_LINES", grpc.StatusCode.RESOURCE_EXHAUSTED, "Five lines in ten seconds are enough.")


def too_many_speakers() -> Refused:
    """So many say something that nobody could read it."""
    return refused("CHAT_CROWDED", grpc.StatusCode.RESOURCE_EXHAUSTED, "Too many speak at once; say it again.")


def too_many_mutes() -> Refused:
    """Nobody may mute so many."""
    return refused("TOO_MANY_MUTES", grpc.StatusCode.RESOURCE_EXHAUSTED, "You have muted enough people in this game.")


def line_id_reused() -> Refused:
    """The request id was used for another line."""
    return refused("REQUEST_ID_REUSED", grpc.StatusCode.ALREADY_EXISTS, "This request id was used for another line.")


def unavailable() -> Refused:
    """The outcome is not known, or the game cannot be reached: repeat the same command."""
    return refused(
        "TEMPORARILY_UNAVAILABLE",
        grpc.StatusCode.UNAVAILABLE,
        "The game cannot be reached now; repeat the call with the same ids.",
    )
