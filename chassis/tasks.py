"""Ending background tasks for sure."""

import asyncio
from typing import Final

CANCEL_AGAIN_SECONDS: Final = 0.5


async def end(task: asyncio.Task[None]) -> None:
    """Cancel a task until it has ended.

    Once is not enough: until Python 3.12 `asyncio.wait_for`, on which nats-py stands, may lose a cancellation that
    comes at the moment of its answer (seen: a consumer that went on for ever after it was stopped).
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=CANCEL_AGAIN_SECONDS)
