"""The matchmaker's refusals, each with its stable reason (docs/errors.md)."""

from collections.abc import Awaitable, Sequence
from typing import TypeVar, assert_never
from uuid import UUID

import grpc
import structlog

from chassis.errors import Refused, in_a_line, refused
from services.matchmaker.domain.friendly import TableRejection
from services.matchmaker.domain.rooms import WhyNot

log = structlog.get_logger(__name__)

T = TypeVar("T")


def cannot_enter(reasons: Sequence[WhyNot]) -> Refused:
    """The room is not open to the caller: for the first of these reasons, and all are told."""
    told = {"reasons": ",".join(reason.value for reason in reasons)}
    match reasons[0]:
        case WhyNot.GUEST:
            return Refused(
                "GUEST_NOT_ALLOWED", grpc.StatusCode.FAILED_PRECONDITION, "Guests play in the first room only.", told
            )
        case WhyNot.LEVEL:
            return Refused(
                "ROOM_LOCKED", grpc.StatusCode.FAILED_PRECONDITION, "The room opens at a higher level.", told
            )
        case WhyNot.VIP_DAY:
            return Refused(
                "NOT_A_VIP_DAY", grpc.StatusCode.FAILED_PRECONDITION, "The room is open on your VIP days only.", told
            )
        case WhyNot.COINS:
            return Refused("INSUFFICIENT_COINS", grpc.StatusCode.FAILED_PRECONDITION, "You have too few coins.", told)
        case WhyNot.GOLD:
            return Refused("INSUFFICIENT_GOLD", grpc.StatusCode.FAILED_PRECONDITION, "You have too little gold.", told)
        case WhyNot.COFFEE:
            return Refused("INSUFFICIENT_COFFEE", grpc.StatusCode.FAILED_PRECONDITION, "You have no such coffee.", told)
        case never:
            assert_never(never)


def unknown_game() -> Refused:
    """There is no such game."""
    return refused("UNKNOWN_GAME", grpc.StatusCode.INVALID_ARGUMENT, "There is no such game type.")


def not_in_quick_play() -> Refused:
    """Not everything that friends may play is played in the rooms."""
    return refused("NOT_IN_QUICK_PLAY", grpc.StatusCode.INVALID_ARGUMENT, "Quick play does not have this variant.")


def already_playing(game_id: UUID | None) -> Refused:
    """One quick-play game at a time."""
    return refused(
        "ALREADY_PLAYING",
        grpc.StatusCode.FAILED_PRECONDITION,
        "You have a seat in a quick-play game that runs: leave it, or play it.",
        game_id=str(game_id),
    )


def dealing() -> Refused:
    """The cards are being dealt."""
    return refused("DEALING", grpc.StatusCode.FAILED_PRECONDITION, "The cards are being dealt: it is too late.")


def nothing_to_answer() -> Refused:
    """The caller has no seat at a table whose commitment this is, or it is dealt."""
    return refused(
        "NOTHING_TO_ANSWER",
        grpc.StatusCode.FAILED_PRECONDITION,
        "You have no seat at a table that waits for answers to this commitment.",
    )


def daily_not_finished() -> Refused:
    """Practice comes after the attempt that counts."""
    return refused(
        "DAILY_NOT_FINISHED",
        grpc.StatusCode.FAILED_PRECONDITION,
        "Finish the attempt that counts first: practice has the same deals.",
    )


def table_not_found() -> Refused:
    """No such table waits."""
    return refused("TABLE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "There is no such table that waits.")


def seated_elsewhere() -> Refused:
    """A seat at one waiting table at a time."""
    return refused(
        "SEATED_ELSEWHERE", grpc.StatusCode.FAILED_PRECONDITION, "You have a seat at another table that waits."
    )


def game_running() -> Refused:
    """A rematch comes after the game."""
    return refused("GAME_RUNNING", grpc.StatusCode.PERMISSION_DENIED, "The game still runs.")


def line_empty() -> Refused:
    """Nothing is left of the line that could be seen."""
    return refused("LINE_EMPTY", grpc.StatusCode.INVALID_ARGUMENT, "A line needs something to be seen.")


def line_too_long() -> Refused:
    """The line is too long, also without what is taken out of it."""
    return refused("LINE_TOO_LONG", grpc.StatusCode.INVALID_ARGUMENT, "A line has at most 280 characters.")


def too_many_lines() -> Refused:
    """Nobody may say so much in so short a time."""
    return refused("TOO_MANY_LINES", grpc.StatusCode.RESOURCE_EXHAUSTED, "Five lines in ten seconds are enough.")


def table_rejected(rejection: TableRejection) -> Refused:
    """What the table itself refuses."""
    match rejection:
        case TableRejection.UNKNOWN_GAME:
            return unknown_game()
        case TableRejection.UNKNOWN_VARIANT:
            return Refused("UNKNOWN_VARIANT", grpc.StatusCode.INVALID_ARGUMENT, "The game has no such variant.")
        case TableRejection.UNKNOWN_BOT:
            return Refused("UNKNOWN_BOT", grpc.StatusCode.INVALID_ARGUMENT, "There is no bot of this level.")
        case TableRejection.NO_SUCH_SEAT:
            return Refused("NO_SUCH_SEAT", grpc.StatusCode.INVALID_ARGUMENT, "The table has no such seat.")
        case TableRejection.SEAT_TAKEN:
            return Refused(
                "SEAT_TAKEN", grpc.StatusCode.FAILED_PRECONDITION, "Somebody has this seat, or it is kept for somebody."
            )
        case TableRejection.TABLE_DEALING:
            return Refused("TABLE_DEALING", grpc.StatusCode.FAILED_PRECONDITION, "The cards are being dealt.")
        case TableRejection.NOT_THE_OWNER:
            return Refused("NOT_THE_OWNER", grpc.StatusCode.PERMISSION_DENIED, "Only the table's owner may do this.")
        case TableRejection.NOT_AT_THE_TABLE:
            return Refused(
                "NOT_AT_THE_TABLE", grpc.StatusCode.FAILED_PRECONDITION, "There is no such person at the table."
            )
        case TableRejection.TABLE_FULL:
            return Refused("TABLE_FULL", grpc.StatusCode.FAILED_PRECONDITION, "The table has too few seats.")
        case TableRejection.REMOVED_FROM_TABLE:
            return Refused(
                "REMOVED_FROM_TABLE", grpc.StatusCode.PERMISSION_DENIED, "You were sent away from this table."
            )
        case TableRejection.NOT_READY:
            return Refused("NOT_READY", grpc.StatusCode.FAILED_PRECONDITION, "Not everybody is ready.")
        case TableRejection.TOO_FEW_SEATED:
            return Refused("TOO_FEW_SEATED", grpc.StatusCode.FAILED_PRECONDITION, "The game is not played by so many.")
        case never:
            assert_never(never)


async def answered(question: Awaitable[T]) -> T:
    """What another service answers; the call is refused by its refusal, or while it does not answer."""
    try:
        return await question
    except Refused:
        raise
    except Exception as error:
        log.warning("another service does not answer", error=in_a_line(error))
        raise unavailable() from error


def unavailable() -> Refused:
    """Somebody who must be asked does not answer."""
    return refused(
        "TEMPORARILY_UNAVAILABLE",
        grpc.StatusCode.UNAVAILABLE,
        "Something is away; repeat the call with the same ids.",
    )
