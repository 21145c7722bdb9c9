"""Asking what became of games whose entries are held for long: one that always fails does not hold up the others."""

import asyncio
from uuid import UUID

import grpc
import pytest

from chassis.errors import Refused
from services.ledger.app import old_holds
from services.ledger.app.old_holds import OldHolds

FAILING, OTHER = UUID(int=1), UUID(int=2)


class Waiting:
    """Two holds, the older one of the failing game; who was asked about is not due again."""

    def __init__(self) -> None:
        self.due = [FAILING, OTHER]

    async def unsettled_count(self, older_than_seconds: float) -> int:
        return len(self.due)

    async def unsettled(self, older_than_seconds: float, limit: int) -> list[UUID]:
        return self.due[:limit]

    async def asked(self, game_id: UUID, again_seconds: float) -> None:
        self.due.remove(game_id)


class Games:
    """Never answers about one game."""

    def __init__(self) -> None:
        self.settled = asyncio.Event()

    async def settle(self, game_id: UUID) -> None:
        if game_id == FAILING:
            raise Refused("TEMPORARILY_UNAVAILABLE", grpc.StatusCode.UNAVAILABLE, "no answer")
        self.settled.set()


async def test_a_game_that_always_fails_lets_the_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_holds, "PAUSE_SECONDS", 0.01)
    games = Games()
    holds = OldHolds(Waiting(), games, 0.01)  # type: ignore[arg-type]
    await holds.start()
    try:
        await games.settled.wait()
    finally:
        await holds.stop()
