"""Who is there: a bot plays for who falls silent, and whoever is heard again decides again."""

import asyncio
import time
from collections.abc import AsyncIterator

import psycopg
import pytest
from levata.table.v1 import games_pb2, table_pb2

from chassis.auth import KeyFiles
from chassis.log import LogReader
from rules.moves import bid
from services.table.app import presence
from services.table.domain import ClockResumed, Decider, Moved, SeatChanged
from services.table.rpc import api
from services.table.rpc.messages import move_message
from tests.attendance import GRACE_SECONDS, PATIENT, SIGN_SECONDS, changes_of, here, staying, until
from tests.conftest import Database
from tests.table_client import (
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
)


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "GRACE_US", int(GRACE_SECONDS * 1_000_000))


@pytest.fixture
async def service(module_database: Database, keys: KeyFiles) -> AsyncIterator[Service]:
    """A table service."""
    async with running(module_database, keys) as started:
        yield started


@pytest.fixture
async def reader(module_database: Database) -> AsyncIterator[LogReader]:
    """The service's log."""
    async with log_reader(module_database) as opened:
        yield opened


def deciders_of(log: GameLog, seat: int, since: int = 1) -> list[Decider]:
    """Who decided for a seat, from a version on."""
    return [
        event.decider
        for version in range(since, log.version + 1)
        for event in log.commit(version).events
        if isinstance(event, Moved) and event.seat == seat
    ]


async def test_a_bot_plays_for_who_falls_silent_until_heard_again(service: Service, reader: LogReader) -> None:
    """The other one stays, and decides in between: the game goes on without the first."""
    game_id = await create_game(service, people=2, clock=PATIENT)
    log = GameLog(reader, game_id)
    script = Script(service, log)
    async with staying(service, game_id, SEAT_ACCOUNTS[0]):
        await until(log, lambda: log.table.away[1] and log.table.turn == 0)
        for _ in range(3):
            await script.act()
            await until(log, lambda: log.table.turn == 0)
        assert changes_of(log, 0) == []
        assert changes_of(log, 1) == [True]
        back = (await here(service, SEAT_ACCOUNTS[1], game_id)).version
        await until(log, lambda: not log.table.away[1])
        assert log.version >= back
        returned = log.version
        async with staying(service, game_id, SEAT_ACCOUNTS[1]):
            for _ in range(4):
                await until(log, lambda: log.table.turn in (0, 1))
                await script.act()
    # Only the person decided since.
    assert set(deciders_of(log, 1, returned)) == {Decider.PERSON}
    assert changes_of(log, 1)[:2] == [True, False]


async def test_the_bot_decides_when_silence_falls_on_the_own_turn(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=4, clock=PATIENT)
    log = GameLog(reader, game_id)
    table = await log.refresh()
    others = [account for seat, account in enumerate(SEAT_ACCOUNTS[:4]) if seat != table.turn]
    seat, choice = table.turn, table.bot_move()
    async with staying(service, game_id, *others):
        await until(log, lambda: log.version == 3)
        assert log.event(2) == SeatChanged(seat, table.occupants[seat], away=True)
        assert log.event(3) == Moved(seat, choice, Decider.BOT)
        # Not before the whole grace.
        assert log.commit(2).decided_at_us - log.commit(1).decided_at_us >= GRACE_SECONDS * 1_000_000


