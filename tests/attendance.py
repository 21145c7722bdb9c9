"""Who is there and who sits where, in tests: signs of life, seats left and taken, and what streams tell of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import uuid4

import grpc
from levata.table.v1 import games_pb2, play_pb2, table_pb2

from services.table.domain import SeatChanged
from tests.table_client import CALL_SECONDS, GameLog, Service
from tools.patience import within

# Nobody is late.
PATIENT: Final = games_pb2.ClockOptions(bid_seconds=3600, card_seconds=3600)
# A grace that tests can wait for, and how often who stays says so.
GRACE_SECONDS: Final = 1.0
SIGN_SECONDS: Final = 0.2


async def until(log: GameLog, reached: Callable[[], bool]) -> None:
    """Read on until the log is so far."""
    async with asyncio.timeout(CALL_SECONDS):
        while True:
            await log.refresh()
            if reached():
                return
            await asyncio.sleep(0.02)


def here(service: Service, account: str, game_id: str) -> Any:
    """The sign of life beside a Watch."""
    return service.table(account).Here(table_pb2.HereRequest(game_id=game_id))


@asynccontextmanager
async def staying(service: Service, game_id: str, *accounts: str) -> AsyncIterator[None]:
    """These accounts say all the while that they are there."""

    async def stay(account: str) -> None:
        while True:
            await here(service, account, game_id)
            await asyncio.sleep(SIGN_SECONDS)

    tasks = [asyncio.create_task(stay(account)) for account in accounts]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()


def changes_of(log: GameLog, seat: int) -> list[bool]:
    """Whether the seat was away, at each change."""
    return [
        event.away
        for version in range(1, log.version + 1)
        for event in log.commit(version).events
        if isinstance(event, SeatChanged) and event.seat == seat
    ]


def leave(game_id: str, request_id: str = "") -> table_pb2.LeaveRequest:
    """Give the own seat up."""
    return table_pb2.LeaveRequest(game_id=game_id, request_id=request_id or str(uuid4()))


def take(game_id: str, seat: int, request_id: str = "") -> table_pb2.TakeSeatRequest:
    """Take a seat."""
    return table_pb2.TakeSeatRequest(game_id=game_id, seat=seat, request_id=request_id or str(uuid4()))


def watch_request(game_id: str, after_version: int = 0) -> table_pb2.WatchRequest:
    """From a version on."""
    return table_pb2.WatchRequest(game_id=game_id, after_version=after_version)


async def snapshot(service: Service, account: str, game_id: str) -> table_pb2.Snapshot:
    """The game as this account is shown it now."""
    stream = service.table(account).Watch(watch_request(game_id))
    message = await within(CALL_SECONDS, stream.read())
    stream.cancel()
    shown: table_pb2.Snapshot = message.snapshot
    return shown


async def rest_of(stream: Any) -> list[table_pb2.WatchResponse]:
    """What is left of a stream that ends, without heartbeats."""
    messages = []
    async with asyncio.timeout(CALL_SECONDS):
        while (message := await stream.read()) is not grpc.aio.EOF:
            if message.WhichOneof("kind") != "heartbeat":
                messages.append(message)
    return messages


def assert_parted(messages: list[table_pb2.WatchResponse], seat: int, now: play_pb2.SeatInfo) -> None:
    """The stream ended with the change of the seat, as everybody sees it, and with where to go on."""
    change, closing = messages[-2:]
    assert [event.seat_changed for event in change.commit.events] == [table_pb2.SeatChanged(seat=seat, info=now)]
    assert not change.commit.decision.legal_moves
    assert closing.closing == table_pb2.Closing(reason="SEAT_CHANGED", resume_after_version=0)
