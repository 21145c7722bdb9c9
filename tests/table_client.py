"""Clients of the table service for tests, and the log as only the server may see it.

Clients know no rules: they do what their streams say they may. `GameLog` reads and folds a game's log past the API, so
that a test can find the very situation that it is about, and see what a call has changed.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self
from uuid import UUID, uuid4

import grpc
from levata.table.v1 import games_pb2, play_pb2, table_pb2

from chassis.auth import KeyFiles, Signer
from chassis.database import open_pool
from chassis.errors import reason_in, reason_of
from chassis.limits import Limits
from chassis.log import LogReader, Row, first_broken
from chassis.rpc import channel, stub
from chassis.settings import Settings
from rules.cards import members
from rules.game import NO_SEAT
from rules.moves import Move
from services.table import domain
from services.table.__main__ import build
from services.table.domain import Table
from services.table.rpc.messages import move_message
from services.table.store.codec import decode
from tests.conftest import ROOMY_LIMITS, Database
from tools.embedded.nats import EmbeddedNats
from tools.patience import within

SEAT_ACCOUNTS = [str(UUID(int=n + 1, version=4)) for n in range(6)]
STRANGER = str(UUID(int=99, version=4))

CALL_SECONDS = 60

_TABLE = table_pb2.DESCRIPTOR.services_by_name["Table"]
_GAMES = games_pb2.DESCRIPTOR.services_by_name["Games"]


@dataclass
class Service:
    """A running table service and the tokens to call it with."""

    address: str
    signer: Signer
    _channels: dict[str | None, grpc.aio.Channel] = field(default_factory=dict)
    _tokens: dict[str, str] = field(default_factory=dict)

    def channel(self, token: str | None) -> grpc.aio.Channel:
        """A channel whose calls carry this token; closed with the service."""
        if token not in self._channels:
            self._channels[token] = channel(self.address, token)
        return self._channels[token]

    def player_token(self, account: str) -> str:
        """The same token for each call of an account, so that they share a channel."""
        return self._tokens.setdefault(account, self.signer.player_token(account, False, 3600))

    def table(self, account: str) -> Any:
        """The public API as a player."""
        return self.with_token(self.player_token(account))

    def with_token(self, token: str | None) -> Any:
        """The public API as whoever this token names."""
        return stub(self.channel(token), _TABLE)

    def with_service_token(self) -> Any:
        """The public API as another service."""
        return self.with_token(self._service_token)

    @property
    def _service_token(self) -> str:
        return self._tokens.setdefault("", self.signer.service_token("tools", 3600))

    @property
    def games(self) -> Any:
        """The internal API as a service."""
        return stub(self.channel(self._service_token), _GAMES)

    def games_as_player(self, account: str) -> Any:
        """The internal API as a player, who may not call it."""
        return stub(self.channel(self.player_token(account)), _GAMES)

    def raw_watch(self, account: str, game_id: str, after_version: int = 0) -> Any:
        """A Watch stream that yields the bytes of its messages."""
        start: Any = self.channel(self.player_token(account)).unary_stream(
            "/levata.table.v1.Table/Watch", request_serializer=table_pb2.WatchRequest.SerializeToString
        )
        return start(table_pb2.WatchRequest(game_id=game_id, after_version=after_version))

    async def close(self) -> None:
        """Close all channels."""
        for each in self._channels.values():
            await each.close()


def settings_for(database: Database, keys: KeyFiles, nats: EmbeddedNats | None = None) -> Settings:
    """Settings of a table service on this database; without NATS it is alone."""
    return Settings(
        service_name="table",
        postgres_dsn=database.dsn("table"),
        jwks_file=keys.jwks,
        nats_url="" if nats is None else nats.url("table"),
        limits=Limits(**json.loads(ROOMY_LIMITS)),
    )


@asynccontextmanager
async def running(database: Database, keys: KeyFiles, nats: EmbeddedNats | None = None) -> AsyncIterator[Service]:
    """A table service that stops at the end of the context."""
    async with build(settings_for(database, keys, nats)) as address:
        service = Service(str(address), Signer.from_file(keys.signing_key))
        try:
            yield service
        finally:
            await service.close()


@asynccontextmanager
async def running_replicas(
    database: Database, keys: KeyFiles, nats: EmbeddedNats, count: int = 2
) -> AsyncIterator[list[Service]]:
    """Several replicas in this process; a game is hosted by the one that it is created at."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(running(database, keys, nats)) for _ in range(count)]


def person(account: str) -> games_pb2.SeatSetup:
    """A seat with a person in it."""
    return games_pb2.SeatSetup(account=games_pb2.AccountSeat(account_id=account))


def bot() -> games_pb2.SeatSetup:
    """A seat with a bot in it."""
    return games_pb2.SeatSetup(bot=games_pb2.BotSeat())


async def prepare_game(
    service: Service,
    *,
    seats: int = 4,
    variant: str = "8-1-8",
    mode: table_pb2.Mode.ValueType = table_pb2.MODE_FRIENDLY,
    game_type: str = "romanian_whist",
) -> str:
    """The id of a prepared game."""
    prepared = await service.games.Prepare(
        games_pb2.PrepareRequest(request_id=str(uuid4()), game_type=game_type, variant=variant, seats=seats, mode=mode)
    )
    return str(prepared.game_id)


