"""Rude clients harm themselves: who floods a game, who reads nothing, and who opens connections and says nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import grpc
import pytest
from levata.table.v1 import games_pb2, table_pb2

from chassis.auth import KeyFiles, Signer
from chassis.errors import reason_in
from rules.cards import members
from services.table import __main__
from services.table.__main__ import build
from services.table.app import subscription
from services.table.app.host import Host
from services.table.app.running import COMMANDS_OF_ONE_MAX
from services.table.rpc.messages import move_message
from tests.conftest import Database
from tests.table_client import (
    CALL_SECONDS,
    SEAT_ACCOUNTS,
    STRANGER,
    GameLog,
    PlayStream,
    Script,
    Service,
    act_request,
    create_game,
    log_reader,
    refused,
    running,
    settings_for,
)
from tools.migrate import SCHEMAS

PATIENT = games_pb2.ClockOptions(bid_seconds=3600, card_seconds=3600)


async def until(true: Callable[[], bool]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(CALL_SECONDS):
        while not true():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def log_held(database: Database) -> AsyncIterator[None]:
    """Nothing can be appended to the log."""
    connection = await asyncpg.connect(database.admin_dsn)
    try:
        async with connection.transaction():
            await connection.execute(f"lock table {SCHEMAS['table'].name}.game_log in exclusive mode")
            yield
    finally:
        await connection.close()


async def test_who_floods_a_game_leaves_room_in_it_for_the_others(database: Database, keys: KeyFiles) -> None:
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(database, keys))
        reader = await stack.enter_async_context(log_reader(database))
        game_id = await create_game(service, people=4, variant="1-8-1", clock=PATIENT)
        script = Script(service, GameLog(reader, game_id))
        table = await script.log.refresh()
        rude, other = script.account, next(a for a in SEAT_ACCOUNTS[:4] if a != script.account)
        stream = await stack.enter_async_context(PlayStream(service, rude, game_id))
        assert await stream.read() is not None
        move = move_message(next(members(table.legal)))
        async with log_held(database):
            for _ in range(50):
                act = table_pb2.PlayMove(command_id=str(uuid4()), move=move, at_version=table.version)
                await stream.write(table_pb2.PlayRequest(act=act))
            # One is on its way to the log; of those that wait for it, only so many may.
            for _ in range(49 - COMMANDS_OF_ONE_MAX):
                refusal = (await stream.read_until(lambda message: message.HasField("refusal"))).refusal
                assert reason_in(refusal.status) == "GAME_BUSY"
            more = act_request(game_id, move, table.version)
            assert (await refused(service.table(rude).Act(more))).reason == "GAME_BUSY"
            patient = asyncio.create_task(refused(service.table(other).Act(act_request(game_id, move, table.version))))
            await asyncio.sleep(0.2)
            assert not patient.done()
        assert (await patient).reason != "GAME_BUSY"


async def test_who_reads_nothing_is_let_go_and_keeps_nothing(
    database: Database, keys: KeyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "BYTES_MAX", 4096)
    monkeypatch.setattr(subscription, "LINGER_SECONDS", 0.2)
    hosts: list[Host] = []

    class SeenHost(Host):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            hosts.append(self)

    monkeypatch.setattr(__main__, "Host", SeenHost)
    async with running(database, keys) as service:
        game_id = await create_game(service, people=2, variant="1-8-1", clock=PATIENT)
        watch = service.raw_watch(STRANGER, game_id)
        await watch.read()
        audience = hosts[0].games[UUID(game_id)].audience
        [lagging] = audience.subscriptions
        # More than the connection's window takes; grpc's own buffers are full then.
        for _ in range(400):
            lagging.push(bytes(1000), 0.0)
            await asyncio.sleep(0)
        assert sum(map(len, lagging._messages)) <= 4096
        await until(lambda: not audience.subscriptions)
        watch.cancel()


async def test_connections_that_say_nothing_are_closed_and_in_nobodys_way(database: Database, keys: KeyFiles) -> None:
    settings = settings_for(database, keys)
    strict = replace(settings.limits, handshake_timeout_ms=500, idle_connection_ms=1000)
    async with build(settings.model_copy(update={"limits": strict})) as address:
        silent = [await asyncio.open_connection(*address) for _ in range(200)]
        service = Service(str(address), Signer.from_file(keys.signing_key))
        game_id = await create_game(service, people=2, variant="1-8-1", clock=PATIENT)
        watch = service.table(STRANGER).Watch(table_pb2.WatchRequest(game_id=game_id))
        assert (await watch.read()).HasField("snapshot")
        async with asyncio.timeout(CALL_SECONDS):
            for reader, writer in silent:
                # The server has said its settings; then it ends the connection.
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()
        # One with a stream is not idle, however long nothing is asked on it.
        assert await watch.read() is not grpc.aio.EOF
        watch.cancel()
        await service.close()
