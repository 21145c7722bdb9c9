"""People who play one game after another with each other, as long as the faults go on."""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID, uuid4

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from levata.ledger.v1 import entries_pb2
from levata.table.v1 import games_pb2, table_pb2

from chassis import rpc
from chassis.database import open_pool
from chassis.errors import reason_of
from services.ledger.domain.journal import Cause, CauseKind, Currency, House, Transfer, posted
from services.ledger.store.journal import put_down
from tools.client import CALL_SECONDS, Account, sign_in_guest
from tools.faults.history import CancelAnswered, Client, Complained, GameOpened, Held, History, SignedIn
from tools.faults.players import Follower, Road, player_for
from tools.faults.schedule import Fate, Habit, Quick
from tools.faults.schedule import Party as Friends
from tools.faults.world import TOKEN_SECONDS, World, now_us
from tools.migrate import SCHEMAS
from tools.patience import patiently
from tools.tables import open_table

# Short, so that games end by themselves when nobody plays them.
CLOCK: Final = games_pb2.ClockOptions(bid_seconds=3, card_seconds=2)
# Enough for all games of a round in any room.
PURSE: Final = {currency: 10_000_000 if currency is Currency.COIN else 1_000 for currency in Currency}
# Between two games of which nothing is played.
BREATH_SECONDS: Final = 0.5
_GAMES: Final = games_pb2.DESCRIPTOR.services_by_name["Games"]
_ENTRIES: Final = entries_pb2.DESCRIPTOR.services_by_name["Entries"]


class Party(ABC):
    """Some people, and the ways by which they reach the servers."""

    def __init__(self, world: World, history: History, chance: random.Random, calm: asyncio.Event) -> None:
        self._world = world
        self._history = history
        self._chance = chance
        # No more faults: this game is the last.
        self._calm = calm
        self._accounts: list[Account] = []

    async def prepare(self) -> None:  # noqa: B027 - most need nothing
        """Before anything fails."""

    @abstractmethod
    async def play(self) -> None:
        """One game after another until all is calm, one at least."""

    async def sign_in_again(self) -> None:
        """Repeat the requests that made the accounts."""
        for account in self._accounts:
            await self._sign_in(account.request_id)

    async def _sign_in(self, request_id: str) -> Account:
        account = await sign_in_guest(self._any_replica("accounts"), request_id)
        self._history.add(SignedIn(now_us(), request_id, account.account_id))
        return account

    @asynccontextmanager
    async def _as_service(self, name: str, of: str, service: ServiceDescriptor) -> AsyncIterator[rpc.Stub]:
        """The internal calls of a service, in the name of another one."""
        token = self._world.signer.service_token(name, TOKEN_SECONDS)
        async with rpc.channel(self._any_replica(of), token, own_connection=True) as channel:
            yield rpc.stub(channel, service)

    def _any_replica(self, service: str) -> str:
        """All replicas of a service, in any order: a call goes to the first that can be reached."""
        replicas = self._world.replicas(service)
        self._chance.shuffle(replicas)
        return "ipv4:" + ",".join(map(str, replicas))

    def _player(self, game_id: str, account: Account, habit: Habit, name: str) -> list[Follower]:
        """Somebody in a seat with all devices."""
        client, road = self._connection(game_id, account, name)
        clients: list[Follower] = [player_for(habit)(client, road, self._history, habit, self._chance, self._calm)]
        if habit.second_device:
            clients.append(self._follower(game_id, account, f"{name}, second device"))
        return clients

    def _follower(self, game_id: str, account: Account, name: str) -> Follower:
        client, road = self._connection(game_id, account, name)
        return Follower(client, road, self._history)

    def _connection(self, game_id: str, account: Account, name: str) -> tuple[Client, Road]:
        replicas = self._world.replicas("table")
        road = Road(replicas, account.token, self._chance.randrange(len(replicas)))
        return Client(name, account.account_id, game_id), road


