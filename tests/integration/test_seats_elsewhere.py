"""Signs of life and seats at a replica that does not host the game: all as at the host."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import grpc
import pytest
from levata.table.v1 import play_pb2, table_pb2

from chassis.auth import KeyFiles
from chassis.log import LogReader
from rules.cards import members
from services.table.app import presence
from services.table.domain import Decider, Moved
from services.table.rpc import api
from services.table.rpc.messages import move_message
from tests.attendance import (
    GRACE_SECONDS,
    PATIENT,
    SIGN_SECONDS,
    assert_parted,
    changes_of,
    here,
    leave,
    rest_of,
    snapshot,
    staying,
    take,
    until,
    watch_request,
)
from tests.conftest import Database
from tests.table_client import (
    SEAT_ACCOUNTS,
    STRANGER,
    GameLog,
    PlayStream,
    Refusal,
    Script,
    Service,
    create_game,
    log_reader,
    refusal_of,
    refused,
    running_replicas,
)
from tools.embedded.nats import EmbeddedNats

TAKERS = 30


@pytest.fixture
async def replicas(module_database: Database, keys: KeyFiles, nats: EmbeddedNats) -> AsyncIterator[list[Service]]:
    """Two table services; the first hosts what a test creates there."""
    async with running_replicas(module_database, keys, nats) as started:
        yield started


@pytest.fixture
async def reader(module_database: Database) -> AsyncIterator[LogReader]:
    """The services' log."""
    async with log_reader(module_database) as opened:
        yield opened


async def test_who_is_heard_elsewhere_is_there(
    replicas: list[Service], reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One person over `Here` and one over `Play`, until the second says nothing any more; then it comes back."""
    monkeypatch.setattr(presence, "GRACE_US", int(GRACE_SECONDS * 1_000_000))
    # Against the short grace every sign counts.
    monkeypatch.setattr(api, "SIGNS_APART_SECONDS", 0.0)
    host, other = replicas
    game_id = await create_game(host, people=2, clock=PATIENT)
    log = GameLog(reader, game_id)
    async with staying(other, game_id, SEAT_ACCOUNTS[0]):
        async with PlayStream(other, SEAT_ACCOUNTS[1], game_id) as stream:
            for _ in range(int(2.5 * GRACE_SECONDS / SIGN_SECONDS)):
                await stream.write(table_pb2.PlayRequest(here=table_pb2.PlayHere()))
                await asyncio.sleep(SIGN_SECONDS)
            await log.refresh()
            assert (changes_of(log, 0), changes_of(log, 1)) == ([], [])
            await until(log, lambda: log.table.away[1])
            await asyncio.sleep(SIGN_SECONDS)
            await stream.write(table_pb2.PlayRequest(here=table_pb2.PlayHere()))
            await until(log, lambda: changes_of(log, 1)[:2] == [True, False])
        assert (await here(other, SEAT_ACCOUNTS[0], game_id)).version == (await log.refresh()).version
    assert (await refused(here(other, STRANGER, game_id))).reason == "NOT_YOUR_SEAT"


async def test_a_seat_is_left_and_taken_elsewhere(replicas: list[Service], reader: LogReader) -> None:
    host, other = replicas
    game_id = await create_game(host, people=4, clock=PATIENT)
    script = Script(host, GameLog(reader, game_id))
    log = script.log
    seat = (await log.refresh()).turn
    leaver = SEAT_ACCOUNTS[seat]
    streams = [replica.table(leaver).Watch(watch_request(game_id)) for replica in (host, other)]
    await asyncio.gather(*(stream.read() for stream in streams))
    going = leave(game_id)
    left_at = (await other.table(leaver).Leave(going)).version
    vacated = play_pb2.SeatInfo(bot_level="steady", vacated=True)
    for stream in streams:
        assert_parted(await rest_of(stream), seat, vacated)
    assert (await host.table(leaver).Leave(going)).version == left_at
    await until(log, lambda: log.version > left_at)
    streams = [replica.table(STRANGER).Watch(watch_request(game_id)) for replica in (host, other)]
    await asyncio.gather(*(stream.read() for stream in streams))
    coming = take(game_id, seat)
    taken_at = (await other.table(STRANGER).TakeSeat(coming)).version
    for stream in streams:
        assert_parted(await rest_of(stream), seat, play_pb2.SeatInfo(account_id=STRANGER))
    assert (await host.table(STRANGER).TakeSeat(coming)).version == taken_at
    # Both replicas show the new holder the hand, and the leaver none.
    table = await log.refresh()
    hand = [card + 1 for card in members(table.game.view(table.play, seat).hand)]
    for replica in replicas:
        assert (await snapshot(replica, STRANGER, game_id)).view.hand == hand
        assert not (await snapshot(replica, leaver, game_id)).view.hand
    while log.table.turn != seat:
        await script.act()
    move = next(members(log.table.legal))
    async with PlayStream(other, STRANGER, game_id, log.version) as play:
        answer = await play.act(move_message(move), log.version)
    await log.refresh()
    assert log.event(answer.commit.version) == Moved(seat, move, Decider.PERSON)
    mine = await other.table(STRANGER).List(table_pb2.ListRequest())
    assert [game.game_id for game in mine.games] == [game_id]


async def test_of_takers_at_all_replicas_one_gets_the_seat(replicas: list[Service], reader: LogReader) -> None:
    game_id = await create_game(replicas[0], people=4, clock=PATIENT)
    log = GameLog(reader, game_id)
    seat = (await log.refresh()).turn
    await replicas[0].table(SEAT_ACCOUNTS[seat]).Leave(leave(game_id))

    async def try_to_take(number: int) -> int | Refusal:
        table = replicas[number % 2].table(str(uuid4()))
        try:
            return int((await table.TakeSeat(take(game_id, seat))).version)
        except grpc.aio.AioRpcError as error:
            return refusal_of(error)

    answers = await asyncio.gather(*map(try_to_take, range(TAKERS)))
    assert sum(isinstance(answer, int) for answer in answers) == 1
    refusals = {answer for answer in answers if not isinstance(answer, int)}
    assert refusals == {Refusal("SEAT_TAKEN", grpc.StatusCode.FAILED_PRECONDITION)}
