"""A whole backend for tests of the matchmaker, its services as processes of their own, and players at it."""

import asyncio
import urllib.request
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Final
from uuid import UUID, uuid4

import asyncpg
import grpc
from google.protobuf.message import Message
from levata.ledger.v1 import entries_pb2
from levata.matchmaker.v1 import matchmaker_pb2
from levata.me.v1 import me_pb2, updates_pb2
from levata.table.v1 import games_pb2, table_pb2
from prometheus_client.parser import text_string_to_metric_families

from chassis.auth import KeyFiles, Signer
from chassis.database import open_pool
from chassis.rpc import channel, stub
from chassis.settings import Address
from chassis.tasks import end
from services.ledger.domain.journal import Currency
from tests.conftest import Database
from tests.ledger import give
from tools.client import sign_in_guest
from tools.embedded.process import free_port
from tools.faults.link import Link
from tools.up.service import ServiceProcess

SERVICES: Final = ("accounts", "table", "ledger", "league", "matchmaker")
PATIENCE_SECONDS: Final = 90.0
POLL_SECONDS: Final = 0.05
HERE_SECONDS: Final = 2.0
CALL_SECONDS: Final = 30

WAITING = matchmaker_pb2.TICKET_STATE_WAITING
SEATED = matchmaker_pb2.TICKET_STATE_SEATED
DEALING = matchmaker_pb2.TICKET_STATE_DEALING
PLAYING = matchmaker_pb2.TICKET_STATE_PLAYING
ENDED = matchmaker_pb2.TICKET_STATE_ENDED

_MATCHMAKER: Final = matchmaker_pb2.DESCRIPTOR.services_by_name["Matchmaker"]
_SNAPSHOTS: Final = updates_pb2.DESCRIPTOR.services_by_name["Snapshots"]
_ME: Final = me_pb2.DESCRIPTOR.services_by_name["Me"]
_GAMES: Final = games_pb2.DESCRIPTOR.services_by_name["Games"]
_ENTRIES: Final = entries_pb2.DESCRIPTOR.services_by_name["Entries"]
_TABLE: Final = table_pb2.DESCRIPTOR.services_by_name["Table"]


@dataclass(eq=False)
class Backend:
    """The services that run, and the way to them."""

    database: Database
    signer: Signer
    addresses: Mapping[str, Sequence[Address]]
    processes: Mapping[str, Sequence[ServiceProcess]]
    # Where the matchmaker's replicas tell their figures.
    metrics: Sequence[Address]
    # Whose clients say that they are there.
    present: set["Player"] = field(default_factory=set)
    _channels: dict[tuple[str, str], grpc.aio.Channel] = field(default_factory=dict)

    def stub(self, address: Address, token: str, service: Any) -> Any:
        """A service's methods, called with a token."""
        key = (str(address), token)
        if key not in self._channels:
            self._channels[key] = channel(str(address), token)
        return stub(self._channels[key], service)

    async def signed_in(self) -> "Player":
        """Somebody new whom the accounts service knows, so that it tells what becomes of them."""
        account = await sign_in_guest(str(self.addresses["accounts"][0]))
        return Player(self, UUID(account.account_id), account.token)

    def player(self, *, guest: bool = False, replica: int = 0) -> "Player":
        """Somebody new."""
        account = uuid4()
        return Player(self, account, self.signer.player_token(str(account), guest, 3600), replica)

    @property
    def games(self) -> Any:
        """The table service's internal calls."""
        return self.stub(self.addresses["table"][0], self.signer.service_token("tools", 3600), _GAMES)

    def service(self, name: str, service: Any) -> Any:
        """A service's internal calls, in the matchmaker's name."""
        return self.stub(self.addresses[name][0], self.signer.service_token("matchmaker", 3600), service)

    async def rows(self, service: str, query: str, *arguments: object) -> list[asyncpg.Record]:
        """Query with a service's own role."""
        connection = await asyncpg.connect(self.database.dsn(service))
        try:
            return list(await connection.fetch(query, *arguments))
        finally:
            await connection.close()

    async def figures(self) -> dict[tuple[str, ...], float]:
        """The figures of all replicas of the matchmaker, added up, by name and labels."""
        told: defaultdict[tuple[str, ...], float] = defaultdict(float)
        for address in self.metrics:
            answer = await asyncio.to_thread(urllib.request.urlopen, f"http://{address}/metrics", timeout=CALL_SECONDS)
            with answer:
                families = text_string_to_metric_families(answer.read().decode())
            for family in families:
                for sample in family.samples:
                    told[sample.name, *sample.labels.values()] += sample.value
        return told

    async def give(self, player: "Player", amount: int, currency: Currency = Currency.COIN) -> None:
        """Money, out of the blue."""
        async with await open_pool(self.database.dsn("ledger"), "test", connections_max=1) as pool:
            await give(pool, player.account, amount, currency)

    async def left(self, player: "Player", currency: Currency) -> int:
        """What a player has, once nothing of it is held any more."""
        query = "select posted, held from balance where account = $1 and currency = $2"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (row := (await self.rows("ledger", query, player.account, currency.value))[0])["held"]:
                await asyncio.sleep(POLL_SECONDS)
        return int(row["posted"])

    async def raise_level(self, player: "Player", xp: int) -> None:
        """XP, out of the blue."""
        await self.rows(
            "league",
            "insert into progress (build, account_id, xp) select build, $1, $2 from live_build",
            player.account,
            xp,
        )

    @asynccontextmanager
    async def attended(self) -> AsyncIterator[None]:
        """While this runs, everybody who has enqueued says every few seconds that they are there. Channels belong to
        the loop, and are closed at the end."""
        attending = asyncio.create_task(self._attend())
        try:
            yield
        finally:
            await end(attending)
            self.present.clear()
            for each in self._channels.values():
                await each.close()
            self._channels.clear()

    async def _attend(self) -> None:
        while True:
            for player in list(self.present):
                with suppress(grpc.aio.AioRpcError):
                    await player.here()
            await asyncio.sleep(HERE_SECONDS)


