"""The gRPC edge over a real port: what a caller gets for good and bad calls, and that nothing stays behind."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import pytest
import structlog
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from levata.accounts.v1 import accounts_pb2
from levata.table.v1 import games_pb2, play_pb2, table_pb2

from chassis import rpc
from chassis.auth import KeyFiles, Signer, Verifier, make_keys
from chassis.clock import Clock
from chassis.errors import Refused, reason_of, status_of
from chassis.rpc import Access, Call, Limits, Server, channel, stub, validate

ACCOUNTS = accounts_pb2.DESCRIPTOR.services_by_name["Accounts"]
GAMES = games_pb2.DESCRIPTOR.services_by_name["Games"]
TABLE = table_pb2.DESCRIPTOR.services_by_name["Table"]

GAME = "0199aaaa-0000-7000-8000-000000000000"
PLAYER = "0199bbbb-0000-7000-8000-000000000000"
SESSION = "0199cccc-0000-7000-8000-000000000000"
OTHER_SESSION = "0199cccc-0000-7000-8000-000000000001"

TOKEN_SECONDS = 600


class Partial:
    """A service of which a test needs a part."""

    def __getattr__(self, name: str) -> Any:
        """What the service has besides, and is not called here."""

        async def not_called(*_: Any) -> None:
            raise AssertionError(name)

        return not_called


class Accounts(Partial):
    """Tells who called."""

    async def create_guest(self, request: accounts_pb2.CreateGuestRequest, call: Call) -> Any:
        subject = call.caller.subject if call.caller else "nobody"
        return accounts_pb2.CreateGuestResponse(account=accounts_pb2.Account(account_id=subject))

    async def get_self(self, request: accounts_pb2.GetSelfRequest, call: Call) -> Any:
        # Encoded beforehand: it must go out as it is.
        return accounts_pb2.GetSelfResponse(
            account=accounts_pb2.Account(account_id=call.who.subject, guest=call.who.guest)
        ).SerializeToString()


class Games(Partial):
    """Breaks, each method in its own way."""

    async def prepare(self, request: games_pb2.PrepareRequest, call: Call) -> Any:
        raise ValueError("a secret of the server")

    async def create(self, request: games_pb2.CreateRequest, call: Call) -> Any:
        return games_pb2.CreateResponse(version=1)

    async def cancel(self, request: games_pb2.CancelRequest, call: Call) -> Any:
        raise Refused("UNKNOWN_GAME", grpc.StatusCode.NOT_FOUND, "There is no such game.", {"game_id": request.game_id})


class Table(Partial):
    """Streams without an end, and a record of how its calls ended."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0

    def has_begun(self, count: int) -> bool:
        return self.begun == count

    async def watch(self, request: table_pb2.WatchRequest, call: Call) -> None:
        await call.write(table_pb2.WatchResponse(heartbeat=table_pb2.Heartbeat(version=request.after_version)))
        await self._hang()

    async def play(self, call: Call) -> None:
        while (request := await call.read()) is not None:
            validate(request)
            if request.WhichOneof("kind") == "here":
                await self._hang()
            encoded = table_pb2.PlayResponse(heartbeat=table_pb2.Heartbeat(version=request.open.after_version))
            await call.write(encoded.SerializeToString())

    async def here(self, request: table_pb2.HereRequest, call: Call) -> Any:
        await self._hang()

    async def act(self, request: table_pb2.ActRequest, call: Call) -> Any:
        return table_pb2.ActResponse(version=request.at_version + 1)

    async def replay(self, request: table_pb2.ReplayRequest, call: Call) -> None:
        for version in range(1, 4):
            await call.write(table_pb2.ReplayResponse(commit=table_pb2.Commit(version=version)))
        raise Refused("UNKNOWN_GAME", grpc.StatusCode.NOT_FOUND, "It ends here.")

    async def _hang(self) -> None:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


class SetClock(Clock):
    """A clock that can be put forward."""

    ahead_s = 0

    def now_s(self) -> int:
        return super().now_s() + self.ahead_s