async def test_one_connection_of_several_is_enough(
    service: Service, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The phone's stream is open and says nothing; the browser's says that it is there."""
    # Against the short grace every sign counts.
    monkeypatch.setattr(api, "SIGNS_APART_SECONDS", 0.0)
    game_id = await create_game(service, people=1, clock=PATIENT)
    phone = service.raw_watch(SEAT_ACCOUNTS[0], game_id)
    await phone.read()
    log = GameLog(reader, game_id)
    async with PlayStream(service, SEAT_ACCOUNTS[0], game_id) as browser:
        for _ in range(int(2.5 * GRACE_SECONDS / SIGN_SECONDS)):
            await browser.write(table_pb2.PlayRequest(here=table_pb2.PlayHere()))
            await asyncio.sleep(SIGN_SECONDS)
        await log.refresh()
        assert changes_of(log, 0) == []
        # Open streams alone are no sign of life.
        await until(log, lambda: changes_of(log, 0) == [True])
    phone.cancel()


async def test_closing_a_stream_begins_the_grace_anew_but_brings_nobody_back(
    service: Service, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than the host takes to look, so that it shows from when the grace ran.
    grace_us = 2_500_000
    monkeypatch.setattr(presence, "GRACE_US", grace_us)
    game_id = await create_game(service, people=2, clock=PATIENT)
    log = GameLog(reader, game_id)
    closed_early, closed_late = (service.raw_watch(account, game_id) for account in SEAT_ACCOUNTS[:2])
    await asyncio.gather(closed_early.read(), closed_late.read())
    await asyncio.sleep(1.2)
    closed_us = time.time_ns() // 1000
    closed_early.cancel()
    await until(log, lambda: log.table.away[1])
    closed_late.cancel()
    await until(log, lambda: log.table.away[0])
    gone_us = next(
        log.commit(version).decided_at_us for version in range(1, log.version + 1) if log.tables[version - 1].away[0]
    )
    # The server measures its clock by the database, to some milliseconds.
    assert gone_us >= closed_us + grace_us - 50_000
    # Both are gone and the game goes on by itself: whoever closed late has not come back.
    assert (changes_of(log, 0), changes_of(log, 1)) == ([True], [True])


async def test_opening_a_stream_brings_back(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=2, clock=PATIENT)
    log = GameLog(reader, game_id)
    async with staying(service, game_id, SEAT_ACCOUNTS[0]):
        await until(log, lambda: log.table.away[1])
        watch = service.raw_watch(SEAT_ACCOUNTS[1], game_id)
        await until(log, lambda: changes_of(log, 1)[:2] == [True, False])
        watch.cancel()


async def test_a_spectator_is_nobodys_sign_of_life(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=2, clock=PATIENT)
    log = GameLog(reader, game_id)
    assert (await refused(here(service, STRANGER, game_id))).reason == "NOT_YOUR_SEAT"
    watching = [service.raw_watch(STRANGER, game_id) for _ in range(3)]
    async with staying(service, game_id, SEAT_ACCOUNTS[0]):
        await until(log, lambda: log.table.away[1])
    for watch in watching:
        watch.cancel()


async def test_two_expiries_are_not_ended_by_a_sign_of_life(service: Service, reader: LogReader) -> None:
    clock = games_pb2.ClockOptions(bid_seconds=1, card_seconds=1)
    game_id = await create_game(service, people=2, clock=clock)
    log = GameLog(reader, game_id)
    async with staying(service, game_id, *SEAT_ACCOUNTS[:2]):
        await until(log, lambda: any(log.table.away))
        seat = log.table.away.index(True)
        assert deciders_of(log, seat)[:2] == [Decider.CLOCK] * 2
        version = log.version
        for _ in range(5):
            await here(service, SEAT_ACCOUNTS[seat], game_id)
            await asyncio.sleep(SIGN_SECONDS)
        await log.refresh()
        assert log.table.away[seat]
        # An act that is good for nothing: a bid for a decision that was closed long ago.
        await refused(service.table(SEAT_ACCOUNTS[seat]).Act(act_request(game_id, move_message(bid(0)), 1)))
        await until(log, lambda: changes_of(log, seat)[:2] == [True, False])
    assert log.version > version


@pytest.mark.parametrize("mode", [table_pb2.MODE_SOLO])
async def test_games_without_clocks_wait(service: Service, reader: LogReader, mode: table_pb2.Mode.ValueType) -> None:
    game_id = await create_game(service, people=1, mode=mode)
    log = GameLog(reader, game_id)
    version = (await log.refresh()).version
    await asyncio.sleep(2 * GRACE_SECONDS)
    assert (await log.refresh()).version == version or not any(log.table.away)
    assert changes_of(log, 0) == []


async def test_silence_is_not_trusted_while_the_host_could_not_hear(
    service: Service, reader: LogReader, module_database: Database
) -> None:
    with psycopg.connect(module_database.admin_dsn) as connection:
        await asyncio.to_thread(connection.execute, "select * from tables.hosts for update")
        game_id = await create_game(service, people=4, clock=PATIENT)
        log = GameLog(reader, game_id)
        # A heartbeat has failed for certain when it took longer than two seconds.
        await asyncio.sleep(2.5 + GRACE_SECONDS)
        await log.refresh()
        assert log.version == 1
        await asyncio.to_thread(connection.rollback)
    ended_us = log.commit(1).decided_at_us + 2_500_000
    await until(log, lambda: all(log.table.away))
    gone = next(
        log.commit(version)
        for version in range(2, log.version + 1)
        if any(isinstance(event, SeatChanged) for event in log.commit(version).events)
    )
    assert gone.decided_at_us >= ended_us + GRACE_SECONDS * 1_000_000


async def test_a_new_host_waits_for_who_was_there_and_for_a_sign_of_who_was_not(
    database: Database, keys: KeyFiles
) -> None:
    async with log_reader(database) as reader:
        async with running(database, keys) as service:
            game_id = await create_game(service, people=3, clock=PATIENT)
            log = GameLog(reader, game_id)
            async with staying(service, game_id, *SEAT_ACCOUNTS[:2]):
                await until(log, lambda: log.table.away[2])
        await log.refresh()
        stopped = log.version
        async with running(database, keys) as service:
            await until(log, lambda: log.version > stopped)
            # Bots may have decided since.
            resumed = stopped + 1
            assert isinstance(log.event(resumed), ClockResumed)
            await until(log, lambda: log.table.away[0] and log.table.away[1])
            gone_us = next(
                log.commit(version).decided_at_us
                for version in range(resumed, log.version + 1)
                if any(isinstance(event, SeatChanged) for event in log.commit(version).events)
            )
            assert gone_us - log.commit(resumed).decided_at_us >= GRACE_SECONDS * 1_000_000
            assert changes_of(log, 2) == [True]
