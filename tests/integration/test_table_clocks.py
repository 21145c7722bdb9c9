"""Clocks of running games: who is late is played for, and nobody loses on time through trouble of ours."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress

import grpc
import psycopg
import pytest
from levata.table.v1 import games_pb2, play_pb2, table_pb2

from chassis.auth import KeyFiles
from chassis.log import LogReader
from rules.moves import bid
from services.table.app.running import RunningGame
from services.table.domain import ClockResumed, Decider, Event, Kind, Moved, SeatChanged
from services.table.rpc.messages import move_message
from tests.conftest import Database
from tests.table_client import (
    CALL_SECONDS,
    SEAT_ACCOUNTS,
    GameLog,
    Player,
    Service,
    create_game,
    log_reader,
    refused,
    running,
)

SHORT = games_pb2.ClockOptions(bid_seconds=1, card_seconds=1)


@pytest.fixture
async def service(database: Database, keys: KeyFiles) -> AsyncIterator[Service]:
    """A table service."""
    async with running(database, keys) as started:
        yield started


@pytest.fixture
async def reader(database: Database) -> AsyncIterator[LogReader]:
    """The service's log."""
    async with log_reader(database) as opened:
        yield opened


async def until(log: GameLog, reached: Callable[[], bool]) -> None:
    """Read on until the log is so far."""
    async with asyncio.timeout(CALL_SECONDS):
        while True:
            await log.refresh()
            if reached():
                return
            await asyncio.sleep(0.02)


def events(log: GameLog) -> Iterator[Event]:
    """All that has happened, the creation included."""
    for version in range(1, log.version + 1):
        yield from log.commit(version).events


def assert_no_expiry_was_early(log: GameLog) -> None:
    """A move of the clock is only ever made when the time of the very decision that it closes had run out."""
    for version in range(2, log.version + 1):
        commit, before = log.commit(version), log.tables[version - 2]
        for event in commit.events:
            if isinstance(event, Moved) and event.decider is Decider.CLOCK:
                assert commit.decided_at_us >= before.deadline_us
                assert event.move == before.bot_move()


async def test_who_is_late_twice_is_away_until_the_next_act(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=2, clock=SHORT)
    log = GameLog(reader, game_id)
    await until(log, lambda: any(log.table.away))
    seat = log.table.away.index(True)
    account = SEAT_ACCOUNTS[seat]
    deciders = [(event.seat, event.decider) for event in events(log) if isinstance(event, Moved) and event.seat == seat]
    assert deciders[:2] == [(seat, Decider.CLOCK)] * 2
    # An act that is good for nothing: a bid for a decision that was closed long ago.
    stale = table_pb2.ActRequest(
        game_id=game_id, command_id="00000000-0000-4000-8000-000000000000", at_version=1, move=move_message(bid(0))
    )
    with pytest.raises(grpc.aio.AioRpcError):
        await service.table(account).Act(stale)
    await until(log, lambda: not log.table.away[seat])
    changes = [event for event in events(log) if isinstance(event, SeatChanged) and event.seat == seat]
    assert [change.away for change in changes[:2]] == [True, False]
    assert_no_expiry_was_early(log)


async def test_game_that_everybody_left_is_played_out(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=2, variant="1-8-1", clock=SHORT)
    log = GameLog(reader, game_id)
    async with asyncio.timeout(60):
        while not (log.rows and log.rows[-1].kinds & Kind.FINISHED):
            await log.refresh()
            await asyncio.sleep(0.1)
    finished = log.table.finished
    assert finished is not None
    assert not any(seat.eligible for seat in finished.seats)
    assert log.table.away[:2] == (True, True)
    assert_no_expiry_was_early(log)