class Edge:
    """A running server and the means to call it."""

    def __init__(self, keys: KeyFiles, limits: Limits) -> None:
        self.clock = SetClock()
        self.signer = Signer.from_file(keys.signing_key)
        self.table = Table()
        self.server = Server(Verifier.from_file(keys.jwks, self.clock), limits)
        accounts = dict.fromkeys((method.name for method in ACCOUNTS.methods), Access.PLAYER)
        self.server.add(ACCOUNTS, Accounts(), accounts | {"CreateGuest": Access.PUBLIC})
        self.server.add(GAMES, Games(), Access.by("matchmaker"))
        self.server.add(TABLE, self.table, Access.ANY)
        self.target = ""
        self.player_token = self.signer.player_token(PLAYER, True, TOKEN_SECONDS, SESSION)
        self.same_player_token = self.signer.player_token(PLAYER, True, TOKEN_SECONDS, OTHER_SESSION)
        self.service_token = self.signer.service_token("matchmaker", TOKEN_SECONDS)
        self._channels: list[grpc.aio.Channel] = []

    def channel(self, token: str | None = None) -> grpc.aio.Channel:
        opened = channel(self.target, token, own_connection=True)
        self._channels.append(opened)
        return opened

    async def start(self) -> None:
        self.target = f"127.0.0.1:{await self.server.start('127.0.0.1', 0)}"

    async def stop(self) -> None:
        for opened in self._channels:
            await opened.close()
        await self.server.stop(0)


@asynccontextmanager
async def edge_with(folder: Path, **limits: Any) -> AsyncIterator[Edge]:
    edge = Edge(make_keys(folder), Limits(**limits))
    await edge.start()
    try:
        yield edge
    finally:
        await edge.stop()


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge_with(tmp_path, calls=3000, caller_burst=10_000, caller_streams=3000) as edge:
        yield edge


async def refusal(call: Awaitable[Any]) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def eventually(true: Callable[[], bool]) -> None:
    """Wait until it is so; the test's own time-out is the bound."""
    while not true():
        await asyncio.sleep(0.01)


def create_request() -> games_pb2.CreateRequest:
    seats = [games_pb2.SeatSetup(bot=games_pb2.BotSeat(level="steady")) for _ in range(4)]
    return games_pb2.CreateRequest(game_id=GAME, seats=seats)


def act_request(**changes: Any) -> table_pb2.ActRequest:
    fields: dict[str, Any] = {
        "game_id": GAME,
        "command_id": str(uuid4()),
        "move": play_pb2.Move(place_bid=3),
        "at_version": 6,
    }
    return table_pb2.ActRequest(**(fields | changes))


async def test_a_good_call_is_answered_and_knows_its_caller(edge: Edge) -> None:
    accounts = stub(edge.channel(edge.player_token), ACCOUNTS)
    answer = await accounts.GetSelf(accounts_pb2.GetSelfRequest())
    assert (answer.account.account_id, answer.account.guest) == (PLAYER, True)


async def test_metadata_of_the_caller_goes_along_with_the_token(edge: Edge) -> None:
    table = stub(edge.channel(edge.player_token), TABLE)
    answer = await table.Act(act_request(), metadata=(("x-game-id", GAME),))
    assert answer.version == 7


@pytest.mark.parametrize("token", [None, "", "nonsense"])
async def test_a_public_call_needs_no_good_token(edge: Edge, token: str | None) -> None:
    accounts = stub(edge.channel(token), ACCOUNTS)
    answer = await accounts.CreateGuest(accounts_pb2.CreateGuestRequest(request_id=str(uuid4())))
    assert answer.account.account_id == "nobody"


async def test_a_public_call_knows_a_caller_with_a_good_token(edge: Edge) -> None:
    accounts = stub(edge.channel(edge.player_token), ACCOUNTS)
    answer = await accounts.CreateGuest(accounts_pb2.CreateGuestRequest(request_id=str(uuid4())))
    assert answer.account.account_id == PLAYER


