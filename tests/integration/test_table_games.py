"""Opening games: prepare, create and cancel, repeated, raced and cut off; and who sees which game in a list."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import grpc
import pytest
from google.rpc import status_pb2
from levata.table.v1 import games_pb2, table_pb2

from chassis.auth import KeyFiles
from chassis.errors import Refused
from chassis.log import LogReader
from rules import registry
from rules.game import Game
from services.table.domain import Kind
from tests.conftest import Database
from tests.table_client import (
    SEAT_ACCOUNTS,
    STRANGER,
    Player,
    Refusal,
    Service,
    bot,
    create_game,
    log_reader,
    person,
    prepare_game,
    refused,
    running,
)

INVALID = grpc.StatusCode.INVALID_ARGUMENT
CREATED, CANCELLED = games_pb2.CancelResponse.OUTCOME_CREATED, games_pb2.CancelResponse.OUTCOME_CANCELLED
GAME_NOT_FOUND = Refusal("GAME_NOT_FOUND", grpc.StatusCode.NOT_FOUND)
GAME_CANCELLED = Refusal("GAME_CANCELLED", grpc.StatusCode.FAILED_PRECONDITION)
GAME_ALREADY_CREATED = Refusal("GAME_ALREADY_CREATED", grpc.StatusCode.ALREADY_EXISTS)
RACERS = 50


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


def prepare(
    seats: int = 4,
    variant: str = "8-1-8",
    game_type: str = "romanian_whist",
    mode: table_pb2.Mode.ValueType = table_pb2.MODE_FRIENDLY,
) -> games_pb2.PrepareRequest:
    """A fresh request."""
    return games_pb2.PrepareRequest(
        request_id=str(uuid4()),
        game_type=game_type,
        variant=variant,
        seats=seats,
        mode=mode,
    )


def reason_in(status: status_pb2.Status) -> str:
    """Why one of many was refused."""
    return Refused.from_status(status).reason


def create(game_id: str, *accounts: str) -> games_pb2.CreateRequest:
    """A game of four of these accounts, and bots."""
    seats = [person(account) for account in accounts] + [bot()] * (4 - len(accounts))
    # Bots wait for the first person: what a test reads does not change under it.
    clock = games_pb2.ClockOptions(bid_seconds=3600, card_seconds=3600)
    return games_pb2.CreateRequest(game_id=game_id, seats=seats, clock=clock)


def cancel(game_id: str) -> games_pb2.CancelRequest:
    """Close an id."""
    return games_pb2.CancelRequest(game_id=game_id)


# Prepare


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (prepare(5, "quick"), "SEATS_NOT_ALLOWED"),
        (prepare(3), "SEATS_NOT_ALLOWED"),
        (prepare(4, "no-such-variant"), "UNKNOWN_VARIANT"),
        (prepare(game_type="no_such_game"), "UNKNOWN_GAME"),
        (prepare(7, "amsterdam", "klaverjas"), "SEATS_NOT_ALLOWED"),
        (prepare(6, "1-8-1", mode=table_pb2.MODE_QUICK_PLAY), "NOT_IN_QUICK_PLAY"),
        (prepare(4, mode=table_pb2.MODE_QUICK_PLAY), "NOT_IN_QUICK_PLAY"),
        (prepare(7, "standard", "oh_hell", table_pb2.MODE_QUICK_PLAY), "NOT_IN_QUICK_PLAY"),
        (prepare(1), "INVALID_REQUEST"),
        (prepare(2**32 - 1), "INVALID_REQUEST"),
    ],
)
async def test_prepare_refuses_what_cannot_be_played(
    service: Service, request_: games_pb2.PrepareRequest, reason: str
) -> None:
    assert await refused(service.games.Prepare(request_)) == Refusal(reason, INVALID)


@pytest.mark.parametrize("game", registry.GAMES, ids=lambda game: game.game_type)
async def test_prepare_takes_what_the_rooms_have(service: Service, game: Game) -> None:
    for variant, seats in game.quick_play.items():
        request_ = prepare(seats, variant, game.game_type, table_pb2.MODE_QUICK_PLAY)
        assert len((await service.games.Prepare(request_)).commitment) == 32


async def test_players_may_not_open_games(service: Service) -> None:
    games = service.games_as_player(SEAT_ACCOUNTS[0])
    game_id = await prepare_game(service)
    role_required = Refusal("ROLE_REQUIRED", grpc.StatusCode.PERMISSION_DENIED)
    assert await refused(games.Prepare(prepare())) == role_required
    assert await refused(games.Create(create(game_id))) == role_required
    assert await refused(games.Cancel(cancel(game_id))) == role_required


async def test_same_request_prepares_the_same_game(service: Service) -> None:
    request = prepare()
    answers = await asyncio.gather(*(service.games.Prepare(request) for _ in range(20)))
    assert len({(answer.game_id, answer.commitment) for answer in answers}) == 1
    assert UUID(answers[0].game_id).version == 7
    other = games_pb2.PrepareRequest()
    other.CopyFrom(request)
    other.seats = 5
    assert await refused(service.games.Prepare(other)) == Refusal("REQUEST_ID_REUSED", grpc.StatusCode.ALREADY_EXISTS)


# Create


async def test_create_and_cancel_want_a_prepared_id(service: Service) -> None:
    assert await refused(service.games.Create(create(str(uuid4())))) == GAME_NOT_FOUND
    assert await refused(service.games.Cancel(cancel(str(uuid4())))) == GAME_NOT_FOUND


async def test_create_refuses_wrong_seats_and_the_id_stays_good(service: Service) -> None:
    game_id = await prepare_game(service)
    twice = create(game_id, SEAT_ACCOUNTS[0], SEAT_ACCOUNTS[0].upper())
    assert await refused(service.games.Create(twice)) == Refusal("SEATED_TWICE", INVALID)
    too_few = games_pb2.CreateRequest(game_id=game_id, seats=[bot()] * 3)
    assert await refused(service.games.Create(too_few)) == Refusal("SEATS_NOT_ALLOWED", INVALID)
    unknown_bot = games_pb2.SeatSetup(bot=games_pb2.BotSeat(level="omniscient"))
    request = games_pb2.CreateRequest(game_id=game_id, seats=[bot()] * 3 + [unknown_bot])
    assert await refused(service.games.Create(request)) == Refusal("UNKNOWN_BOT", INVALID)
    long_nonce = games_pb2.SeatSetup(bot=games_pb2.BotSeat(), nonce=bytes(33))
    request = games_pb2.CreateRequest(game_id=game_id, seats=[bot()] * 3 + [long_nonce])
    assert await refused(service.games.Create(request)) == Refusal("INVALID_REQUEST", INVALID)
    assert (await service.games.Create(create(game_id, SEAT_ACCOUNTS[0]))).version == 1


async def test_create_may_be_repeated_with_the_same_content_only(service: Service) -> None:
    game_id = await prepare_game(service)
    request = create(game_id, *SEAT_ACCOUNTS[:2])
    answers = await asyncio.gather(*(service.games.Create(request) for _ in range(20)))
    assert {answer.version for answer in answers} == {1}
    assert await refused(service.games.Create(create(game_id, STRANGER))) == GAME_ALREADY_CREATED
    # It is one running game: its stream goes up one by one.
    players = [Player(service, account, game_id) for account in SEAT_ACCOUNTS[:2]]
    await asyncio.gather(*(player.watch_to_the_end() for player in players))


async def test_cancel_closes_an_id_for_good(service: Service) -> None:
    game_id = await prepare_game(service)
    for _ in range(3):
        assert (await service.games.Cancel(cancel(game_id))).outcome == CANCELLED
    assert await refused(service.games.Create(create(game_id, SEAT_ACCOUNTS[0]))) == GAME_CANCELLED
    watch = table_pb2.WatchRequest(game_id=game_id)
    assert await refused(service.table(SEAT_ACCOUNTS[0]).Watch(watch)) == GAME_NOT_FOUND


async def test_cancel_of_a_running_game_changes_nothing(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=4)
    before = await reader.read(UUID(game_id))
    assert (await service.games.Cancel(cancel(game_id))).outcome == CREATED
    assert await reader.read(UUID(game_id)) == before


@pytest.mark.parametrize("round_", range(4))
async def test_creates_and_cancels_under_one_id_agree(service: Service, reader: LogReader, round_: int) -> None:
    game_id = await prepare_game(service)
    creates = [service.games.Create(create(game_id, SEAT_ACCOUNTS[0])) for _ in range(RACERS)]
    cancels = [service.games.Cancel(cancel(game_id)) for _ in range(RACERS)]
    # Whoever is first in line most often wins: let both win in some rounds.
    in_line = [*creates, *cancels] if round_ % 2 else [*cancels, *creates]
    answers = await asyncio.gather(*in_line, return_exceptions=True)
    (row,) = (await reader.read(UUID(game_id), 0, 10))[:1]
    created = bool(row.kinds & Kind.CREATED)
    assert created != bool(row.kinds & Kind.CANCELLED)
    kinds = Counter(
        "created" if isinstance(answer, games_pb2.CreateResponse) else getattr(answer, "outcome", answer)
        for answer in answers
        if not isinstance(answer, grpc.aio.AioRpcError)
    )
    refusals = {
        await refused(call) for call, answer in zip(in_line, answers, strict=True) if isinstance(answer, Exception)
    }
    assert kinds == ({"created": RACERS, CREATED: RACERS} if created else {CANCELLED: RACERS})
    assert refusals == (set() if created else {GAME_CANCELLED})


async def test_create_that_its_caller_gave_up_still_makes_a_game_that_runs(service: Service, reader: LogReader) -> None:
    """The commit cannot be taken back, so the game must be hosted, whoever waits for the answer."""
    committed = 0
    pause = 1 / 2000
    # On a slow machine calls are cancelled before they did anything.
    while not committed:
        games = [await prepare_game(service) for _ in range(20)]
        for number, game_id in enumerate(games):
            call = service.games.Create(create(game_id, SEAT_ACCOUNTS[0]))
            await asyncio.sleep(number * pause)
            call.cancel()
        pause *= 2
        for game_id in games:
            if (await service.games.Cancel(cancel(game_id))).outcome == CANCELLED:
                continue
            committed += 1
            player = Player(service, SEAT_ACCOUNTS[0], game_id)
            async for message in player.watch():
                player.take(message)
                break
            assert player.snapshot is not None


# List


async def listed(service: Service, account: str, page_size: int = 0, running_only: bool = False) -> list[str]:
    """All games in an account's list, page by page."""
    ids: list[str] = []
    request = table_pb2.ListRequest(page_size=page_size, running_only=running_only)
    while True:
        page = await service.table(account).List(request)
        ids += [game.game_id for game in page.games]
        if not page.next_page_token:
            return ids
        request.page_token = page.next_page_token


