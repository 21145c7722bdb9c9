"""`Me.Watch` of many accounts, who all come at once: every service is asked for many of them in one question."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from uuid import UUID, uuid4

import grpc
import pytest
from google.protobuf.message import Message
from levata.matchmaker.v1 import friendly_pb2
from levata.me.v1 import me_pb2, updates_pb2
from levata.table.v1 import games_pb2, table_pb2

from chassis.auth import KeyFiles
from chassis.errors import reason_of
from chassis.rpc import channel, stub
from services.accounts.me.sources import ACCOUNTS_MAX
from tests.accounts import refused
from tests.conftest import Database
from tests.matchmaking import CALL_SECONDS, PATIENCE_SECONDS, Backend, Player, start_backend
from tests.table_client import bot, person
from tools.up.service import ServiceProcess

ME = me_pb2.DESCRIPTOR.services_by_name["Me"]
SNAPSHOTS = updates_pb2.DESCRIPTOR.services_by_name["Snapshots"]
FRIENDLY = friendly_pb2.DESCRIPTOR.services_by_name["FriendlyTables"]
SERVICES_ASKED = ("table", "ledger", "league", "matchmaker")
STREAMS = 500


@pytest.fixture(scope="module")
def running(module_start_service: Callable[..., ServiceProcess], module_database: Database, keys: KeyFiles) -> Backend:
    return start_backend(module_start_service, module_database, keys)


@pytest.fixture
async def backend(running: Backend) -> AsyncIterator[Backend]:
    async with running.attended():
        yield running


async def add_accounts(backend: Backend, accounts: Sequence[UUID]) -> None:
    """Guests whom the accounts service knows."""
    await backend.rows(
        "accounts",
        """
        insert into account (account_id, name, guest)
        select account_id, 'Guest-' || account_id, true from unnest($1::uuid[]) account_id""",
        accounts,
    )


async def new_game(backend: Backend, *players: Player) -> str:
    """A running game of these and bots."""
    prepared = await backend.games.Prepare(
        games_pb2.PrepareRequest(
            request_id=str(uuid4()), game_type="euchre", variant="standard", seats=4, mode=table_pb2.MODE_FRIENDLY
        )
    )
    seats = [person(str(player.account)) for player in players]
    seats += [bot() for _ in range(4 - len(seats))]
    await backend.games.Create(games_pb2.CreateRequest(game_id=prepared.game_id, seats=seats))
    return str(prepared.game_id)


async def new_table(backend: Backend, owner: Player, *guests: Player) -> str:
    """A friendly table at which these sit, and where something was said."""

    async def call(player: Player, method: str, **fields: Any) -> Any:
        backend.present.add(player)
        service = backend.stub(backend.addresses["matchmaker"][0], player.token, FRIENDLY)
        return await getattr(service, method)(getattr(friendly_pb2, f"{method}Request")(**fields), timeout=CALL_SECONDS)

    options = friendly_pb2.TableOptions(game_type="euchre")
    table_id = (await call(owner, "OpenTable", request_id=str(uuid4()), options=options)).table.table_id
    for guest in guests:
        await call(guest, "Sit", table_id=table_id)
    for player in (owner, *guests):
        await call(player, "SayAtTable", table_id=table_id, text=f"I am {player.account}")
    return str(table_id)


@dataclass
class Told:
    """What an account is told."""

    games: set[str] = field(default_factory=set)
    coins: int | None = None
    xp: int | None = None
    searches: bool | None = None
    # None: nothing was said of it; empty for no table.
    table_id: str | None = None
    lines: list[str] = field(default_factory=list)

    def take(self, part: Message) -> None:
        match part:
            case me_pb2.Game() | updates_pb2.GameUpdate():
                self.games.add(part.game_id)
            case me_pb2.Balances():
                (self.coins,) = (each.free for each in part.balances if each.currency == "coin")
            case me_pb2.Standing():
                self.xp = part.xp
            case me_pb2.Search():
                self.searches = part.HasField("ticket")
            case me_pb2.WaitingTable():
                self.table_id = part.table.table_id
                self.lines = [line.text for line in part.table.lines]


class Crowd:
    """People of whom there is something to tell, among those of whom there is nothing."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.rich, self.alone, self.searching, *self.friends = self.players = [backend.player() for _ in range(6)]
        # In no order.
        self.accounts = [player.account for player in self.players]
        self.accounts += [uuid4() for _ in range(ACCOUNTS_MAX - len(self.accounts))]
        random.shuffle(self.accounts)
        self.table_id = ""

    async def come(self) -> None:
        """Do what is told of them."""
        await add_accounts(self.backend, self.accounts)
        await self.backend.give(self.rich, 700)
        await self.backend.raise_level(self.rich, 300)
        await self.searching.enqueue()
        await new_game(self.backend, self.alone, *self.friends)
        await new_game(self.backend, self.alone)
        self.table_id = await new_table(self.backend, *self.friends)

    async def running(self) -> dict[UUID, set[str]]:
        """The games that those play who play any. Nobody looks after them, so that they end at some time."""
        games = {}
        for player in (self.alone, *self.friends):
            listed = await player.table().List(table_pb2.ListRequest(running_only=True), timeout=CALL_SECONDS)
            games[player.account] = {game.game_id for game in listed.games}
        return games

    def check(
        self, told: Mapping[UUID, Told], running_before: Mapping[UUID, set[str]], running_after: Mapping[UUID, set[str]]
    ) -> None:
        """Each is told what is the own, and nothing of anybody else's."""
        assert len(running_before[self.alone.account]) == 2
        friends = {friend.account for friend in self.friends}
        for account in self.accounts:
            own = told[account]
            # Bots may have begun a game with who searches.
            if account != self.searching.account:
                assert running_after.get(account, set()) <= own.games <= running_before.get(account, set())
            is_rich = account == self.rich.account
            assert (own.coins, own.xp) == ((700, 300) if is_rich else (0, 0))
            assert own.searches == (account == self.searching.account)
            assert own.table_id == (self.table_id if account in friends else "")
            assert own.lines == ([f"I am {friend.account}" for friend in self.friends] if account in friends else [])