@pytest.mark.parametrize(("token", "reason"), [(None, "TOKEN_MISSING"), ("nonsense", "TOKEN_INVALID")])
async def test_unary_and_streams_alike_need_a_token(edge: Edge, token: str | None, reason: str) -> None:
    table = stub(edge.channel(token), TABLE)
    calls = [
        table.Act(act_request()),
        table.Watch(table_pb2.WatchRequest(game_id=GAME)).read(),
        table.Play().read(),
    ]
    for call in calls:
        error = await refusal(call)
        assert (error.code(), reason_of(error)) == (grpc.StatusCode.UNAUTHENTICATED, reason)


async def test_authorization_of_another_scheme_is_no_token(edge: Edge) -> None:
    table = stub(edge.channel(), TABLE)
    error = await refusal(table.Act(act_request(), metadata=(("authorization", "Basic bGV2YXRh"),)))
    assert reason_of(error) == "TOKEN_INVALID"


async def test_an_expired_token_is_refused_although_it_was_good_before(edge: Edge) -> None:
    table = stub(edge.channel(edge.player_token), TABLE)
    await table.Act(act_request())
    edge.clock.ahead_s += TOKEN_SECONDS
    assert reason_of(await refusal(table.Act(act_request()))) == "TOKEN_EXPIRED"


async def test_each_role_has_its_own_calls(edge: Edge) -> None:
    games = stub(edge.channel(edge.player_token), GAMES)
    error = await refusal(games.Cancel(games_pb2.CancelRequest(game_id=GAME)))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.PERMISSION_DENIED, "ROLE_REQUIRED")
    accounts = stub(edge.channel(edge.service_token), ACCOUNTS)
    assert reason_of(await refusal(accounts.GetSelf(accounts_pb2.GetSelfRequest()))) == "ROLE_REQUIRED"


async def test_a_refusal_carries_reason_sentence_and_metadata(edge: Edge) -> None:
    games = stub(edge.channel(edge.service_token), GAMES)
    error = await refusal(games.Cancel(games_pb2.CancelRequest(game_id=GAME)))
    status, info = status_of(error), error_details_pb2.ErrorInfo()
    assert status is not None
    assert status.details[0].Unpack(info)
    assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "There is no such game.")
    assert (info.reason, info.domain, dict(info.metadata)) == ("UNKNOWN_GAME", "levata", {"game_id": GAME})
    assert edge.server.counts["/levata.table.v1.Games/Cancel"].refused == {"UNKNOWN_GAME": 1}


async def test_a_stream_may_end_in_a_refusal(edge: Edge) -> None:
    table = stub(edge.channel(edge.player_token), TABLE)
    stream = table.Replay(table_pb2.ReplayRequest(game_id=GAME))
    assert [(await stream.read()).commit.version for _ in range(3)] == [1, 2, 3]
    assert reason_of(await refusal(stream.read())) == "UNKNOWN_GAME"


async def test_every_field_that_breaks_a_rule_is_named(edge: Edge) -> None:
    games = stub(edge.channel(edge.service_token), GAMES)
    request = games_pb2.CreateRequest(game_id="no id", seats=[games_pb2.SeatSetup(), games_pb2.SeatSetup()])
    request.seats[1].bot.level = "a level with a long name"
    error = await refusal(games.Create(request))
    status, bad_request = status_of(error), error_details_pb2.BadRequest()
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert status is not None
    assert status.details[1].Unpack(bad_request)
    assert [v.field for v in bad_request.field_violations] == ["game_id", "seats[0].who", "seats[1].bot.level"]


async def test_a_message_on_a_stream_is_validated_too(edge: Edge) -> None:
    stream = stub(edge.channel(edge.player_token), TABLE).Play()
    await stream.write(table_pb2.PlayRequest(open=table_pb2.WatchRequest(game_id=GAME, after_version=5)))
    assert (await stream.read()).heartbeat.version == 5
    await stream.write(table_pb2.PlayRequest())
    assert reason_of(await refusal(stream.read())) == "INVALID_REQUEST"


async def test_the_end_of_a_clients_side_is_the_end_of_reading(edge: Edge) -> None:
    stream = stub(edge.channel(edge.player_token), TABLE).Play()
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF
    assert await stream.code() is grpc.StatusCode.OK


