"""The matchmaker's refusals, each with its stable reason (docs/errors.md)."""

from collections.abc import Awaitable, Sequence
from typing import TypeVar, assert_never
from uuid import UUID

import grpc
import structlog

from chassis.errors import Refused, in_a_line
from services.matchmaker.domain.rooms import WhyNot

log = structlog.get_logger(__name__)

T = TypeVar("T")


def refused(reason: str, code: grpc.StatusCode, message: str, **metadata: str) -> Refused:
    """A refusal with its metadata as keywords."""
    return Refused(reason, code, message, metadata)


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