async def create_game(
    service: Service,
    *,
    people: int,
    seats: int = 4,
    variant: str = "8-1-8",
    mode: table_pb2.Mode.ValueType = table_pb2.MODE_FRIENDLY,
    clock: games_pb2.ClockOptions | None = None,
    nonces: Sequence[bytes] = (),
    spectator_delay_seconds: int = 0,
) -> str:
    """A running game of whist with people in the first seats and bots in the others."""
    game_id = await prepare_game(service, seats=seats, variant=variant, mode=mode)
    setups = [person(SEAT_ACCOUNTS[seat]) if seat < people else bot() for seat in range(seats)]
    for setup, nonce in zip(setups, nonces, strict=False):
        setup.nonce = nonce
    await service.games.Create(
        games_pb2.CreateRequest(
            game_id=game_id, seats=setups, clock=clock, spectator_delay_seconds=spectator_delay_seconds
        )
    )
    return game_id


def act_request(
    game_id: str, move: play_pb2.Move, at_version: int, command_id: str | None = None
) -> table_pb2.ActRequest:
    """One move as a unary call has it; a fresh command id if none is given."""
    return table_pb2.ActRequest(
        game_id=game_id, command_id=command_id or str(uuid4()), at_version=at_version, move=move
    )


class Player:
    """A client that knows no rules: it does what its stream says it may."""

    def __init__(self, service: Service, account: str, game_id: str) -> None:
        self.table = service.table(account)
        self.game_id = game_id
        self.version = 0
        self.decision: play_pb2.Decision | None = None
        self.snapshot: table_pb2.Snapshot | None = None
        self.commits: list[table_pb2.Commit] = []
        self.closing: table_pb2.Closing | None = None

    @property
    def seat(self) -> int:
        """The own seat."""
        assert self.snapshot is not None
        return self.snapshot.view.seat

    def take(self, message: table_pb2.WatchResponse | table_pb2.PlayResponse) -> None:
        """Fold one message in."""
        match message.WhichOneof("kind"):
            case "snapshot":
                self.snapshot = message.snapshot
                self.version = message.snapshot.version
                self.decision = message.snapshot.decision if message.snapshot.HasField("decision") else None
            case "commit":
                assert message.commit.version == self.version + 1
                self.version = message.commit.version
                self.commits.append(message.commit)
                self.decision = message.commit.decision if message.commit.HasField("decision") else None
            case "heartbeat":
                assert message.heartbeat.version == self.version
            case "closing":
                self.closing = message.closing

    @property
    def over(self) -> bool:
        """Whether the game is at its end, as far as this player was told."""
        return self.version > 0 and self.decision is None

    @property
    def my_turn(self) -> bool:
        """Whether the stream says that this player may decide."""
        return self.decision is not None and self.decision.seat == self.seat and bool(self.decision.legal_moves)

    def act(self, move: play_pb2.Move, *, at_version: int | None = None, command_id: str | None = None) -> Any:
        """One unary move."""
        version = self.version if at_version is None else at_version
        return self.table.Act(act_request(self.game_id, move, version, command_id))

    def watch(self) -> Any:
        """A stream from where this player is."""
        return self.table.Watch(table_pb2.WatchRequest(game_id=self.game_id, after_version=self.version))

    async def watch_to_the_end(self) -> None:
        """Play the first legal move whenever it is this player's turn, over Watch and Act."""
        async for message in self.watch():
            self.take(message)
            # What comes in between says nothing new of whose turn it is, and the own move's commit may still be coming.
            if self.my_turn and message.WhichOneof("kind") in ("snapshot", "commit"):
                assert self.decision is not None
                answer = await self.act(self.decision.legal_moves[0])
                assert answer.version == self.version + 1


class PlayStream:
    """A Play stream: writes, and reads on until it has the answer to a command."""

    def __init__(self, service: Service, account: str, game_id: str, after_version: int = 0) -> None:
        self._call = service.table(account).Play()
        self._open = table_pb2.WatchRequest(game_id=game_id, after_version=after_version)
        self.messages: list[table_pb2.PlayResponse] = []

    async def __aenter__(self) -> Self:
        await self.write(table_pb2.PlayRequest(open=self._open))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._call.cancel()

    async def write(self, request: table_pb2.PlayRequest | bytes) -> None:
        """Send a message."""
        await self._call.write(request)

    async def half_close(self) -> None:
        """Say that no more will be sent."""
        await self._call.done_writing()

    async def read(self) -> table_pb2.PlayResponse | None:
        """The next message; None at the end of the stream. The error that ended it is raised."""
        message = await within(CALL_SECONDS, self._call.read())
        if message is grpc.aio.EOF:
            if await self._call.code() is not grpc.StatusCode.OK:
                # Raises the error that the stream ended with.
                async for _ in self._call:
                    raise AssertionError("a message after the end")
            return None
        assert isinstance(message, table_pb2.PlayResponse)
        self.messages.append(message)
        return message

    async def read_until(self, wanted: Callable[[table_pb2.PlayResponse], bool]) -> table_pb2.PlayResponse:
        """The next message that is wanted; those before it are kept in `messages`."""
        while message := await self.read():
            if wanted(message):
                return message
        raise AssertionError("the stream ended before the message")

    async def act(self, move: play_pb2.Move, at_version: int, command_id: str | None = None) -> table_pb2.PlayResponse:
        """Send a move and wait for its answer: the commit, that it was applied before, or a refusal."""
        command_id = command_id or str(uuid4())
        act = table_pb2.PlayMove(command_id=command_id, at_version=at_version, move=move)
        await self.write(table_pb2.PlayRequest(act=act))
        return await self.read_until(
            lambda message: (
                command_id
                in (message.commit.command_id, message.repeated_command.command_id, message.refusal.command_id)
            )
        )


