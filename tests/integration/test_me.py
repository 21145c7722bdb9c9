"""`Me.Watch` over replicas of accounts, a table service and a real NATS: nothing that still matters is missed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import grpc
import pytest
from levata.accounts.v1 import accounts_pb2
from levata.me.v1 import me_pb2, updates_pb2
from levata.table.v1 import games_pb2, table_pb2

from chassis import bus
from chassis.auth import KeyFiles, Signer, Verifier
from chassis.errors import reason_of
from chassis.rpc import channel, stub
from chassis.settings import Address
from rules.vip import vip_weekdays
from services.accounts.__main__ import build as build_accounts
from services.accounts.me import asker, hub, stream
from services.table.__main__ import build as build_table
from tests.accounts import Phone, World, accounts_settings
from tests.conftest import Database
from tests.table_client import Player, Service, bot, person, prepare_game, settings_for
from tools.embedded.nats import EmbeddedNats
from tools.embedded.process import free_port

PATIENCE_SECONDS: Final = 60
ME: Final = me_pb2.DESCRIPTOR.services_by_name["Me"]
numbers = count(1)

Accounts = Callable[..., AbstractAsyncContextManager[World]]
Table = Callable[..., AbstractAsyncContextManager[Service]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asker, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(hub, "LOOK_SECONDS", 0.05)
    # What else comes is looked at in full, however long it takes.
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 3600.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the replicas have their common secret."""
    return tmp_path_factory.mktemp("accounts")


@pytest.fixture
def accounts(module_database: Database, keys: KeyFiles, nats: EmbeddedNats, folder: Path) -> Accounts:
    """Runs a replica: `accounts(table=[address], nats_url=…)`."""
    token_file = folder / "service.token"
    token_file.write_text(Signer.from_file(keys.signing_key).service_token("accounts", 3600))

    @asynccontextmanager
    async def run(table: Sequence[Address] = (), nats_url: str | None = None) -> AsyncIterator[World]:
        settings = accounts_settings(
            module_database,
            keys,
            folder,
            nats_url=nats.url("accounts") if nats_url is None else nats_url,
            service_token_file=token_file,
            peers={"table": [str(address) for address in table]} if table else {},
        )
        async with build_accounts(settings) as address:
            yield World(settings, module_database, Verifier.from_file(keys.jwks), str(address))

    return run


@pytest.fixture
def table(module_database: Database, keys: KeyFiles, nats: EmbeddedNats) -> Table:
    """Runs a replica: `table(listen=…)`."""

    @asynccontextmanager
    async def run(listen: Address | None = None) -> AsyncIterator[Service]:
        settings = settings_for(module_database, keys, nats)
        if listen is not None:
            settings = settings.model_copy(update={"listen": listen})
        async with build_table(settings) as address:
            service = Service(str(address), Signer.from_file(keys.signing_key))
            try:
                yield service
            finally:
                await service.close()

    return run


