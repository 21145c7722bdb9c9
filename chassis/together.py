"""Calls that came together in one message: each is answered, or refused, for itself."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import grpc
import structlog

from chassis.errors import Refused

T = TypeVar("T")

log = structlog.get_logger(__name__)


async def answer_each(calls: Iterable[Awaitable[T]], add: Callable[..., object], kind: str) -> None:
    """Add what becomes of each call, in their order, to a response: as the field `kind`, or as a `refusal`. All calls
    run at the same time."""
    for answer in await asyncio.gather(*map(_answered, calls)):
        if isinstance(answer, Refused):
            add(refusal=answer.status())
        else:
            add(**{kind: answer})


async def _answered(call: Awaitable[T]) -> T | Refused:
    try:
        return await call
    except Refused as refused:
        return refused
    except Exception:
        # The others are answered all the same.
        log.exception("one of many calls failed")
        return Refused("INTERNAL", grpc.StatusCode.INTERNAL, "Something went wrong here.")