class FriendlyParty(Party):
    """Friends at a table of their own, or one person alone, and perhaps somebody who looks on. No money moves."""

    def __init__(
        self, world: World, history: History, chance: random.Random, calm: asyncio.Event, friends: Friends
    ) -> None:
        super().__init__(world, history, chance, calm)
        self._friends = friends

    async def play(self) -> None:
        """One game after another until all is calm, one at least."""
        self._accounts = [await self._sign_in(str(uuid4())) for _ in range(len(self._friends.people) + 1)]
        while True:
            game_id = await self._open_game()
            await asyncio.gather(*(client.follow() for client in self._clients(game_id)))
            if self._calm.is_set():
                return

    async def _open_game(self) -> str:
        people = dict(enumerate(self._accounts[:-1]))
        mode = table_pb2.MODE_SOLO if self._friends.solo else table_pb2.MODE_FRIENDLY
        async with self._as_service("tools", "table", _GAMES) as games:
            opened = await open_table(games, self._friends.match, people, mode=mode, clock=CLOCK)
        self._history.add(GameOpened(now_us(), opened.game_id, 1))
        return opened.game_id

    def _clients(self, game_id: str) -> list[Follower]:
        clients = [
            client
            for seat, habit in enumerate(self._friends.people)
            for client in self._player(game_id, self._accounts[seat], habit, f"{game_id} seat {seat}")
        ]
        if self._friends.has_spectator:
            clients.append(self._follower(game_id, self._accounts[-1], f"{game_id} spectator"))
        return clients


