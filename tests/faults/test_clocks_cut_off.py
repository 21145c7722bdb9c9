"""A host is cut off for a moment in which players cannot be heard: nobody loses on time through it.

The moment is shorter than what anybody takes for an outage: no heartbeat fails and no connection is given up.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from levata.table.v1 import games_pb2

from chassis.auth import KeyFiles, Signer
from chassis.settings import Address
from services.table.__main__ import build
from services.table.domain import ClockResumed, Decider, Moved
from tests.conftest import Database
from tests.table_client import CALL_SECONDS, GameLog, Service, create_game, log_reader, settings_for
from tools.embedded.nats import EmbeddedNats
from tools.faults.link import Link

CLOCK_SECONDS = 2
CLOCK = games_pb2.ClockOptions(bid_seconds=CLOCK_SECONDS, card_seconds=CLOCK_SECONDS)
HELD_SECONDS = 1.8


@asynccontextmanager
async def linked(port: int) -> AsyncIterator[Link]:
    """A link to a server."""
    link = Link("server", Address("127.0.0.1", port))
    await link.start()
    yield link
    await link.stop()


@pytest.mark.faults
@pytest.mark.parametrize("held", ["postgres", "nats"])
async def test_clock_starts_afresh(database: Database, nats: EmbeddedNats, keys: KeyFiles, held: str) -> None:
    async with (
        linked(database.server.port) as to_postgres,
        linked(nats.port) as to_nats,
        log_reader(database) as reader,
    ):
        direct = settings_for(database, keys, nats)
        settings = direct.model_copy(
            update={"postgres_dsn": to_postgres.url(direct.postgres_dsn), "nats_url": to_nats.url(direct.nats_url)}
        )
        async with build(settings) as address:
            service = Service(str(address), Signer.from_file(keys.signing_key))
            game_id = await create_game(service, people=4, clock=CLOCK)
            link = to_postgres if held == "postgres" else to_nats
            link.hold()
            await asyncio.sleep(HELD_SECONDS)
            link.mend()
            log = GameLog(reader, game_id)
            async with asyncio.timeout(CALL_SECONDS):
                while not (moves := await moved_at(log)):
                    await asyncio.sleep(0.05)
            await service.close()
        moved, version = log.event(moves[0]), moves[0]
        # More than once where the process itself stood still as well.
        assert {type(log.event(each)) for each in range(2, version)} == {ClockResumed}
        assert isinstance(moved, Moved)
        assert moved.decider is Decider.CLOCK
        assert log.commit(version).decided_at_us - log.commit(version - 1).decided_at_us >= CLOCK_SECONDS * 1_000_000


async def moved_at(log: GameLog) -> list[int]:
    """The versions at which somebody's decision was made."""
    await log.refresh()
    return [version for version in range(2, log.version + 1) if isinstance(log.event(version), Moved)]