async def test_a_game_whose_clock_fails_stops_no_other(
    service: Service, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, sound = [await create_game(service, people=4, clock=SHORT) for _ in range(2)]
    look = RunningGame.look

    def failing(game: RunningGame, until_us: int, trusted_since_us: int) -> None:
        if str(game.game_id) == broken:
            raise AssertionError("a fault of ours")
        look(game, until_us, trusted_since_us)

    monkeypatch.setattr(RunningGame, "look", failing)
    log = GameLog(reader, sound)
    # On a slow machine the clock may begin anew first.
    await until(log, lambda: log.version > 2 and any(isinstance(event, Moved) for event in events(log)))
    moved = next(event for event in events(log) if isinstance(event, Moved))
    assert moved == Moved(log.tables[0].turn, log.tables[0].bot_move(), Decider.CLOCK)
    # The broken one is served no more; its log stays.
    watch = service.table(SEAT_ACCOUNTS[0]).Watch(table_pb2.WatchRequest(game_id=broken))
    assert (await refused(watch)).reason == "TEMPORARILY_UNAVAILABLE"
    stopped = GameLog(reader, broken)
    await stopped.refresh()
    assert stopped.version == 1


class Dawdler(Player):
    """Decides when its time is all but over, sometimes too late."""

    async def watch_to_the_end(self) -> None:
        """Until the first deal is scored."""
        async for message in self.watch():
            self.take(message)
            if self.commits and any(event.HasField("deal_scored") for event in self.commits[-1].events):
                return
            if self.my_turn:
                assert self.decision is not None
                await asyncio.sleep(1.0 + 0.05 * (self.version % 20))
                with suppress(grpc.aio.AioRpcError):
                    await self.act(self.decision.legal_moves[0])


async def test_move_and_expiry_at_the_same_time(service: Service, reader: LogReader) -> None:
    """One of the two decides: an expiry never closes the decision after the one that it was for."""
    game_id = await create_game(service, people=2, clock=SHORT)
    dawdlers = [Dawdler(service, account, game_id) for account in SEAT_ACCOUNTS[:2]]
    async with asyncio.timeout(90):
        await asyncio.gather(*(dawdler.watch_to_the_end() for dawdler in dawdlers))
    log = GameLog(reader, game_id)
    await log.refresh()
    assert_no_expiry_was_early(log)


@asynccontextmanager
async def heartbeats_blocked(database: Database) -> AsyncIterator[None]:
    """No replica can say that it is alive."""
    with psycopg.connect(database.admin_dsn) as connection:
        await asyncio.to_thread(connection.execute, "select * from tables.hosts for update")
        yield
        await asyncio.to_thread(connection.rollback)


async def test_nobody_loses_on_time_while_the_host_cannot_be_sure(
    service: Service, reader: LogReader, database: Database
) -> None:
    patience = 3
    clock = games_pb2.ClockOptions(bid_seconds=patience, card_seconds=patience)
    async with heartbeats_blocked(database):
        game_id = await create_game(service, people=4, clock=clock)
        log = GameLog(reader, game_id)
        await asyncio.sleep(2 * patience)
        await log.refresh()
        assert log.version == 1
    await until(log, lambda: any(isinstance(event, Moved) for event in events(log)))
    # First the clock starts afresh, once more for each heartbeat that was held up for longer; then it may run out.
    version = next(number for number in range(1, log.version + 1) if isinstance(log.event(number), Moved))
    moved = log.event(version)
    assert isinstance(moved, Moved) and moved.decider is Decider.CLOCK
    assert version >= 3
    assert all(isinstance(log.event(number), ClockResumed) for number in range(2, version))
    assert log.commit(version).decided_at_us - log.commit(version - 1).decided_at_us >= patience * 1_000_000
    assert_no_expiry_was_early(log)


async def test_after_a_restart_the_clock_starts_afresh(database: Database, keys: KeyFiles, reader: LogReader) -> None:
    clock = games_pb2.ClockOptions(bid_seconds=5, card_seconds=5)
    async with running(database, keys) as service:
        game_id = await create_game(service, people=4, clock=clock)
        log = GameLog(reader, game_id)
        await log.refresh()
    async with running(database, keys) as service:
        await until(log, lambda: log.version == 2)
        resumed = log.event(2)
        assert isinstance(resumed, ClockResumed)
        assert resumed.epoch == 2
        assert log.table.deadline_us == log.commit(2).decided_at_us + 5_000_000
        # A player hears of the new deadline.
        stream = service.table(SEAT_ACCOUNTS[0]).Watch(table_pb2.WatchRequest(game_id=game_id, after_version=1))
        message = await stream.read()
        assert message.commit.events[0].HasField("clock_resumed")
        assert message.commit.decision.phase == play_pb2.PHASE_BIDDING
        assert message.commit.decision.deadline_ms == log.table.deadline_us // 1000
        stream.cancel()
        # The restart itself cost nobody a decision.
        assert_no_expiry_was_early(log)


async def test_clock_of_a_deployment_that_lives_in_another_time(
    database: Database, keys: KeyFiles, reader: LogReader
) -> None:
    """All times are the database's, with the offset that tests and demonstrations set."""
    with psycopg.connect(database.admin_dsn, autocommit=True) as connection:
        connection.execute("update tables.clock_offset set amount = '30 minutes'")
    began_us = time.time_ns() // 1000
    async with running(database, keys) as service:
        game_id = await create_game(service, people=1, clock=SHORT)
        log = GameLog(reader, game_id)
        await until(log, lambda: any(log.table.away))
    assert log.commit(1).decided_at_us >= began_us + 29 * 60 * 1_000_000
    assert_no_expiry_was_early(log)