class QuickParty(Party):
    """People who enter quick-play games, and who opens these in the matchmaker's place. Some games never begin."""

    # Who has no address has no part in the league.
    guests = True

    def __init__(
        self, world: World, history: History, chance: random.Random, calm: asyncio.Event, quick: Quick
    ) -> None:
        super().__init__(world, history, chance, calm)
        self._quick = quick

    async def prepare(self) -> None:
        """Accounts, and what they can enter games with."""
        self._accounts = [await self._sign_in(str(uuid4())) for _ in self._quick.people]
        people = zip(self._accounts, self._quick.people, strict=True)
        await give_purses(self._world, [account for account, entry in people if not entry.broke])

    async def play(self) -> None:
        """One game after another until all is calm, one at least, and the last of them is played."""
        fates = list(self._quick.fates)
        while True:
            is_calm = self._calm.is_set()
            if is_calm:
                # Also where a long game came before them, entries are given back: these games take no time.
                fates = [fate for fate in fates if fate is Fate.CANCELLED]
            is_last = is_calm and not fates
            was_played = await self._bring_about(fates.pop(0) if fates else Fate.PLAYED)
            if is_last and was_played:
                return
            if not was_played:
                await asyncio.sleep(BREATH_SECONDS)

    async def _bring_about(self, fate: Fate) -> bool:
        """A game with this fate; whether it was played."""
        match = self._quick.match
        prepare = games_pb2.PrepareRequest(
            request_id=str(uuid4()),
            game_type=match.game_type,
            variant=match.variant,
            seats=match.seats,
            mode=table_pb2.MODE_QUICK_PLAY,
        )
        async with (
            self._as_service("tools", "table", _GAMES) as games,
            self._as_service("tools", "ledger", _ENTRIES) as entries,
        ):
            prepared = await patiently(lambda: games.Prepare(prepare, timeout=CALL_SECONDS))
            game_id: str = prepared.game_id
            entered = await self._hold(entries, game_id)
            begun = False
            match fate:
                case Fate.PLAYED:
                    begun = await self._create(games, game_id, entered)
                case Fate.CANCELLED_LATE:
                    begun = await self._create(games, game_id, entered)
                    await self._cancel(games, game_id)
                case Fate.RACED:
                    # Over other replicas, perhaps.
                    async with self._as_service("matchmaker", "table", _GAMES) as other:
                        begun, _ = await asyncio.gather(
                            self._create(games, game_id, entered), self._cancel(other, game_id)
                        )
                case Fate.CANCELLED:
                    await self._cancel(games, game_id)
                case Fate.ABANDONED:
                    # The ledger has it settled in time.
                    pass
        if begun:
            clients = [
                client
                for seat, (account, entry) in enumerate(zip(self._accounts, self._quick.people, strict=True))
                if not entered[seat].refusal
                for client in self._player(game_id, account, entry.habit, f"{game_id} seat {seat}")
            ]
            await asyncio.gather(*(client.follow() for client in clients))
        return begun

    async def _hold(self, entries: rpc.Stub, game_id: str) -> Sequence[entries_pb2.Entered]:
        request = entries_pb2.HoldRequest(game_id=game_id)
        for account, entry in zip(self._accounts, self._quick.people, strict=True):
            request.entrants.add(account_id=account.account_id, room=entry.room, coffee=entry.coffee)
        self._history.add(Held(now_us(), game_id))
        held: entries_pb2.HoldResponse = await patiently(lambda: entries.Hold(request, timeout=CALL_SECONDS))
        for entered, entry in zip(held.entrants, self._quick.people, strict=True):
            is_free = not (entered.coins or entered.gold or entered.coffee)
            if bool(entered.refusal) != (entry.broke and not is_free):
                self._history.add(Complained(now_us(), "an entrant", f"was answered {entered}"))
        return held.entrants

    async def _create(self, games: rpc.Stub, game_id: str, entered: Sequence[entries_pb2.Entered]) -> bool:
        """Begin the game with those who were let in and bots in the other seats; whether it is one."""
        create = games_pb2.CreateRequest(game_id=game_id, clock=CLOCK)
        for seat in range(self._quick.match.seats):
            setup = create.seats.add()
            if seat >= len(entered) or entered[seat].refusal:
                setup.bot.SetInParent()
                continue
            each = entered[seat]
            setup.nonce = uuid4().bytes
            setup.account.CopyFrom(
                games_pb2.AccountSeat(
                    account_id=each.account_id,
                    guest=self.guests,
                    room=self._quick.people[seat].room,
                    coins=each.coins,
                    gold=each.gold,
                    prize=each.prize,
                    coffee=each.coffee,
                )
            )
        try:
            created = await patiently(lambda: games.Create(create, timeout=CALL_SECONDS))
        except grpc.aio.AioRpcError as error:
            # By somebody who raced, or by the ledger because it took so long.
            if reason_of(error) != "GAME_CANCELLED":
                raise
            return False
        self._history.add(GameOpened(now_us(), game_id, created.version))
        return True

    async def _cancel(self, games: rpc.Stub, game_id: str) -> None:
        request = games_pb2.CancelRequest(game_id=game_id)
        answer = await patiently(lambda: games.Cancel(request, timeout=CALL_SECONDS))
        is_game = answer.outcome == games_pb2.CancelResponse.OUTCOME_CREATED
        self._history.add(CancelAnswered(now_us(), game_id, is_game))


class WinnersParty(QuickParty):
    """People with addresses, who win prizes in the week that ends and in the one that begins."""

    guests = False

    async def prepare(self) -> None:
        """Accounts, their purses, and the first prizes."""
        await super().prepare()
        await self._bring_about(Fate.PLAYED)


async def give_purses(world: World, accounts: Sequence[Account]) -> None:
    """Money enough for all games of a round, out of the blue."""
    cause = Cause(CauseKind.GRANT, "faults", "grant")
    purses = [
        posted(
            f"faults:{account.account_id}",
            cause,
            [
                Transfer(House.GRANTS.value, UUID(account.account_id), currency, amount)
                for currency, amount in PURSE.items()
            ],
        )
        for account in accounts
    ]
    dsn = world.postgres.dsn(SCHEMAS["ledger"].role)
    async with (
        await open_pool(dsn, "faults", connections_max=1) as pool,
        pool.acquire() as session,
        session.transaction(),
    ):
        await put_down(session, purses)