async def test_malformed_bytes_are_refused_in_every_shape_of_call(edge: Edge) -> None:
    raw: Any = edge.channel(edge.player_token)
    play = raw.stream_stream("/levata.table.v1.Table/Play")()
    await play.write(b"\xff\xff")
    calls = [
        raw.unary_unary("/levata.table.v1.Table/Act")(b"\xff\xff"),
        raw.unary_stream("/levata.table.v1.Table/Watch")(b"\xff\xff").read(),
        play.read(),
    ]
    for call in calls:
        error = await refusal(call)
        assert (error.code(), reason_of(error)) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")


@pytest.mark.parametrize(("size", "reason"), [(100_000, "MESSAGE_TOO_LARGE"), (1_000_000, None)])
async def test_oversized_messages_are_refused(edge: Edge, size: int, reason: str | None) -> None:
    raw: Any = edge.channel(edge.player_token)
    play = raw.stream_stream("/levata.table.v1.Table/Play")()
    await play.write(bytes(size))
    for call in (raw.unary_unary("/levata.table.v1.Table/Act")(bytes(size)), play.read()):
        error = await refusal(call)
        assert (error.code(), reason_of(error)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, reason)


async def test_an_unknown_method_is_unimplemented(edge: Edge) -> None:
    raw: Any = edge.channel(edge.player_token)
    assert (await refusal(raw.unary_unary("/levata.table.v1.Table/Cheat")(b""))).code() is grpc.StatusCode.UNIMPLEMENTED


async def test_an_exception_is_logged_and_nothing_of_it_leaks(edge: Edge) -> None:
    games = stub(edge.channel(edge.service_token), GAMES)
    request = games_pb2.PrepareRequest(request_id=str(uuid4()), seats=4, mode=table_pb2.MODE_SOLO)
    with structlog.testing.capture_logs() as logged:
        error = await refusal(games.Prepare(request))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    status = status_of(error)
    assert status is not None
    assert b"secret" not in status.SerializeToString()
    assert [(entry["method"], entry["exc_info"]) for entry in logged] == [("/levata.table.v1.Games/Prepare", True)]
    assert edge.server.counts["/levata.table.v1.Games/Prepare"].failed == 1


async def test_cancellation_and_deadlines_reach_the_implementation(edge: Edge) -> None:
    table = stub(edge.channel(edge.player_token), TABLE)
    here = table.Here(table_pb2.HereRequest(game_id=GAME))
    watch = table.Watch(table_pb2.WatchRequest(game_id=GAME))
    play = table.Play()
    await play.write(table_pb2.PlayRequest(here=table_pb2.PlayHere()))
    await eventually(lambda: edge.table.begun == 3)
    for call in (here, watch, play):
        call.cancel()
    # The deadline may pass before the implementation is called.
    while edge.table.begun == 3:
        error = await refusal(table.Here(table_pb2.HereRequest(game_id=GAME), timeout=0.2))
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await eventually(lambda: edge.table.cancelled == edge.table.begun and edge.server.open_calls == 0)
    assert all(counts.failed == 0 for counts in edge.server.counts.values())