@pytest.fixture
async def crowd(backend: Backend) -> Crowd:
    crowd = Crowd(backend)
    await crowd.come()
    return crowd


def snapshots(backend: Backend, service: str, role: str = "accounts") -> Any:
    return backend.stub(backend.addresses[service][0], backend.signer.service_token(role, 3600), SNAPSHOTS)


async def one_by_one(backend: Backend, service: str, accounts: Sequence[UUID]) -> list[list[updates_pb2.Update]]:
    """What a service tells of each account when it is asked for it alone."""
    asked = [
        snapshots(backend, service).Snapshot(updates_pb2.SnapshotRequest(account_id=str(account)), timeout=CALL_SECONDS)
        for account in accounts
    ]
    return [list(response.updates) for response in await asyncio.gather(*asked)]


async def together(backend: Backend, service: str, accounts: Sequence[UUID]) -> list[list[updates_pb2.Update]]:
    """What a service tells of all of them in one answer."""
    request = updates_pb2.SnapshotAllRequest(account_ids=map(str, accounts))
    response = await snapshots(backend, service).SnapshotAll(request, timeout=CALL_SECONDS)
    assert all(outcome.HasField("snapshot") for outcome in response.accounts)
    return [list(outcome.snapshot.updates) for outcome in response.accounts]


def without_moments(told: Sequence[Sequence[updates_pb2.Update]]) -> list[list[updates_pb2.Update]]:
    """The same, without the numbers of those that are of the moment at which they were read."""
    for update in chain.from_iterable(told):
        assert update.number > 0
        if not (update.HasField("game") or update.waiting_table.HasField("table")):
            update.ClearField("number")
    return [list(updates) for updates in told]


async def test_many_are_told_in_one_answer_what_each_is_told_alone(backend: Backend, crowd: Crowd) -> None:
    told = {account: Told() for account in crowd.accounts}
    running_before = await crowd.running()
    async with asyncio.timeout(PATIENCE_SECONDS):
        for service in SERVICES_ASKED:
            before = all_of_them = after = None
            # Somebody's game or search may go on meanwhile.
            while before is None or before != after:
                before = without_moments(await one_by_one(backend, service, crowd.accounts))
                all_of_them = without_moments(await together(backend, service, crowd.accounts))
                after = without_moments(await one_by_one(backend, service, crowd.accounts))
            assert all_of_them == before
            for account, updates in zip(crowd.accounts, all_of_them, strict=True):
                for update in updates:
                    told[account].take(getattr(update, update.WhichOneof("thing") or ""))
    crowd.check(told, running_before, await crowd.running())


@pytest.mark.parametrize("service", SERVICES_ASKED)
async def test_a_question_for_nobody_or_too_many_does_no_harm(backend: Backend, service: str) -> None:
    assert await together(backend, service, []) == []
    for accounts in ([uuid4()] * 2, [uuid4() for _ in range(ACCOUNTS_MAX + 1)]):
        with refused("INVALID_REQUEST"):
            await together(backend, service, accounts)
    request = updates_pb2.SnapshotAllRequest(account_ids=[str(uuid4())])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await snapshots(backend, service, "tools").SnapshotAll(request, timeout=CALL_SECONDS)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_five_hundred_who_come_at_once_are_all_told_everything_but_one_who_is_no_more(
    backend: Backend, crowd: Crowd
) -> None:
    others = [uuid4() for _ in range(STREAMS - ACCOUNTS_MAX)]
    await add_accounts(backend, others)
    deleted = uuid4()
    accounts = [*crowd.accounts, deleted, *others]
    running_before = await crowd.running()
    async with channel(str(backend.addresses["accounts"][0])) as opened, asyncio.timeout(PATIENCE_SECONDS):
        watching = [watched(opened, backend, account) for account in accounts]
        came = dict(zip(accounts, await asyncio.gather(*watching), strict=True))
    assert came.pop(deleted) == "ACCOUNT_NOT_FOUND"
    told = {account: each for account, each in came.items() if isinstance(each, Told)}
    assert len(told) == STREAMS
    crowd.check(told, running_before, await crowd.running())
    nothing = Told(coins=0, xp=0, searches=False, table_id="")
    assert all(told[account] == nothing for account in others)


async def watched(opened: grpc.aio.Channel, backend: Backend, account: UUID) -> Told | str:
    """What an account is told until everything was, or why it is told nothing."""
    told = Told()
    authorization = f"Bearer {backend.signer.player_token(str(account), False, 3600)}"
    responses = stub(opened, ME).Watch(me_pb2.WatchRequest(), metadata=[("authorization", authorization)])
    try:
        async for response in responses:
            kind = response.WhichOneof("kind")
            match kind:
                case "account":
                    assert response.account.account_id == str(account)
                case "games":
                    for game in response.games.games:
                        told.take(game)
                case "status" if not response.status.unavailable:
                    return told
                case _:
                    told.take(getattr(response, kind))
    except grpc.aio.AioRpcError as error:
        return reason_of(error) or ""
    finally:
        responses.cancel()
    raise AssertionError("the stream ended before all was told")