async def test_list_has_own_games_newest_first_in_pages(service: Service) -> None:
    account, other = str(uuid4()), str(uuid4())
    ids = [await prepare_game(service) for _ in range(7)]
    for game_id in ids:
        await service.games.Create(create(game_id, account, *SEAT_ACCOUNTS[:3]))
    for page_size in (0, 1, 3, 7):
        assert await listed(service, account, page_size) == ids[::-1]
    assert await listed(service, account, 2, running_only=True) == ids[::-1]
    assert await listed(service, other) == []
    bad_token = table_pb2.ListRequest(page_token="next, please")
    assert await refused(service.table(account).List(bad_token)) == Refusal("PAGE_TOKEN_INVALID", INVALID)


async def test_list_leaves_out_games_that_never_were(service: Service) -> None:
    account = str(uuid4())
    cancelled, mine = [await prepare_game(service) for _ in range(2)]
    await service.games.Cancel(cancel(cancelled))
    assert await refused(service.games.Create(create(cancelled, account))) == GAME_CANCELLED
    await service.games.Create(create(mine, account))
    assert await listed(service, account) == [mine]


async def test_list_leaves_out_games_in_which_one_was_not_seated(service: Service) -> None:
    account = str(uuid4())
    game_id = await prepare_game(service)
    await service.games.Create(create(game_id, *SEAT_ACCOUNTS[:4]))
    assert await refused(service.games.Create(create(game_id, account))) == GAME_ALREADY_CREATED
    mine = [await prepare_game(service) for _ in range(3)]
    for one in mine:
        await service.games.Create(create(one, account, *SEAT_ACCOUNTS[:3]))
    assert await listed(service, account, 1) == mine[::-1]


async def test_many_games_in_one_call_are_answered_each_for_itself(service: Service) -> None:
    wanted = [prepare(), prepare(seats=2), prepare(game_type="whist_of_the_moon"), prepare()]
    prepared = (await service.games.PrepareAll(games_pb2.PrepareAllRequest(games=wanted))).games
    assert [game.WhichOneof("outcome") for game in prepared] == ["prepared", "refusal", "refusal", "prepared"]
    again = (await service.games.PrepareAll(games_pb2.PrepareAllRequest(games=wanted[:1]))).games
    assert again[0].prepared == prepared[0].prepared
    one, other = prepared[0].prepared.game_id, prepared[3].prepared.game_id
    await service.games.Cancel(games_pb2.CancelRequest(game_id=other))
    asked = [create(one), create(other), create(str(uuid4()))]
    for _ in range(2):
        created = (await service.games.CreateAll(games_pb2.CreateAllRequest(games=asked))).games
        assert created[0].created.version == 1
        reasons = [reason_in(game.refusal) for game in created[1:]]
        assert reasons == ["GAME_CANCELLED", "GAME_NOT_FOUND"]
