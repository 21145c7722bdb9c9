"""Sharp bots at the table: they think in processes of their own, and those may die."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from uuid import UUID

import grpc
import psutil
import pytest
from levata.table.v1 import games_pb2, play_pb2, table_pb2

from chassis.auth import KeyFiles
from rules.moves import Move
from services.table import domain
from services.table.app.thinking import Thinkers
from services.table.domain import BotQuestion, Decider, Moved
from services.table.store.codec import decode
from tests.conftest import Database
from tests.table_client import (
    SEAT_ACCOUNTS,
    GameLog,
    Player,
    Service,
    log_reader,
    person,
    prepare_game,
    refused,
    running,
)


@pytest.fixture
async def service(database: Database, keys: KeyFiles) -> AsyncIterator[Service]:
    """A table service on a database of its own."""
    async with running(database, keys) as started:
        yield started


async def open_euchre(
    service: Service,
    mode: table_pb2.Mode.ValueType = table_pb2.MODE_SOLO,
    clock: games_pb2.ClockOptions | None = None,
) -> str:
    """Euchre of one person and three sharp bots."""
    game_id = await prepare_game(service, game_type="euchre", variant="standard", mode=mode)
    sharp = games_pb2.SeatSetup(bot=games_pb2.BotSeat(level="sharp"))
    seats = [person(SEAT_ACCOUNTS[0]), sharp, sharp, sharp]
    await service.games.Create(games_pb2.CreateRequest(game_id=game_id, seats=seats, clock=clock))
    return game_id


def thinking_processes() -> list[psutil.Process]:
    """The processes that this one has started for bots."""
    found = []
    for child in psutil.Process().children():
        # It may have ended since.
        with suppress(psutil.Error):
            if "multiprocessing.spawn" in " ".join(child.cmdline()):
                found.append(child)
    return found


async def test_sharp_bots_play_a_whole_game_as_they_would_anywhere(service: Service, database: Database) -> None:
    game_id = await open_euchre(service)
    await Player(service, SEAT_ACCOUNTS[0], game_id).watch_to_the_end()
    table = None
    recomputed = 0
    async with log_reader(database) as reader:
        for row in await reader.read(UUID(game_id)):
            commit = decode(row.version, row.payload, UUID(game_id).bytes)
            move = next((event for event in commit.events if isinstance(event, Moved)), None)
            # A few of them: each takes as long here as it took there.
            if table is not None and move is not None and move.decider is Decider.BOT and row.version % 10 == 0:
                assert table.bot_move() == move.move
                recomputed += 1
            table = domain.apply(table, commit)
    assert table is not None and table.finished is not None
    assert recomputed > 0


async def test_a_dead_thinking_process_costs_no_game(service: Service) -> None:
    game_id = await open_euchre(service)
    player = Player(service, SEAT_ACCOUNTS[0], game_id)
    playing = asyncio.create_task(player.watch_to_the_end())
    killed = 0
    while not playing.done() and killed < 3:
        for process in thinking_processes():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
                killed += 1
        await asyncio.sleep(0.2)
    await playing
    assert killed > 0
    assert player.over


async def test_a_bot_that_thinks_longer_than_people_may_is_not_played_for(
    service: Service, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_answer = asyncio.Event()
    decide = Thinkers.decide

    async def slowly(thinkers: Thinkers, question: BotQuestion) -> Move:
        await may_answer.wait()
        return await decide(thinkers, question)

    monkeypatch.setattr(Thinkers, "decide", slowly)
    game_id = await open_euchre(service, table_pb2.MODE_FRIENDLY, games_pb2.ClockOptions(bid_seconds=1, card_seconds=1))
    async with log_reader(database) as reader:
        log = GameLog(reader, game_id)
        # If the person is to begin, the clock passes for them first.
        while not (await log.refresh()).server_decides:
            await asyncio.sleep(0.02)
        # Twice the time that a person has.
        await asyncio.sleep(2)
        asked = log.version
        await log.refresh()
        assert log.version == asked
        may_answer.set()
        while (await log.refresh()).play.deal == 0:
            await asyncio.sleep(0.02)
        assert log.table.away[1:] == (False,) * 3
        deciders = {
            event.decider
            for version in range(1, log.version + 1)
            for event in log.commit(version).events
            if isinstance(event, Moved) and event.seat > 0
        }
        assert deciders == {Decider.BOT}


async def test_commands_are_answered_while_a_bot_thinks(service: Service) -> None:
    game_id = await open_euchre(service)
    player = Player(service, SEAT_ACCOUNTS[0], game_id)
    stream = player.watch()
    player.take(await stream.read())
    while player.my_turn:
        assert player.decision is not None
        await player.act(player.decision.legal_moves[0])
        player.take(await stream.read())
    # It is a bot's turn, and its process is only starting.
    refusal = await refused(player.act(play_pb2.Move(play_card=play_pb2.CARD_2C)))
    assert refusal.code in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ABORTED)
    stream.cancel()


async def test_no_thinking_process_is_left(database: Database, keys: KeyFiles) -> None:
    async with running(database, keys) as service:
        await Player(service, SEAT_ACCOUNTS[0], await open_euchre(service)).watch_to_the_end()
        processes = thinking_processes()
        assert processes
    gone, alive = psutil.wait_procs(processes, timeout=60)
    assert len(gone) == len(processes) and not alive
