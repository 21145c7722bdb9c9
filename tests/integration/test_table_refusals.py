"""Every bad move is refused with its reason over both roads and changes nothing; a repeated one is applied once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import grpc
import pytest
from levata.table.v1 import games_pb2, play_pb2, table_pb2

from chassis.auth import KeyFiles, Signer, make_keys
from chassis.log import LogReader
from rules import moves
from rules.cards import SAME_SUIT, members
from rules.game import Phase
from rules.moves import ALL_CARDS, BID, Move, bid
from services.table.domain import Table
from services.table.rpc.messages import move_message
from tests.conftest import Database
from tests.table_client import (
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
    refusal_in,
    refused,
    running,
)

PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
INVALID = grpc.StatusCode.INVALID_ARGUMENT
STALE = Refusal("STALE", grpc.StatusCode.ABORTED)
FUTURE_VERSION = Refusal("FUTURE_VERSION", grpc.StatusCode.OUT_OF_RANGE)
COMMAND_ID_REUSED = Refusal("COMMAND_ID_REUSED", grpc.StatusCode.ALREADY_EXISTS)
NOT_YOUR_SEAT = Refusal("NOT_YOUR_SEAT", grpc.StatusCode.PERMISSION_DENIED)
GAME_NOT_FOUND = Refusal("GAME_NOT_FOUND", grpc.StatusCode.NOT_FOUND)

# Nobody's clock runs out in these tests.
PATIENT = games_pb2.ClockOptions(bid_seconds=3600, card_seconds=3600)


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


@pytest.fixture
async def script(service: Service, reader: LogReader) -> Script:
    """A game of four persons, right after its first deal."""
    game_id = await create_game(service, people=4, variant="1-8-1", clock=PATIENT)
    started = Script(service, GameLog(reader, game_id))
    await started.log.refresh()
    return started


async def assert_refused_both_ways(script: Script, account: str, request: table_pb2.ActRequest, why: Refusal) -> None:
    """Act and Play refuse it alike, and the game and its log are as they were."""
    before = await script.log.read_all()
    assert await refused(script.service.table(account).Act(request)) == why
    async with PlayStream(script.service, account, request.game_id) as stream:
        answer = await stream.act(request.move, request.at_version, request.command_id)
        assert refusal_in(answer) == why
        # Only the snapshot came before, and the stream goes on: the same again is refused again.
        kinds = [message.WhichOneof("kind") for message in stream.messages]
        # How many watch is told in between.
        assert [kind for kind in kinds if kind != "watching"] == ["snapshot", "refusal"]
        assert refusal_in(await stream.act(request.move, request.at_version, request.command_id)) == why
    assert await script.log.read_all() == before
    here = await script.service.table(SEAT_ACCOUNTS[0]).Here(table_pb2.HereRequest(game_id=request.game_id))
    assert here.version == len(before)


# Illegal moves


def hand(table: Table) -> int:
    """The cards of whose turn it is."""
    return int(table.game.view(table.play, table.turn).hand)


def illegal_cards(table: Table) -> list[Move]:
    """Cards in the hand that may not be played."""
    return list(members(hand(table) & ~table.legal)) if table.play.phase == Phase.PLAYING else []


def must_follow(table: Table) -> Move | None:
    """A held card that is not of the led suit, by a seat that could follow."""
    led_cards = SAME_SUIT[table.play.trick[0]] if table.play.trick else 0
    return next(iter(illegal_cards(table)), None) if table.legal & led_cards else None


def must_trump(table: Table) -> Move | None:
    """A held card that is neither of the led suit, in which the seat is void, nor a trump, which it holds."""
    led_cards = SAME_SUIT[table.play.trick[0]] if table.play.trick else 0
    return next(iter(illegal_cards(table)), None) if not table.legal & led_cards else None


def not_held(table: Table) -> Move | None:
    """A card of another hand."""
    return next(members(ALL_CARDS & ~hand(table))) if table.play.phase == Phase.PLAYING else None


def too_high_a_bid(table: Table) -> Move | None:
    """One more than there are cards."""
    size = table.created.setup.hand_sizes[table.play.deal]
    return bid(size + 1) if table.play.phase == Phase.BIDDING else None


def hooked_bid(table: Table) -> Move | None:
    """The bid with which the bids would come out even."""
    size = table.created.setup.hand_sizes[table.play.deal]
    forbidden = [bid(tricks) for tricks in range(size + 1) if not table.legal >> BID + tricks & 1]
    return forbidden[0] if table.play.phase == Phase.BIDDING and forbidden else None


def card_while_bidding(table: Table) -> Move | None:
    """A card of the own hand, too early."""
    return next(members(hand(table))) if table.play.phase == Phase.BIDDING else None


def bid_while_playing(table: Table) -> Move | None:
    """A bid, too late."""
    return bid(0) if table.play.phase == Phase.PLAYING else None


def pass_at_whist(table: Table) -> Move | None:
    """A move that the game does not know."""
    return moves.PASS


@pytest.mark.parametrize(
    ("wrong_move", "why"),
    [
        (must_follow, Refusal("MUST_FOLLOW_SUIT", PRECONDITION)),
        (must_trump, Refusal("MUST_TRUMP", PRECONDITION)),
        (not_held, Refusal("CARD_NOT_HELD", PRECONDITION)),
        (too_high_a_bid, Refusal("BID_OUT_OF_RANGE", INVALID)),
        (hooked_bid, Refusal("HOOK_FORBIDDEN", PRECONDITION)),
        (card_while_bidding, Refusal("WRONG_PHASE", PRECONDITION)),
        (bid_while_playing, Refusal("WRONG_PHASE", PRECONDITION)),
        (pass_at_whist, Refusal("WRONG_PHASE", PRECONDITION)),
    ],
)
async def test_illegal_move(script: Script, wrong_move: Callable[[Table], Move | None], why: Refusal) -> None:
    table = await script.play_until(lambda table: wrong_move(table) is not None)
    move = wrong_move(table)
    assert move is not None
    await assert_refused_both_ways(script, script.account, script.request(move), why)
    # The game waits for the same decision, and takes a legal one.
    assert await script.act() == table.version + 1


async def test_not_your_turn(script: Script) -> None:
    for _ in range(6):
        table = script.table
        other = table.occupants[(table.turn + 1) % 4].account
        legal_for_whose_turn_it_is = next(members(table.legal))
        request = script.request(legal_for_whose_turn_it_is)
        await assert_refused_both_ways(script, other, request, Refusal("NOT_YOUR_TURN", PRECONDITION))
        await script.act()


async def test_stranger_who_watches_may_not_move(script: Script) -> None:
    request = script.request(next(members(script.table.legal)))
    await assert_refused_both_ways(script, STRANGER, request, NOT_YOUR_SEAT)


async def test_stranger_at_a_quick_play_table(service: Service) -> None:
    game_id = await create_game(service, people=2, seats=6, mode=table_pb2.MODE_QUICK_PLAY, clock=PATIENT)
    stranger = service.table(STRANGER)
    assert await refused(stranger.Act(act_request(game_id, move_message(bid(1)), 1))) == NOT_YOUR_SEAT
    assert await refused(stranger.Watch(table_pb2.WatchRequest(game_id=game_id))) == NOT_YOUR_SEAT
    assert await refused(stranger.Here(table_pb2.HereRequest(game_id=game_id))) == NOT_YOUR_SEAT
    async with PlayStream(service, STRANGER, game_id) as stream:
        with pytest.raises(grpc.aio.AioRpcError, match="seat"):
            await stream.read()


# Ids and versions


async def test_unknown_game(service: Service) -> None:
    game_id = str(uuid4())
    table = service.table(SEAT_ACCOUNTS[0])
    assert await refused(table.Act(act_request(game_id, move_message(bid(1)), 1))) == GAME_NOT_FOUND
    assert await refused(table.Watch(table_pb2.WatchRequest(game_id=game_id))) == GAME_NOT_FOUND
    assert await refused(table.Here(table_pb2.HereRequest(game_id=game_id))) == GAME_NOT_FOUND
    assert await refused(table.Replay(table_pb2.ReplayRequest(game_id=game_id))) == GAME_NOT_FOUND
    async with PlayStream(service, SEAT_ACCOUNTS[0], game_id) as stream:
        with pytest.raises(grpc.aio.AioRpcError, match="no such game"):
            await stream.read()


async def test_stale_once_the_decision_is_closed_whoever_closed_it(script: Script) -> None:
    old = script.request(next(members(script.table.legal)))
    account = script.account
    await script.act()
    await assert_refused_both_ways(script, account, old, STALE)
    other = script.account
    await assert_refused_both_ways(script, other, old, STALE)


async def test_version_of_the_future(script: Script) -> None:
    version = script.table.version
    request = act_request(str(script.log.game_id), move_message(next(members(script.table.legal))), version + 1)
    await assert_refused_both_ways(script, script.account, request, FUTURE_VERSION)
    table = script.service.table(script.account)
    watch = table_pb2.WatchRequest(game_id=request.game_id, after_version=version + 1)
    assert await refused(table.Watch(watch)) == FUTURE_VERSION
    async with PlayStream(script.service, script.account, request.game_id, version + 1) as stream:
        with pytest.raises(grpc.aio.AioRpcError, match="not come to this version"):
            await stream.read()


async def test_refusals_tell_the_version(script: Script) -> None:
    request = act_request(str(script.log.game_id), move_message(bid(0)), 7777)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await script.service.table(script.account).Act(request)
    assert b"version" in dict(error.value.trailing_metadata())["grpc-status-details-bin"]
    assert str(script.table.version).encode() in dict(error.value.trailing_metadata())["grpc-status-details-bin"]


async def test_repeated_command_gets_its_first_answer(script: Script) -> None:
    request, account = script.request(next(members(script.table.legal))), script.account
    table = script.service.table(account)
    first = await table.Act(request)
    for _ in range(3):
        await script.log.refresh()
        rows = await script.log.read_all()
        assert await table.Act(request) == first
        upper_case = table_pb2.ActRequest()
        upper_case.CopyFrom(request)
        upper_case.command_id = request.command_id.upper()
        assert await table.Act(upper_case) == first
        async with PlayStream(script.service, account, request.game_id) as stream:
            answer = await stream.act(request.move, request.at_version, request.command_id)
            repeated = table_pb2.Repeated(command_id=request.command_id, version=first.version)
            assert answer == table_pb2.PlayResponse(repeated_command=repeated)
        assert await script.log.read_all() == rows
        await script.act()


async def test_command_sent_twice_at_once_is_applied_once(script: Script) -> None:
    for _ in range(10):
        table = script.service.table(script.account)
        request = script.request(next(members(script.table.legal)))
        answers = await asyncio.gather(*(table.Act(request) for _ in range(5)))
        await script.log.refresh()
        assert {answer.version for answer in answers} == {script.table.version}


async def test_command_id_with_other_content(script: Script) -> None:
    request, account = script.request(next(members(script.table.legal))), script.account
    await script.act(command_id=request.command_id)
    other_move = table_pb2.ActRequest()
    other_move.CopyFrom(request)
    other_move.move.CopyFrom(move_message(bid(5)))
    await assert_refused_both_ways(script, account, other_move, COMMAND_ID_REUSED)
    # Also for the decision that is open now.
    await script.play_until(lambda table: table.occupants[table.turn].account == account)
    before = await script.log.read_all()
    fresh = script.request(next(members(script.table.legal)), request.command_id)
    assert await refused(script.service.table(account).Act(fresh)) == COMMAND_ID_REUSED
    async with PlayStream(script.service, account, request.game_id) as stream:
        answer = await stream.act(fresh.move, fresh.at_version, fresh.command_id)
        assert refusal_in(answer) == COMMAND_ID_REUSED
    assert await script.log.read_all() == before
    assert await script.act() == len(before) + 1


async def test_command_ids_are_each_players_own(script: Script) -> None:
    command_id = str(uuid4())
    for _ in range(4):
        before = script.table.version
        assert await script.act(command_id=command_id) == before + 1


async def test_after_the_end_and_after_a_restart(database: Database, keys: KeyFiles) -> None:
    async with log_reader(database) as reader:
        async with running(database, keys) as service:
            game_id = await create_game(service, people=4, variant="1-8-1", clock=PATIENT)
            script = Script(service, GameLog(reader, game_id))
            table = await script.log.refresh()
            account, request = script.account, script.request(next(members(table.legal)))
            first = await service.table(account).Act(request)
            await script.play_out()
            assert await service.table(account).Act(request) == first
        async with running(database, keys) as service:
            table_api, end = service.table(account), script.table.version
            rows = await script.log.read_all()
            assert await table_api.Act(request) == first
            other = act_request(game_id, move_message(bid(5)), request.at_version, request.command_id)
            assert await refused(table_api.Act(other)) == COMMAND_ID_REUSED
            late = act_request(game_id, request.move, end)
            assert await refused(table_api.Act(late)) == Refusal("GAME_FINISHED", PRECONDITION)
            assert await refused(table_api.Act(act_request(game_id, request.move, end + 1))) == FUTURE_VERSION
            assert await refused(service.table(STRANGER).Act(late)) == NOT_YOUR_SEAT
            # A stream of a finished game shows its end and is over: there is nothing to move in.
            async with PlayStream(service, account, game_id) as stream:
                while await stream.read() is not None:
                    pass
                (only,) = stream.messages
                assert only.snapshot.version == end
                assert len(only.snapshot.view.standings) == 4
            assert await script.log.read_all() == rows


# What is no request at all


async def test_malformed_and_oversized_messages(script: Script) -> None:
    service, game_id, before = script.service, str(script.log.game_id), await script.log.read_all()
    malformed, too_large = Refusal("MALFORMED", INVALID), "MESSAGE_TOO_LARGE"
    raw_act: Any = service.channel(service.player_token(script.account)).unary_unary("/levata.table.v1.Table/Act")
    assert await refused(raw_act(b"\xff\xff\xff")) == malformed
    large = Refusal(too_large, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert await refused(raw_act(bytes(100_000))) == large
    # So large that grpc itself ends the call.
    assert (await refused(raw_act(bytes(1_000_000)))).code is grpc.StatusCode.RESOURCE_EXHAUSTED
    for bad, why in ((b"\xff\xff\xff", malformed), (bytes(100_000), large)):
        async with PlayStream(service, script.account, game_id) as stream:
            await stream.read()
            await stream.write(bad)
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stream.read()
            assert error.value.code() is why.code
    assert await script.log.read_all() == before


NO_MOVES = {
    "no move": play_pb2.Move(),
    "no card": play_pb2.Move(play_card=play_pb2.CARD_UNSPECIFIED),
    "no such card": play_pb2.Move(play_card=53),  # type: ignore[arg-type]
    "bid of 14": play_pb2.Move(place_bid=14),
    "bid of four billion": play_pb2.Move(place_bid=2**32 - 1),
    "no suit": play_pb2.Move(name_trump=play_pb2.NameTrump()),
    "no such suit": play_pb2.Move(name_trump=play_pb2.NameTrump(suit=5)),  # type: ignore[arg-type]
    "discard of nothing": play_pb2.Move(discard=play_pb2.CARD_UNSPECIFIED),
}


@pytest.mark.parametrize("move", NO_MOVES.values(), ids=NO_MOVES.keys())
async def test_what_is_no_move(script: Script, move: play_pb2.Move) -> None:
    request = act_request(str(script.log.game_id), move, script.table.version)
    await assert_refused_both_ways(script, script.account, request, Refusal("INVALID_REQUEST", INVALID))


async def test_command_id_that_is_no_uuid(script: Script) -> None:
    legal = move_message(next(members(script.table.legal)))
    for command_id in ("x", "123", "g" * 36):
        request = act_request(str(script.log.game_id), legal, script.table.version, command_id)
        before = await script.log.read_all()
        assert await refused(script.service.table(script.account).Act(request)) == Refusal("INVALID_REQUEST", INVALID)
        async with PlayStream(script.service, script.account, request.game_id) as stream:
            answer = await stream.act(legal, request.at_version, command_id)
            assert refusal_in(answer) == Refusal("INVALID_REQUEST", INVALID)
        assert await script.log.read_all() == before


async def test_play_without_open_and_with_two(script: Script) -> None:
    game_id, legal = str(script.log.game_id), move_message(next(members(script.table.legal)))
    act = table_pb2.PlayMove(command_id=str(uuid4()), at_version=script.table.version, move=legal)
    stream = script.service.table(script.account).Play()
    await stream.write(table_pb2.PlayRequest(act=act))
    assert await refused(stream) == Refusal("OPEN_FIRST", INVALID)
    stream = script.service.table(script.account).Play()
    await stream.done_writing()
    assert await refused(stream) == Refusal("OPEN_FIRST", INVALID)
    stream = script.service.table(script.account).Play()
    await stream.write(table_pb2.PlayRequest(open=table_pb2.WatchRequest(game_id="no uuid")))
    assert await refused(stream) == Refusal("INVALID_REQUEST", INVALID)
    stream = script.service.table(script.account).Play()
    for _ in range(2):
        await stream.write(table_pb2.PlayRequest(open=table_pb2.WatchRequest(game_id=game_id)))
    assert await refused(stream) == Refusal("OPEN_FIRST", INVALID)
    stream = script.service.table(script.account).Play()
    await stream.write(table_pb2.PlayRequest(open=table_pb2.WatchRequest(game_id=game_id)))
    await stream.write(table_pb2.PlayRequest())
    assert await refused(stream) == Refusal("INVALID_REQUEST", INVALID)
    assert await script.log.refresh() == script.log.tables[0]


# Tokens


async def test_tokens(script: Script, keys: KeyFiles, tmp_path_factory: pytest.TempPathFactory) -> None:
    service, before = script.service, await script.log.read_all()
    signer = Signer.from_file(keys.signing_key)
    forger = Signer.from_file(make_keys(tmp_path_factory.mktemp("forger")).signing_key)
    good = service.player_token(script.account)
    body, signature = good.rsplit(".", 1)
    bad_tokens = {
        None: "TOKEN_MISSING",
        "nonsense": "TOKEN_INVALID",
        forger.player_token(script.account, False, 3600): "TOKEN_INVALID",
        f"{body}.{signature[::-1]}": "TOKEN_INVALID",
        signer.player_token(script.account, False, -1): "TOKEN_EXPIRED",
    }
    request = script.request(next(members(script.table.legal)))
    for token, reason in bad_tokens.items():
        why = Refusal(reason, grpc.StatusCode.UNAUTHENTICATED)
        table = service.with_token(token)
        assert await refused(table.Act(request)) == why
        assert await refused(table.Watch(table_pb2.WatchRequest(game_id=request.game_id))) == why
        stream = table.Play()
        await stream.write(table_pb2.PlayRequest(open=table_pb2.WatchRequest(game_id=request.game_id)))
        assert await refused(stream) == why
    # A service plays for nobody.
    table = service.with_token(signer.service_token("test", 3600))
    assert await refused(table.Act(request)) == Refusal("ROLE_REQUIRED", grpc.StatusCode.PERMISSION_DENIED)
    assert await script.log.read_all() == before