class Watcher:
    """A client on Me.Watch, and what it has of each part."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.account: me_pb2.Account | None = None
        self.games: list[me_pb2.Game] | None = None
        self.unavailable: list[int] | None = None
        self.closing = ""
        self.refused: str | None = None
        self.ended = False
        self._changed = asyncio.Event()

    async def run(self, responses: Any) -> None:
        try:
            async for response in responses:
                self._take(response)
        except grpc.aio.AioRpcError as error:
            self.refused = reason_of(error)
        self.ended = True
        self._changed.set()

    def _take(self, response: me_pb2.WatchResponse) -> None:
        kind = response.WhichOneof("kind")
        assert kind is not None
        self.kinds.append(kind)
        match kind:
            case "account":
                self.account = response.account
            case "games":
                self.games = list(response.games.games)
            case "status":
                self.unavailable = list(response.status.unavailable)
            case "closing":
                self.closing = response.closing.reason
        self._changed.set()

    @property
    def name(self) -> str:
        return "" if self.account is None else self.account.name

    @property
    def seats(self) -> dict[str, tuple[int, bool]] | None:
        return None if self.games is None else {game.game_id: (game.seat, game.away) for game in self.games}

    async def until(self, condition: Callable[["Watcher"], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()

    async def until_all_is_there(self) -> None:
        await self.until(lambda w: w.unavailable == [])


@asynccontextmanager
async def watching(at: World, phone: Phone) -> AsyncIterator[Watcher]:
    watcher = Watcher()
    async with channel(at.address, phone.got.access_token, own_connection=True) as opened:
        running = asyncio.create_task(watcher.run(stub(opened, ME).Watch(me_pb2.WatchRequest())))
        try:
            yield watcher
        finally:
            running.cancel()
            await asyncio.wait([running])


async def signed_in(at: World, name: str) -> Phone:
    """Somebody with a name of this beginning."""
    phone = at.phone()
    await phone.sign_in(f"{uuid4()}@example.com")
    await phone.rename(f"{name} {next(numbers)}")
    phone.got.account.CopyFrom(await phone.whoami())
    return phone


async def rename_unheard(phone: Phone, name: str) -> None:
    """Another name, of which nothing is ever published."""
    await phone.world.rows("update account set name = $2 where account_id = $1", phone.got.account.account_id, name)


async def create_game(table: Service, *phones: Phone) -> str:
    game_id = await prepare_game(table, game_type="euchre", variant="standard")
    seats = [person(phone.got.account.account_id) for phone in phones]
    seats += [bot() for _ in range(4 - len(seats))]
    await table.games.Create(games_pb2.CreateRequest(game_id=game_id, seats=seats))
    return game_id


def address_of(service: Service) -> Address:
    host, _, port = service.address.rpartition(":")
    return Address(host, int(port))


async def test_a_new_name_on_one_device_is_seen_on_another_at_another_replica(accounts: Accounts) -> None:
    async with accounts() as one, accounts() as two:
        zoe = await signed_in(one, "Zoe")
        known = zoe.got.account
        async with watching(one, zoe) as phone, watching(one, zoe) as tablet, watching(two, zoe) as browser:
            for watcher in (phone, tablet, browser):
                await watcher.until_all_is_there()
                assert watcher.kinds == ["account", "status"]
                assert watcher.account is not None
                assert (watcher.account.account_id, watcher.name, watcher.account.guest) == (
                    known.account_id,
                    known.name,
                    False,
                )
            await zoe.rename(f"Zoe {next(numbers)}")
            for watcher in (phone, tablet, browser):
                await watcher.until(lambda w: w.name not in ("", known.name))
                assert watcher.name == (await zoe.whoami()).name


async def test_a_guest_who_signs_in_is_no_guest_any_more(accounts: Accounts) -> None:
    async with accounts() as one:
        zoe = one.phone()
        await zoe.guest()
        async with watching(one, zoe) as phone:
            await phone.until(lambda w: w.account is not None and w.account.guest)
            assert phone.account is not None
            days = [day + 1 for day in vip_weekdays(UUID(zoe.got.account.account_id))]
            assert list(phone.account.vip_weekdays) == days
            await zoe.sign_in(f"{uuid4()}@example.com")
            await phone.until(lambda w: w.account is not None and not w.account.guest)


async def test_a_game_appears_and_disappears_while_one_watches(accounts: Accounts, table: Table) -> None:
    async with table() as tables, accounts([address_of(tables)]) as one:
        zoe = await signed_in(one, "Zoe")
        async with watching(one, zoe) as phone:
            await phone.until(lambda w: w.games == [] and w.unavailable == [])
            assert phone.kinds == ["account", "games", "status"]
            game_id = await create_game(tables, zoe)
            await phone.until(lambda w: w.seats == {game_id: (0, False)})
            assert phone.games == [
                me_pb2.Game(game_id=game_id, game_type="euchre", variant="standard", mode=table_pb2.MODE_FRIENDLY)
            ]
            async with watching(one, zoe) as browser:
                await browser.until_all_is_there()
                assert browser.kinds == ["account", "games", "status"]
                assert browser.seats == {game_id: (0, False)}
                await Player(tables, zoe.got.account.account_id, game_id).watch_to_the_end()
                for watcher in (phone, browser):
                    await watcher.until(lambda w: w.games == [])


async def test_others_are_told_nothing(accounts: Accounts, table: Table) -> None:
    async with table() as tables, accounts([address_of(tables)]) as one:
        zoe, adam = await signed_in(one, "Zoe"), await signed_in(one, "Adam")
        async with watching(one, zoe) as mine, watching(one, adam) as others:
            await others.until_all_is_there()
            await create_game(tables, zoe)
            name = f"Zoe {next(numbers)}"
            await zoe.rename(name)
            await mine.until(lambda w: bool(w.games) and w.name == name)
            assert others.kinds == ["account", "games", "status"]
            assert (others.games, others.name) == ([], adam.got.account.name)


async def test_a_service_that_is_away_at_the_start_is_told_and_comes_later(accounts: Accounts, table: Table) -> None:
    nowhere = Address("127.0.0.1", free_port())
    async with accounts([nowhere]) as one:
        zoe = await signed_in(one, "Zoe")
        async with watching(one, zoe) as phone:
            await phone.until(lambda w: w.unavailable == [me_pb2.PART_GAMES])
            assert phone.kinds == ["account", "status"]
            async with table(nowhere) as tables:
                await phone.until(lambda w: w.games == [] and w.unavailable == [])
                game_id = await create_game(tables, zoe)
                await phone.until(lambda w: w.seats == {game_id: (0, False)})


async def test_one_of_two_replicas_that_is_away_is_not_missed(accounts: Accounts, table: Table) -> None:
    nowhere = Address("127.0.0.1", free_port())
    async with table() as tables, accounts([nowhere, address_of(tables)]) as one:
        zoe = await signed_in(one, "Zoe")
        game_id = await create_game(tables, zoe)
        async with watching(one, zoe) as phone:
            await phone.until_all_is_there()
            assert phone.seats == {game_id: (0, False)}


async def test_what_was_not_heard_while_nats_was_away_comes_when_it_is_back(
    accounts: Accounts, servers_folder: Path
) -> None:
    own = EmbeddedNats(servers_folder / "nats of me")
    own.start()
    try:
        async with accounts(nats_url=own.url("accounts")) as one:
            zoe = await signed_in(one, "Zoe")
            async with watching(one, zoe) as phone:
                await phone.until_all_is_there()
                own.stop()
                names = [f"Zoe {next(numbers)}" for _ in range(2)]
                await rename_unheard(zoe, names[0])
                own.start()
                await phone.until(lambda w: w.name == names[0])
                await zoe.rename(names[1])
                await phone.until(lambda w: w.name == names[1])
    finally:
        own.stop()


async def test_without_nats_it_lags_and_misses_nothing(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "REFRESH_DEAF_SECONDS", 0.2)
    async with accounts(nats_url="") as one:
        zoe = await signed_in(one, "Zoe")
        async with watching(one, zoe) as phone:
            await phone.until_all_is_there()
            name = f"Zoe {next(numbers)}"
            await zoe.rename(name)
            await phone.until(lambda w: w.name == name)


async def test_what_was_never_published_comes_by_itself(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "REFRESH_SECONDS", 0.2)
    async with accounts() as one:
        zoe = await signed_in(one, "Zoe")
        async with watching(one, zoe) as phone:
            await phone.until_all_is_there()
            name = f"Zoe {next(numbers)}"
            await rename_unheard(zoe, name)
            await phone.until(lambda w: w.name == name)


async def test_a_deleted_account_ends_its_streams_and_opens_none(accounts: Accounts) -> None:
    async with accounts() as one:
        zoe = await signed_in(one, "Zoe")
        async with watching(one, zoe) as phone:
            await phone.until_all_is_there()
            await zoe.call("DeleteAccount", accounts_pb2.DeleteAccountRequest())
            await phone.until(lambda w: w.ended)
            assert phone.refused in ("ACCOUNT_NOT_FOUND", "SESSION_REVOKED")
        async with watching(one, zoe) as phone:
            await phone.until(lambda w: w.ended)
            assert phone.refused in ("ACCOUNT_NOT_FOUND", "SESSION_REVOKED")
            assert phone.kinds == []


async def test_silence_is_filled_with_heartbeats(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.1)
    async with accounts() as one:
        zoe = await signed_in(one, "Zoe")
        async with watching(one, zoe) as phone:
            await phone.until(lambda w: w.kinds[-2:] == ["heartbeat", "heartbeat"])


async def test_a_replica_that_stops_ends_its_streams_in_order(accounts: Accounts) -> None:
    async with AsyncExitStack() as stopped_first:
        one = await stopped_first.enter_async_context(accounts())
        zoe = await signed_in(one, "Zoe")
        async with watching(one, zoe) as phone:
            await phone.until_all_is_there()
            await stopped_first.aclose()
            await phone.until(lambda w: w.ended)
            assert (phone.closing, phone.refused) == ("DRAINING", None)


async def test_updates_that_are_no_updates_do_no_harm(accounts: Accounts, nats: EmbeddedNats) -> None:
    async with accounts() as one:
        zoe = await signed_in(one, "Zoe")
        async with watching(one, zoe) as phone:
            await phone.until_all_is_there()
            client = await bus.connect(nats.url("table"), "a newer service")
            for payload in (b"", b"\xff", updates_pb2.Update(number=1 << 60).SerializeToString()):
                await client.publish(f"levata.me.{zoe.got.account.account_id}", payload)
            await client.close()
            name = f"Zoe {next(numbers)}"
            await zoe.rename(name)
            await phone.until(lambda w: w.name == name)
            assert phone.kinds == ["account", "status", "account"]


async def test_streams_that_come_and_go_leave_nothing_behind(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hubs: list[hub.Hub] = []

    class SeenHub(hub.Hub):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            hubs.append(self)

    monkeypatch.setattr("services.accounts.__main__.Hub", SeenHub)
    async with accounts() as one:
        (seen,) = hubs
        zoe = await signed_in(one, "Zoe")

        def left() -> tuple[int, int]:
            assert seen._nats is not None
            return len(asyncio.all_tasks()), len(seen._nats._subs)

        async def come_and_go() -> None:
            async with watching(one, zoe) as phone, watching(one, zoe):
                await phone.until(lambda w: bool(w.kinds))

        # By now the first one has set up what stays, and what signing in began may not have ended: more than this is a
        # leak, less is none.
        await come_and_go()
        before = left()
        for _ in range(20):
            await come_and_go()
        async with asyncio.timeout(PATIENCE_SECONDS):
            # The server learns of a client's leaving a little later, which may also be in the count of before.
            while (
                seen._feeds or seen._subscriptions or any(now > then for now, then in zip(left(), before, strict=True))
            ):
                await asyncio.sleep(0.05)
        assert all(not each._feeds and not each._wanted and not each._due for each in seen._askers.values())


async def test_only_players_watch_and_only_accounts_asks_for_snapshots(
    accounts: Accounts, table: Table, keys: KeyFiles
) -> None:
    signer = Signer.from_file(keys.signing_key)
    snapshots = updates_pb2.DESCRIPTOR.services_by_name["Snapshots"]
    async with table() as tables, accounts() as one:
        async with channel(one.address, signer.service_token("table", 60)) as opened:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub(opened, ME).Watch(me_pb2.WatchRequest()).read()
            assert reason_of(caught.value) == "ROLE_REQUIRED"
        request = updates_pb2.SnapshotRequest(account_id=str(uuid4()))
        for token in (signer.player_token(str(uuid4()), False, 60), signer.service_token("league", 60)):
            async with channel(tables.address, token) as opened:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await stub(opened, snapshots).Snapshot(request)
                assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
