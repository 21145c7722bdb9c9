"""Seats that are left and taken over gRPC: by whom, once, and with what everybody sees afterwards."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import grpc
import psycopg
import pytest
from levata.table.v1 import facts_pb2, games_pb2, play_pb2, table_pb2

from chassis.auth import KeyFiles
from chassis.log import LogReader
from rules.cards import members
from services.table.app.running import COMMANDS_OF_ONE_MAX
from services.table.domain import Decider, Moved, Occupant, SeatChanged
from services.table.rpc.messages import move_message
from tests.attendance import PATIENT, assert_parted, leave, rest_of, snapshot, take, watch_request
from tests.conftest import Database
from tests.table_client import (
    CALL_SECONDS,
    SEAT_ACCOUNTS,
    STRANGER,
    GameLog,
    PlayStream,
    Refusal,
    Script,
    Service,
    act_request,
    create_game,
    log_reader,
    person,
    prepare_game,
    refusal_of,
    refused,
    running,
)

PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
NOT_YOUR_SEAT = Refusal("NOT_YOUR_SEAT", grpc.StatusCode.PERMISSION_DENIED)
TAKERS = 50


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


async def quick_play(service: Service) -> str:
    """A running quick-play game of whist with six people."""
    game_id = await prepare_game(service, seats=6, variant="quick", mode=table_pb2.MODE_QUICK_PLAY)
    seats = [person(account) for account in SEAT_ACCOUNTS]
    await service.games.Create(games_pb2.CreateRequest(game_id=game_id, seats=seats, clock=PATIENT))
    return game_id


def facts_of(database: Database, game_id: str) -> list[facts_pb2.SeatChangedFact]:
    """The changes of seats that others hear of."""
    with psycopg.connect(database.admin_dsn) as connection:
        rows = connection.execute(
            "select payload from tables.facts where subject = %s order by fact_no",
            [f"levata.games.seat_changed.{game_id}"],
        ).fetchall()
    return [facts_pb2.GameFact.FromString(payload).seat_changed for (payload,) in rows]


# Leaving


async def test_quick_play_is_left_for_good(service: Service, reader: LogReader, module_database: Database) -> None:
    game_id = await quick_play(service)
    log = GameLog(reader, game_id)
    table = await log.refresh()
    seat = table.turn
    leaver, other = SEAT_ACCOUNTS[seat], SEAT_ACCOUNTS[seat - 1]
    phone, browser, watching = (service.table(each).Watch(watch_request(game_id)) for each in (leaver, leaver, other))
    for stream in (phone, browser, watching):
        await stream.read()
    version = (await service.table(leaver).Leave(leave(game_id))).version
    bot = play_pb2.SeatInfo(bot_level="steady")
    for stream in (phone, browser):
        assert_parted(await rest_of(stream), seat, bot)
    # The bot decides at once, and the others hear of both.
    changed, moved = await watching.read(), await watching.read()
    assert changed.commit.events[0].seat_changed.info == bot
    assert moved.commit.events[0].moved.decider == play_pb2.DECIDER_BOT
    watching.cancel()
    # It is not the leaver's game any more.
    table_of_leaver = service.table(leaver)
    assert await refused(table_of_leaver.Watch(watch_request(game_id))) == NOT_YOUR_SEAT
    assert await refused(table_of_leaver.Watch(watch_request(game_id, version - 1))) == NOT_YOUR_SEAT
    assert await refused(table_of_leaver.Here(table_pb2.HereRequest(game_id=game_id))) == NOT_YOUR_SEAT
    assert await refused(table_of_leaver.Act(act_request(game_id, move_message(0), version))) == NOT_YOUR_SEAT
    replay = table_of_leaver.Replay(table_pb2.ReplayRequest(game_id=game_id))
    assert await refused(replay) == Refusal("GAME_RUNNING", grpc.StatusCode.PERMISSION_DENIED)
    assert await refused(table_of_leaver.TakeSeat(take(game_id, seat))) == Refusal("SEATS_NOT_OPEN", PRECONDITION)
    await log.refresh()
    assert log.event(version) == SeatChanged(seat, Occupant(bot_level="steady"), away=False)
    assert [(fact.seat, fact.left_account_id, fact.now.bot_level) for fact in facts_of(module_database, game_id)] == [
        (seat, leaver, "steady")
    ]


async def test_the_last_ones_to_leave_do_not_stop_the_game(service: Service, reader: LogReader) -> None:
    game_id = await quick_play(service)
    await asyncio.gather(*(service.table(account).Leave(leave(game_id)) for account in SEAT_ACCOUNTS))
    log = GameLog(reader, game_id)
    async with asyncio.timeout(60):
        while not (log.rows and log.table.over):
            await asyncio.sleep(0.1)
            await log.refresh()
    finished = log.table.finished
    assert finished is not None
    assert [seat.left for seat in finished.seats] == [(account,) for account in SEAT_ACCOUNTS]
    assert not any(seat.eligible or seat.holder.account for seat in finished.seats)


@pytest.mark.parametrize("mode", [table_pb2.MODE_SOLO])
async def test_a_game_that_waits_is_not_left(service: Service, mode: table_pb2.Mode.ValueType) -> None:
    game_id = await create_game(service, people=1, mode=mode)
    game_waits = Refusal("GAME_WAITS", PRECONDITION)
    assert await refused(service.table(SEAT_ACCOUNTS[0]).Leave(leave(game_id))) == game_waits
    assert await refused(service.table(STRANGER).Leave(leave(game_id))) == NOT_YOUR_SEAT


async def test_seats_are_for_players_with_a_game(service: Service) -> None:
    nowhere = str(UUID("00000000-0000-7000-8000-000000000000"))
    not_found = Refusal("GAME_NOT_FOUND", grpc.StatusCode.NOT_FOUND)
    assert await refused(service.table(STRANGER).Leave(leave(nowhere))) == not_found
    assert await refused(service.table(STRANGER).TakeSeat(take(nowhere, 0))) == not_found
    role_required = Refusal("ROLE_REQUIRED", grpc.StatusCode.PERMISSION_DENIED)
    assert await refused(service.with_service_token().Leave(leave(nowhere))) == role_required
    assert await refused(service.with_service_token().TakeSeat(take(nowhere, 0))) == role_required
    for request in (leave("no id"), leave(nowhere, "no id")):
        assert (await refused(service.table(STRANGER).Leave(request))).reason == "INVALID_REQUEST"
    for claim in (take("no id", 0), take(nowhere, 7), take(nowhere, 0, "no id")):
        assert (await refused(service.table(STRANGER).TakeSeat(claim))).reason == "INVALID_REQUEST"


# Taking


async def test_a_friendly_seat_is_left_watched_taken_and_played_on(
    service: Service, reader: LogReader, module_database: Database
) -> None:
    game_id = await create_game(service, people=4, clock=PATIENT)
    script = Script(service, GameLog(reader, game_id))
    log = script.log
    await log.refresh()
    for _ in range(6):
        await script.act()
    seat = log.table.turn
    leaver = SEAT_ACCOUNTS[seat]
    old, spectating = (service.table(account).Watch(watch_request(game_id)) for account in (leaver, STRANGER))
    await asyncio.gather(old.read(), spectating.read())
    left_at = (await service.table(leaver).Leave(leave(game_id))).version
    vacated = play_pb2.SeatInfo(bot_level="steady", vacated=True)
    assert_parted(await rest_of(old), seat, vacated)
    # The leaver watches now, as others do; the bot has decided first.
    async with asyncio.timeout(CALL_SECONDS):
        while log.version <= left_at:
            await log.refresh()
    seen = await snapshot(service, leaver, game_id)
    assert seen == await snapshot(service, STRANGER, game_id)
    assert not seen.view.HasField("seat")
    assert not seen.view.hand
    assert seen.seats[seat] == vacated
    # And somebody takes the seat.
    taken_at = (await service.table(STRANGER).TakeSeat(take(game_id, seat))).version
    holder = play_pb2.SeatInfo(account_id=STRANGER)
    assert_parted(await rest_of(spectating), seat, holder)
    mine = await snapshot(service, STRANGER, game_id)
    assert (mine.view.seat, mine.seats[seat]) == (seat, holder)
    table = await log.refresh()
    assert [card - 1 for card in mine.view.hand] == list(members(table.game.view(table.play, seat).hand))
    # The taker plays on from there; the log knows from which version on.
    while log.table.turn != seat:
        await script.act()
    move = next(members(log.table.legal))
    async with PlayStream(service, STRANGER, game_id, log.version) as stream:
        answer = await stream.act(move_message(move), log.version)
    await log.refresh()
    assert log.event(answer.commit.version) == Moved(seat, move, Decider.PERSON)
    bots_moves = [event for version in range(left_at, taken_at) for event in log.commit(version).events]
    assert [event.decider for event in bots_moves if isinstance(event, Moved) and event.seat == seat] == [Decider.BOT]
    assert [(fact.seat, fact.left_account_id, fact.now.account_id) for fact in facts_of(module_database, game_id)] == [
        (seat, leaver, ""),
        (seat, "", STRANGER),
    ]
    # The first holder cannot play any more, and comes back to nothing.
    act = act_request(game_id, move_message(move), log.version)
    assert await refused(service.table(leaver).Act(act)) == NOT_YOUR_SEAT
    assert await refused(service.table(leaver).TakeSeat(take(game_id, seat))) == Refusal("SEAT_TAKEN", PRECONDITION)


async def test_of_fifty_takers_one_gets_the_seat(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=4, clock=PATIENT)
    log = GameLog(reader, game_id)
    seat = (await log.refresh()).turn
    await service.table(SEAT_ACCOUNTS[seat]).Leave(leave(game_id))
    takers = [str(uuid4()) for _ in range(TAKERS)]

    async def try_to_take(account: str) -> int | Refusal:
        try:
            return int((await service.table(account).TakeSeat(take(game_id, seat))).version)
        except grpc.aio.AioRpcError as error:
            return refusal_of(error)

    answers = await asyncio.gather(*(try_to_take(account) for account in takers))
    versions = {account: answer for account, answer in zip(takers, answers, strict=True) if isinstance(answer, int)}
    assert len(versions) == 1
    assert {answer for answer in answers if not isinstance(answer, int)} == {Refusal("SEAT_TAKEN", PRECONDITION)}
    (account, version), *_ = versions.items()
    table = await log.refresh()
    assert table.seat_of(account) == seat
    assert log.event(version) == SeatChanged(seat, Occupant(account), away=False)


async def test_what_is_repeated_is_done_once(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=4, clock=PATIENT)
    log = GameLog(reader, game_id)
    seat = (await log.refresh()).turn
    leaver = service.table(SEAT_ACCOUNTS[seat])
    going, coming = leave(game_id), take(game_id, seat)
    # As many as one player may have waiting.
    at_once = range(COMMANDS_OF_ONE_MAX)
    gone = {answer.version for answer in await asyncio.gather(*(leaver.Leave(going) for _ in at_once))}
    assert len(gone) == 1
    back = {answer.version for answer in await asyncio.gather(*(leaver.TakeSeat(coming) for _ in at_once))}
    assert len(back) == 1
    # Late repetitions, when a new leaving would be possible, and the other way round.
    assert (await leaver.Leave(going)).version in gone
    again = leave(game_id)
    left = (await leaver.Leave(again)).version
    assert (await leaver.TakeSeat(coming)).version in back
    assert (await leaver.Leave(going)).version in gone
    assert (await leaver.Leave(again)).version == left
    # An id of the own that was used for something else.
    reused = Refusal("COMMAND_ID_REUSED", grpc.StatusCode.ALREADY_EXISTS)
    assert await refused(leaver.TakeSeat(take(game_id, seat, going.request_id))) == reused
    assert await refused(leaver.Leave(leave(game_id, coming.request_id))) == reused
    await log.refresh()
    changes = [event for version in range(2, log.version + 1) for event in log.commit(version).events]
    assert sum(isinstance(event, SeatChanged) for event in changes) == 3
    # Somebody else's id is nothing to us.
    other = service.table(SEAT_ACCOUNTS[(seat + 1) % 4])
    assert (await other.Leave(going)).version > left


async def test_a_lost_answer_is_found_after_the_seat_was_left(service: Service, reader: LogReader) -> None:
    """The move was applied, its answer lost, and then the player left: the same move is answered as before."""
    game_id = await create_game(service, people=4, clock=PATIENT)
    script = Script(service, GameLog(reader, game_id))
    table = await script.log.refresh()
    account = script.account
    request = script.request(next(members(table.legal)))
    version = (await service.table(account).Act(request)).version
    await service.table(account).Leave(leave(game_id))
    assert (await service.table(account).Act(request)).version == version


async def test_a_game_that_is_over_still_answers_what_was_done(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=1, seats=4, variant="1-8-1", clock=PATIENT)
    going = leave(game_id)
    version = (await service.table(SEAT_ACCOUNTS[0]).Leave(going)).version
    log = GameLog(reader, game_id)
    async with asyncio.timeout(60):
        while not (log.rows and log.table.over):
            await asyncio.sleep(0.1)
            await log.refresh()
    assert (await service.table(SEAT_ACCOUNTS[0]).Leave(going)).version == version
    finished = Refusal("GAME_FINISHED", PRECONDITION)
    assert await refused(service.table(SEAT_ACCOUNTS[0]).Leave(leave(game_id))) == finished
    assert await refused(service.table(STRANGER).TakeSeat(take(game_id, 0))) == finished
    seats = await listed(service, SEAT_ACCOUNTS[0], game_id)
    assert seats is not None
    assert seats.left


# Lists


async def listed(service: Service, account: str, game_id: str) -> table_pb2.GameSummary | None:
    """The game's line in the account's list, if it has one."""
    response = await service.table(account).List(table_pb2.ListRequest(page_size=200))
    return next((game for game in response.games if game.game_id == game_id), None)


async def test_lists_have_what_one_took_and_what_one_left(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=4, clock=PATIENT)
    taker, late = str(uuid4()), str(uuid4())
    # Whose turn it is not, or the bot would go on with the game.
    left = ((await GameLog(reader, game_id).refresh()).turn + 1) % 4
    leaver = SEAT_ACCOUNTS[left]
    line = await listed(service, leaver, game_id)
    assert line is not None
    assert not line.left
    await service.table(leaver).Leave(leave(game_id))
    line = await listed(service, leaver, game_id)
    assert line is not None
    assert line.left
    assert line.seats[left] == play_pb2.SeatInfo(bot_level="steady", vacated=True)
    assert line.version == (await GameLog(reader, game_id).refresh()).version
    await service.table(taker).TakeSeat(take(game_id, left))
    assert (await refused(service.table(late).TakeSeat(take(game_id, left)))).reason == "SEAT_TAKEN"
    line = await listed(service, taker, game_id)
    assert line is not None
    assert not line.left
    assert line.seats[left] == play_pb2.SeatInfo(account_id=taker)
    # Who was too late never held a seat.
    assert await listed(service, late, game_id) is None


async def test_a_guest_takes_a_seat_as_a_guest(service: Service) -> None:
    game_id = await create_game(service, people=4, clock=PATIENT)
    await service.table(SEAT_ACCOUNTS[0]).Leave(leave(game_id))
    guest = str(uuid4())
    token = service.signer.player_token(guest, True, 3600)
    await service.with_token(token).TakeSeat(take(game_id, 0))
    seen = await snapshot(service, STRANGER, game_id)
    assert seen.seats[0] == play_pb2.SeatInfo(account_id=guest, guest=True)