@contextmanager
def link() -> Iterator[Link]:
    """A way to an address that nobody has yet, in a thread of its own: for services that a module's tests share."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def done(work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_SECONDS)

    made = Link("way", Address("127.0.0.1", free_port()))
    done(made.start())
    try:
        yield made
    finally:
        done(made.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@dataclass(frozen=True)
class Player:
    """Somebody with a token, who calls one of the matchmaker's replicas."""

    backend: Backend
    account: UUID
    token: str
    replica: int = 0

    def at(self, replica: int) -> "Player":
        """The same player on another device, which calls another replica."""
        return Player(self.backend, self.account, self.token, replica)

    async def call(self, method: str, request: Message) -> Any:
        """A call of the matchmaker's."""
        address = self.backend.addresses["matchmaker"][self.replica]
        matchmaker = self.backend.stub(address, self.token, _MATCHMAKER)
        return await getattr(matchmaker, method)(request, timeout=CALL_SECONDS)

    async def enqueue(self, room: int = 1, game: str = "romanian_whist", variant: str = "", coffee: str = "") -> Any:
        """The ticket."""
        request = matchmaker_pb2.EnqueueRequest(room=room, game_type=game, variant=variant, coffee=coffee)
        self.backend.present.add(self)
        return (await self.call("Enqueue", request)).ticket

    async def cancel(self, ticket_id: str) -> None:
        """Give the ticket up."""
        await self.call("CancelTicket", matchmaker_pb2.CancelTicketRequest(ticket_id=ticket_id))

    async def answer(self, game_id: str, nonce: bytes = b"") -> None:
        """Answer a commitment."""
        await self.call("AddNonce", matchmaker_pb2.AddNonceRequest(game_id=game_id, nonce=nonce))

    async def here(self) -> None:
        """A sign of life."""
        await self.call("Here", matchmaker_pb2.HereRequest())

    async def ticket(self) -> matchmaker_pb2.Ticket | None:
        """What the player's own stream would begin with."""
        address = self.backend.addresses["matchmaker"][self.replica]
        snapshots = self.backend.stub(address, self.backend.signer.service_token("accounts", 3600), _SNAPSHOTS)
        request = updates_pb2.SnapshotRequest(account_id=str(self.account))
        snapshot: updates_pb2.SnapshotResponse = await snapshots.Snapshot(request, timeout=CALL_SECONDS)
        (search,) = (update.search for update in snapshot.updates if update.HasField("search"))
        return search.ticket if search.HasField("ticket") else None

    async def becomes(self, state: matchmaker_pb2.TicketState.ValueType) -> matchmaker_pb2.Ticket:
        """The ticket once it is in a state."""
        ticket = None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    ticket = await self.ticket()
                    if ticket is not None and ticket.state == state:
                        return ticket
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise AssertionError(f"the ticket is {ticket}") from None

    async def has_table(self) -> matchmaker_pb2.QuickTable:
        """The table, once its commitment is shown."""
        while not (ticket := await self.becomes(SEATED)).table.game_id:
            await asyncio.sleep(POLL_SECONDS)
        return ticket.table

    async def searches(self) -> AsyncGenerator[me_pb2.Search, None]:
        """What a new stream of Me.Watch tells of the search."""
        me = self.backend.stub(self.backend.addresses["accounts"][0], self.token, _ME)
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for response in me.Watch(me_pb2.WatchRequest()):
                if response.HasField("search"):
                    yield response.search

    def table(self) -> Any:
        """The table service, as this player."""
        return self.backend.stub(self.backend.addresses["table"][0], self.token, _TABLE)


def start_backend(
    start: Callable[..., ServiceProcess],
    database: Database,
    keys: KeyFiles,
    *,
    replicas: int = 1,
    services: Sequence[str] = SERVICES,
    settings: Mapping[str, str] | None = None,
    way_to_table: Link | None = None,
) -> Backend:
    """Start one replica of each service, and so many of the matchmaker, which is told these settings, and may reach the
    table service by a link."""
    addresses = {
        name: [Address("127.0.0.1", free_port()) for _ in range(replicas if name == "matchmaker" else 1)]
        for name in services
    }
    own_peers: Mapping[str, Sequence[Address]] = addresses
    if way_to_table is not None:
        addresses["table"] = [way_to_table.target]
        own_peers = addresses | {"table": [way_to_table.address]}
    metrics = [Address("127.0.0.1", free_port()) for _ in range(replicas)]

    def told(name: str, number: int) -> dict[str, Any]:
        if name != "matchmaker":
            return {"peers": addresses}
        own = {"LEVATA_METRICS_LISTEN": str(metrics[number]), **(settings or {})}
        return {"peers": own_peers, "settings": own}

    processes = {
        name: [
            start(name, name=f"{name}-{number}", address=address, **told(name, number))
            for number, address in enumerate(addresses[name])
        ]
        for name in services
    }
    return Backend(database, Signer.from_file(keys.signing_key), addresses, processes, metrics)