class Refusal(NamedTuple):
    """How a call was refused."""

    reason: str | None
    code: grpc.StatusCode


def refusal_of(error: grpc.aio.AioRpcError) -> Refusal:
    """The refusal that a call ended with."""
    return Refusal(reason_of(error), error.code())


async def refused(call: Any) -> Refusal:
    """The refusal of a call that must be refused, a unary one or a stream."""
    try:
        if isinstance(call, grpc.aio.UnaryUnaryCall):
            await within(CALL_SECONDS, call)
        else:
            async with asyncio.timeout(CALL_SECONDS):
                async for _ in call:
                    pass
    except grpc.aio.AioRpcError as error:
        return refusal_of(error)
    raise AssertionError("the call was not refused")


def refusal_in(message: table_pb2.PlayResponse) -> Refusal:
    """The refusal that a Play stream answers a command with."""
    assert message.WhichOneof("kind") == "refusal", message
    status = message.refusal.status
    code = next(code for code in grpc.StatusCode if code.value[0] == status.code)
    return Refusal(reason_in(status), code)


class GameLog:
    """A game as the server's log has it, hands included."""

    def __init__(self, reader: LogReader, game_id: str) -> None:
        self._reader = reader
        self.game_id = UUID(game_id)
        self.rows: list[Row] = []
        # At every version, from 1.
        self.tables: list[Table] = []

    @property
    def table(self) -> Table:
        """The game now, as of the last `refresh`."""
        return self.tables[-1]

    @property
    def version(self) -> int:
        """The version as of the last `refresh`."""
        return len(self.rows)

    async def refresh(self) -> Table:
        """Read and fold what has come."""
        for row in await self._reader.read(self.game_id, self.version):
            commit = decode(row.version, row.payload, self.game_id.bytes)
            self.tables.append(domain.apply(self.tables[-1] if self.tables else None, commit))
            self.rows.append(row)
        return self.table

    async def read_all(self) -> list[Row]:
        """All rows, afresh."""
        return await self._reader.read(self.game_id)

    async def assert_sound(self) -> None:
        """The chain holds, and the fold of the log ends at a finished game."""
        assert first_broken(self.game_id, await self.read_all()) is None
        table = await self.refresh()
        assert table.finished is not None

    def event(self, version: int) -> domain.Event:
        """The first event of a commit."""
        return self.commit(version).events[0]

    def commit(self, version: int) -> domain.Commit:
        """A commit."""
        return decode(version, self.rows[version - 1].payload, self.game_id.bytes)


@asynccontextmanager
async def log_reader(database: Database) -> AsyncIterator[LogReader]:
    """The log, read past the service."""
    async with await open_pool(database.dsn("table"), "test", connections_max=2) as pool:
        yield LogReader(pool)


class Script:
    """Plays all seats of a game whose seats are all persons, from the log: every situation can be reached."""

    def __init__(self, service: Service, log: GameLog) -> None:
        self.service = service
        self.log = log

    @property
    def table(self) -> Table:
        """The game now."""
        return self.log.table

    @property
    def account(self) -> str:
        """Whose turn it is."""
        return self.table.occupants[self.table.turn].account

    def request(self, move: Move, command_id: str | None = None) -> table_pb2.ActRequest:
        """A move in the open decision."""
        return act_request(str(self.log.game_id), move_message(move), self.table.version, command_id)

    async def act(self, move: Move | None = None, command_id: str | None = None) -> int:
        """Make a move for whose turn it is, by default the first legal one; answers with its version."""
        chosen = next(members(self.table.legal)) if move is None else move
        answer = await self.service.table(self.account).Act(self.request(chosen, command_id))
        await self.log.refresh()
        return int(answer.version)

    async def play_until(self, reached: Callable[[Table], bool]) -> Table:
        """Play on until the open decision is of a certain kind; fails if the game ends before."""
        await self.log.refresh()
        while not reached(self.table):
            assert self.table.turn != NO_SEAT, "the game ended and the situation never came"
            await self.act()
        return self.table

    async def play_out(self) -> Table:
        """Play to the end of the game."""
        await self.log.refresh()
        while not self.table.over:
            await self.act()
        return self.table
