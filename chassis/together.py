"""Calls that came together in one message: each is answered, or refused, for itself."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

import grpc
import structlog

from chassis.errors import Refused

T = TypeVar("T")

log = structlog.get_logger(__name__)


async def each(calls: Iterable[Awaitable[T]]) -> list[T | Refused]:
    """What becomes of each call, in their order. All run at the same time."""
    return await asyncio.gather(*map(_answered, calls))


async def _answered(call: Awaitable[T]) -> T | Refused:
    try:
        return await call
    except Refused as refused:
        return refused
    except Exception:
        # The others are answered all the same.
        log.exception("one of many calls failed")
        return Refused("INTERNAL", grpc.StatusCode.INTERNAL, "Something went wrong here.")
