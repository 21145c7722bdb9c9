"""The table service over gRPC, on a real Postgres."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from chassis.auth import KeyFiles
from tests.conftest import Database
from tests.table_client import SEAT_ACCOUNTS, Player, Service, create_game, running


@pytest.fixture
async def service(database: Database, keys: KeyFiles) -> AsyncIterator[Service]:
    """A table service on a database of its own."""
    async with running(database, keys) as started:
        yield started


async def test_a_whole_game_over_watch_and_act(service: Service) -> None:
    game_id = await create_game(service, people=2, seats=6, variant="quick")
    players = [Player(service, account, game_id) for account in SEAT_ACCOUNTS[:2]]
    await asyncio.gather(*(player.watch_to_the_end() for player in players))
    for player in players:
        last = player.commits[-1].events[-1]
        assert last.WhichOneof("kind") == "finished"
        assert sorted(last.finished.standings) == [1, 2, 3, 4, 5, 6]
        assert len(last.finished.server_seed) == 32
        # Own legal moves only.
        for commit in player.commits:
            assert commit.decision.seat == player.seat or not commit.decision.legal_moves
    first, second = players
    # Each from the version of its own snapshot on.
    both = min(len(first.commits), len(second.commits))
    assert [c.version for c in first.commits[-both:]] == [c.version for c in second.commits[-both:]]
