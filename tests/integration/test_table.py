"""The table service over gRPC, on a real Postgres."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import grpc
import pytest

from chassis.auth import KeyFiles, Signer
from chassis.errors import reason_in, reason_of
from chassis.rpc import channel, stub
from chassis.settings import Settings
from levata.table.v1 import games_pb2, play_pb2, table_pb2
from services.table.__main__ import build
from tests.conftest import Database


@dataclass
class Service:
    """A running table service and the tokens to call it with."""

    address: str
    signer: Signer
    games: Any

    def table(self, account: str) -> Any:
        """The public API as a player."""
        token = self.signer.player_token(account, False, 3600)
        return stub(channel(self.address, token), table_pb2.DESCRIPTOR.services_by_name["Table"])


SEAT_ACCOUNTS = [str(UUID(int=n + 1, version=4)) for n in range(6)]


@pytest.fixture
async def service(database: Database, keys: KeyFiles) -> AsyncIterator[Service]:
    """A table service on a database of its own."""
    async with running(database, keys) as started:
        yield started


@asynccontextmanager
async def running(database: Database, keys: KeyFiles) -> AsyncIterator[Service]:
    """A table service that stops at the end of the context."""
    settings = Settings(service_name="table", postgres_dsn=database.dsn("table"), jwks_file=keys.jwks)
    async with build(settings) as address:
        signer = Signer.from_file(keys.signing_key)
        internal = channel(str(address), signer.service_token("test", 3600))
        yield Service(str(address), signer, stub(internal, games_pb2.DESCRIPTOR.services_by_name["Games"]))


async def create_game(
    service: Service,
    *,
    people: int,
    seats: int = 4,
    variant: str = "8-1-8",
    mode: table_pb2.Mode.ValueType = table_pb2.MODE_FRIENDLY,
    clock: games_pb2.ClockOptions | None = None,
) -> str:
    """A running game of whist with people in the first seats and bots in the others."""
    prepared = await service.games.Prepare(
        games_pb2.PrepareRequest(
            request_id=str(uuid4()), game_type="romanian_whist", variant=variant, seats=seats, mode=mode
        )
    )
    setups = [
        games_pb2.SeatSetup(account=games_pb2.AccountSeat(account_id=SEAT_ACCOUNTS[seat]))
        if seat < people
        else games_pb2.SeatSetup(bot=games_pb2.BotSeat())
        for seat in range(seats)
    ]
    await service.games.Create(games_pb2.CreateRequest(game_id=prepared.game_id, seats=setups, clock=clock))
    return str(prepared.game_id)


class Player:
    """A client that knows no rules: it does what its stream says it may."""

    def __init__(self, service: Service, account: str, game_id: str) -> None:
        self.table = service.table(account)
        self.game_id = game_id
        self.version = 0
        self.decision: play_pb2.Decision | None = None
        self.snapshot: table_pb2.Snapshot | None = None
        self.commits: list[table_pb2.Commit] = []

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

    @property
    def my_turn(self) -> bool:
        """Whether the stream says that this player may decide."""
        return self.decision is not None and self.decision.seat == self.seat and bool(self.decision.legal_moves)

    def act(self, move: play_pb2.Move, *, at_version: int | None = None, command_id: str | None = None) -> Any:
        """One unary move."""
        return self.table.Act(
            table_pb2.ActRequest(
                game_id=self.game_id,
                command_id=command_id or str(uuid4()),
                at_version=self.version if at_version is None else at_version,
                move=move,
            )
        )

    async def watch_to_the_end(self) -> None:
        """Play the first legal move whenever it is this player's turn, over Watch and Act."""
        async for message in self.table.Watch(table_pb2.WatchRequest(game_id=self.game_id)):
            self.take(message)
            if self.my_turn:
                assert self.decision is not None
                answer = await self.act(self.decision.legal_moves[0])
                assert answer.version == self.version + 1


async def test_a_whole_game_over_watch_and_act(service: Service) -> None:
    game_id = await create_game(service, people=2, seats=6, variant="quick")
    players = [Player(service, account, game_id) for account in SEAT_ACCOUNTS[:2]]
    await asyncio.gather(*(player.watch_to_the_end() for player in players))
    for player in players:
        last = player.commits[-1].events[-1]
        assert last.WhichOneof("kind") == "finished"
        assert sorted(last.finished.standings) == [1, 2, 3, 4, 5, 6]
        assert len(last.finished.server_seed) == 32
        # Own legal moves only.
        for commit in player.commits:
            assert commit.decision.seat == player.seat or not commit.decision.legal_moves
    first, second = players
    assert [c.version for c in first.commits] == [c.version for c in second.commits]
