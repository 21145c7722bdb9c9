"""The table service is killed while fifty games are played: all go on and finish, and nothing acknowledged is lost."""

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from chassis.auth import KeyFiles, Signer
from services.table.domain import ClockResumed
from tests.conftest import ROOMY_LIMITS, Database
from tests.persistent_players import PersistentPlayer, StreamingPlayer, WatchingPlayer, assert_kept
from tests.table_client import SEAT_ACCOUNTS, GameLog, Service, create_game, log_reader
from tools.embedded.process import free_port

ROOT = Path(__file__).parents[2]
GAMES = 50
START_SECONDS = 30
# Of a game's commits about.
COMMITS = 150


@asynccontextmanager
async def table_process(database: Database, keys: KeyFiles, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """The table service as a process of its own; it answers when the context begins."""
    environment = os.environ | {
        "LEVATA_POSTGRES_DSN": database.dsn("table"),
        "LEVATA_JWKS_FILE": str(keys.jwks),
        "LEVATA_LISTEN": f"127.0.0.1:{port}",
        "LEVATA_LIMITS": ROOMY_LIMITS,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.table", cwd=ROOT, env=environment, stdout=sys.stderr
    )
    try:
        async with asyncio.timeout(START_SECONDS):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                except OSError:
                    assert process.returncode is None
                    await asyncio.sleep(0.1)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.faults
@pytest.mark.slow
async def test_kill_during_fifty_games_loses_nothing(database: Database, keys: KeyFiles) -> None:
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print(f"SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    chance = random.Random(seed)
    port = free_port()
    service = Service(f"127.0.0.1:{port}", Signer.from_file(keys.signing_key))
    async with table_process(database, keys, port) as process:
        games = {game_id: await seated(service, game_id) for game_id in [await new_game(service) for _ in range(GAMES)]}
        players = [player for seated_players in games.values() for player in seated_players]
        playing = [asyncio.create_task(player.play_out()) for player in players]
        await progressed(players, playing, GAMES * COMMITS * chance.uniform(0.1, 0.6))
        running_then = [game_id for game_id, (first, _) in games.items() if not first.over]
        process.kill()
        await process.wait()
    async with table_process(database, keys, port):
        await asyncio.gather(*playing)
    await service.close()
    assert running_then, "all games were over before the kill"
    async with log_reader(database) as reader:
        for game_id, seated_players in games.items():
            log = GameLog(reader, game_id)
            await assert_kept(log, seated_players)
            if game_id in running_then:
                resumed = [
                    event
                    for version in range(1, log.version + 1)
                    for event in log.commit(version).events
                    if isinstance(event, ClockResumed)
                ]
                assert [event.epoch for event in resumed] == [2]
    assert any(player.breaks for player in players)


async def new_game(service: Service) -> str:
    """Six seats, two of them people's."""
    return await create_game(service, people=2, seats=6, variant="quick")


async def seated(service: Service, game_id: str) -> tuple[PersistentPlayer, PersistentPlayer]:
    """The people of a game, one on each road."""
    first, second = SEAT_ACCOUNTS[:2]
    return WatchingPlayer(service, first, game_id), StreamingPlayer(service, second, game_id)


async def progressed(players: list[PersistentPlayer], playing: list[asyncio.Task[None]], commits: float) -> None:
    """When so many commits have been seen, every game's counted once."""
    while sum(player.version for player in players) / 2 < commits:
        for task in playing:
            if task.done():
                task.result()
        await asyncio.sleep(0.01)