async def test_2000_cancelled_streams_leave_nothing_behind(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    table = stub(edge.channel(edge.player_token), TABLE)
    await table.Act(act_request())
    tasks_before = len(asyncio.all_tasks())
    with caplog.at_level(logging.WARNING):
        for begun_then in (500, 1000, 1500, 2000):
            watches = [table.Watch(table_pb2.WatchRequest(game_id=GAME)) for _ in range(250)]
            plays = [table.Play() for _ in range(250)]
            for play in plays:
                await play.write(table_pb2.PlayRequest(here=table_pb2.PlayHere()))
            await eventually(partial(edge.table.has_begun, begun_then))
            for call in (*watches, *plays):
                call.cancel()
            del watches, plays, play, call
            await eventually(lambda: edge.server.open_calls == 0)
    await eventually(lambda: len(asyncio.all_tasks()) <= tasks_before)
    assert edge.table.cancelled == edge.table.begun == 2000
    assert not caplog.records


async def test_thousands_who_come_at_once_are_all_let_in(edge: Edge) -> None:
    """As after a replica was lost: over a thousand that wait grpc would end some at random, with CANCELLED."""
    table = stub(edge.channel(edge.player_token), TABLE)
    watches = [table.Watch(table_pb2.WatchRequest(game_id=GAME)) for _ in range(2900)]
    await eventually(lambda: edge.table.begun == len(watches))
    assert not any(watch.done() for watch in watches)
    for watch in watches:
        watch.cancel()


async def test_calls_over_the_limit_are_refused_with_a_reason_and_health_still_answers(tmp_path: Path) -> None:
    async with edge_with(tmp_path, calls=2) as edge:
        table = stub(edge.channel(edge.player_token), TABLE)
        watches = [table.Watch(table_pb2.WatchRequest(game_id=GAME)) for _ in range(2)]
        await eventually(lambda: edge.server.open_calls == 2)
        error = await refusal(table.Act(act_request()))
        assert (error.code(), reason_of(error)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_CALLS")
        assert await serving(edge) is health_pb2.HealthCheckResponse.SERVING
        watches.pop().cancel()
        await eventually(lambda: edge.server.open_calls == 1)
        assert (await table.Act(act_request())).version == 7


async def test_a_caller_who_calls_too_often_waits_and_nobody_else_does(tmp_path: Path) -> None:
    async with edge_with(tmp_path, caller_burst=5, caller_calls_per_second=0.001) as edge:
        table = stub(edge.channel(edge.player_token), TABLE)
        for _ in range(5):
            await table.Act(act_request())
        # On another connection, with another session's token, over another method: it is the same account.
        again = stub(edge.channel(edge.same_player_token), ACCOUNTS)
        error = await refusal(again.GetSelf(accounts_pb2.GetSelfRequest()))
        assert (error.code(), reason_of(error)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED")
        status, info = status_of(error), error_details_pb2.ErrorInfo()
        assert status is not None
        assert status.details[0].Unpack(info)
        assert 0 < int(info.metadata["retry_after_ms"]) <= 1_000_001
        # Others and services go on.
        other = stub(edge.channel(edge.signer.player_token(GAME, True, TOKEN_SECONDS)), TABLE)
        await other.Act(act_request())
        games = stub(edge.channel(edge.service_token), GAMES)
        for _ in range(20):
            await games.Create(create_request())
        assert edge.server.counts["/levata.accounts.v1.Accounts/GetSelf"].refused == {"RATE_LIMITED": 1}


async def test_without_a_good_token_the_address_that_the_edge_saw_is_the_caller(tmp_path: Path) -> None:
    async with edge_with(tmp_path, caller_burst=5, caller_calls_per_second=0.001) as edge:
        accounts = stub(edge.channel(), ACCOUNTS)

        async def create(forwarded: str, token: str = "") -> str | None:
            metadata = (("x-forwarded-for", forwarded), *([("authorization", f"Bearer {token}")] if token else []))
            request = accounts_pb2.CreateGuestRequest(request_id=str(uuid4()))
            try:
                await accounts.CreateGuest(request, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                return reason_of(error)
            return None

        # What a client writes into the header itself stands before the edge's word.
        assert [await create(f"10.0.0.{n}, 192.0.2.1") for n in range(6)] == [None] * 5 + ["RATE_LIMITED"]
        assert [await create("192.0.2.2", "nonsense") for n in range(6)] == [None] * 5 + ["RATE_LIMITED"]
        assert await create("192.0.2.3") is None
        # A signature is work: after too many false tokens that peer's are not even looked at.
        assert await create("192.0.2.2", edge.player_token) == "RATE_LIMITED"
        assert await create("192.0.2.3", edge.player_token) is None
        # Known by now, it is good from anywhere.
        assert await create("192.0.2.2", edge.player_token) is None


async def test_a_caller_has_so_many_streams_and_no_more(tmp_path: Path) -> None:
    async with edge_with(tmp_path, caller_streams=3) as edge:
        table = stub(edge.channel(edge.player_token), TABLE)
        watches = [table.Watch(table_pb2.WatchRequest(game_id=GAME)) for _ in range(3)]
        await eventually(lambda: edge.table.has_begun(3))
        for call in (table.Watch(table_pb2.WatchRequest(game_id=GAME)), table.Play()):
            error = await refusal(call.read())
            assert (error.code(), reason_of(error)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS")
        await table.Act(act_request())
        watches.pop().cancel()
        await eventually(lambda: edge.server.open_calls == 2)
        watches.append(table.Watch(table_pb2.WatchRequest(game_id=GAME)))
        await eventually(lambda: edge.table.has_begun(4))


async def write_opens(stream: Any, count: int) -> None:
    for version in range(1, count + 1):
        await stream.write(table_pb2.PlayRequest(open=table_pb2.WatchRequest(game_id=GAME, after_version=version)))


async def test_a_rude_stream_is_read_later_and_loses_nothing(tmp_path: Path) -> None:
    async with edge_with(tmp_path, caller_burst=10, caller_calls_per_second=200) as edge:
        stream = stub(edge.channel(edge.player_token), TABLE).Play()
        writing = asyncio.create_task(write_opens(stream, 50))
        assert [(await stream.read()).heartbeat.version for _ in range(50)] == list(range(1, 51))
        await writing


async def test_what_a_rude_stream_sends_beyond_its_share_is_not_read_yet(tmp_path: Path) -> None:
    async with edge_with(tmp_path, caller_burst=10, caller_calls_per_second=0.001) as edge:
        stream = stub(edge.channel(edge.player_token), TABLE).Play()
        writing = asyncio.create_task(write_opens(stream, 50))
        # The call itself was the first of ten.
        assert [(await stream.read()).heartbeat.version for _ in range(9)] == list(range(1, 10))
        tenth = asyncio.create_task(stream.read())
        assert await asyncio.wait([tenth], timeout=0.2) == (set(), {tenth})
        assert (
            reason_of(await refusal(stub(edge.channel(edge.player_token), TABLE).Act(act_request()))) == "RATE_LIMITED"
        )
        other = stub(edge.channel(edge.signer.player_token(GAME, True, TOKEN_SECONDS)), TABLE)
        assert (await other.Act(act_request())).version == 7
        stream.cancel()
        await asyncio.gather(writing, tenth, return_exceptions=True)
        await eventually(lambda: edge.server.open_calls == 0)


async def test_a_revoked_session_is_refused_at_once_and_its_streams_end(edge: Edge) -> None:
    table = stub(edge.channel(edge.player_token), TABLE)
    other = stub(edge.channel(edge.same_player_token), TABLE)
    await table.Act(act_request())
    streams = [table.Watch(table_pb2.WatchRequest(game_id=GAME)), table.Play()]
    await streams[1].write(table_pb2.PlayRequest(here=table_pb2.PlayHere()))
    kept = other.Watch(table_pb2.WatchRequest(game_id=GAME))
    await eventually(lambda: edge.table.has_begun(3))
    await streams[0].read()
    edge.server.revoke(SESSION, edge.clock.now_s() + TOKEN_SECONDS)
    for call in (streams[0].read(), streams[1].read(), table.Act(act_request())):
        error = await refusal(call)
        assert (error.code(), reason_of(error)) == (grpc.StatusCode.UNAUTHENTICATED, "SESSION_REVOKED")
    # A public call does not know the caller any more, and goes on.
    accounts = stub(edge.channel(edge.player_token), ACCOUNTS)
    answer = await accounts.CreateGuest(accounts_pb2.CreateGuestRequest(request_id=str(uuid4())))
    assert answer.account.account_id == "nobody"
    # The same account's other session has nothing to do with it.
    assert (await other.Act(act_request())).version == 7
    await kept.read()
    await eventually(lambda: edge.server.open_calls == 1)
    assert edge.table.cancelled == 2
    assert all(counts.failed == 0 for counts in edge.server.counts.values())


async def test_expiry_alone_ends_no_stream_and_revocation_after_it_does(edge: Edge) -> None:
    watch = stub(edge.channel(edge.player_token), TABLE).Watch(table_pb2.WatchRequest(game_id=GAME))
    await watch.read()
    edge.clock.ahead_s += TOKEN_SECONDS
    assert reason_of(await refusal(stub(edge.channel(edge.player_token), TABLE).Act(act_request()))) == "TOKEN_EXPIRED"
    # The refused call has its answer a moment before it is over.
    await eventually(lambda: edge.server.open_calls == 1)
    edge.server.revoke(SESSION, edge.clock.now_s() - 1)
    assert reason_of(await refusal(watch.read())) == "SESSION_REVOKED"


async def test_an_internal_call_is_for_the_services_that_it_names(edge: Edge) -> None:
    for token, reason in (
        (edge.signer.service_token("league", TOKEN_SECONDS), "SERVICE_NOT_ALLOWED"),
        (edge.signer.operator_token("matchmaker", TOKEN_SECONDS), "ROLE_REQUIRED"),
    ):
        games = stub(edge.channel(token), GAMES)
        error = await refusal(games.Create(create_request()))
        assert (error.code(), reason_of(error)) == (grpc.StatusCode.PERMISSION_DENIED, reason)


async def test_a_quiet_stream_bears_pings_as_often_as_the_edge_sends_them(edge: Edge) -> None:
    """grpc's default cuts a connection at the third ping without data within minutes."""
    options = [("grpc.keepalive_time_ms", 700), ("grpc.http2.max_pings_without_data", 0)]
    async with grpc.aio.insecure_channel(edge.target, options) as pinging:
        raw: Any = pinging
        watch = raw.unary_stream("/levata.table.v1.Table/Watch")(
            table_pb2.WatchRequest(game_id=GAME).SerializeToString(),
            metadata=(("authorization", f"Bearer {edge.player_token}"),),
        )
        await watch.read()
        more = asyncio.create_task(watch.read())
        assert await asyncio.wait([more], timeout=3.5) == (set(), {more})
        more.cancel()


def test_grpc_knows_every_option_that_it_is_given() -> None:
    """It takes no notice of a misspelt one."""
    names = {name for name, _ in (*Limits().options(), *rpc.CHANNEL_OPTIONS)}
    compiled = find_spec("grpc._cython.cygrpc")
    assert compiled is not None
    code = Path(str(compiled.origin)).read_bytes()
    assert {name for name in names if name.encode() + b"\0" not in code} == set()


async def serving(edge: Edge, name: str = "") -> int:
    check = edge.channel().unary_unary(
        "/grpc.health.v1.Health/Check",
        health_pb2.HealthCheckRequest.SerializeToString,
        health_pb2.HealthCheckResponse.FromString,
    )
    return int((await check(health_pb2.HealthCheckRequest(service=name))).status)


async def test_health_needs_no_token_and_tells_the_services_apart(edge: Edge) -> None:
    name = "levata.table.v1.Table"
    assert await serving(edge, name) == health_pb2.HealthCheckResponse.SERVING
    await edge.server.set_health(name, False)
    assert await serving(edge, name) == health_pb2.HealthCheckResponse.NOT_SERVING
    assert await serving(edge) == health_pb2.HealthCheckResponse.SERVING


async def test_reflection_names_the_services(edge: Edge) -> None:
    def services() -> set[str]:
        with grpc.insecure_channel(edge.target) as plain:
            return set(ProtoReflectionDescriptorDatabase(plain).get_services())

    assert {"levata.table.v1.Table", "grpc.health.v1.Health"} <= await asyncio.to_thread(services)


async def test_a_taken_port_is_an_error(edge: Edge, tmp_path: Path) -> None:
    second = Server(Verifier({"keys": []}))
    with pytest.raises(OSError, match=edge.target):
        await second.start("127.0.0.1", int(edge.target.rpartition(":")[2]))


def test_a_service_that_is_not_whole_cannot_be_added() -> None:
    class Half:
        async def act(self, request: table_pb2.ActRequest, call: Call) -> None: ...

    with pytest.raises(AttributeError, match="watch"):
        Server(Verifier({"keys": []})).add(TABLE, Half(), Access.ANY)
