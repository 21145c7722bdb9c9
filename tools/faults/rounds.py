"""A round: people play game after game while everything around them fails; then all is well again, and they finish."""

import asyncio
import random
from typing import Final
from uuid import uuid4

from levata.table.v1 import games_pb2, table_pb2

from chassis import rpc
from tools.client import Account, sign_in_guest
from tools.faults.evidence import Evidence, collect, marks
from tools.faults.history import Client, Complained, GameOpened, History, Phase, SignedIn
from tools.faults.nemesis import Nemesis
from tools.faults.players import Follower, Road, player_for
from tools.faults.schedule import Habit, Party, Plan
from tools.faults.world import TOKEN_SECONDS, World, now_us
from tools.tables import open_table

# Short, so that games end by themselves when nobody plays them.
CLOCK: Final = games_pb2.ClockOptions(bid_seconds=3, card_seconds=2)
# From the end of the faults to the end of all games: take-overs, and decisions that are left to the clock.
SETTLE_SECONDS: Final = 45.0
_GAMES: Final = games_pb2.DESCRIPTOR.services_by_name["Games"]


async def play_round(world: World, plan: Plan) -> Evidence:
    """Play a plan; answers with all that is left of it."""
    history = History()
    since = await marks(world)
    history.add(Phase(now_us(), "faults"))
    calm = asyncio.Event()
    parties = [
        _Party(world, history, party, random.Random(f"{plan.seed}/{number}"), calm)
        for number, party in enumerate(plan.parties)
    ]
    playing = [asyncio.create_task(party.play()) for party in parties]
    await Nemesis(world, history, random.Random(plan.seed)).carry_out(plan.faults)
    calm.set()
    history.add(Phase(now_us(), "calm"))
    _, late = await asyncio.wait(playing, timeout=SETTLE_SECONDS)
    for task in late:
        task.cancel()
    for problem in await asyncio.gather(*playing, return_exceptions=True):
        if isinstance(problem, BaseException):
            history.add(Complained(now_us(), "a party", repr(problem)))
    history.add(Phase(now_us(), "games over"))
    for party in parties:
        await party.sign_in_again()
    return await collect(world, history, since)


class _Party:
    """Some people, and perhaps somebody who looks on."""

    def __init__(
        self, world: World, history: History, party: Party, chance: random.Random, calm: asyncio.Event
    ) -> None:
        self._world = world
        self._history = history
        self._party = party
        self._chance = chance
        # No more faults: this game is the last.
        self._calm = calm
        self._accounts: list[Account] = []

    async def play(self) -> None:
        """One game after another until all is calm, one at least."""
        self._accounts = [await self._sign_in(str(uuid4())) for _ in range(len(self._party.people) + 1)]
        while True:
            game_id = await self._open_game()
            await asyncio.gather(*(client.follow() for client in self._clients(game_id)))
            if self._calm.is_set():
                return

    async def sign_in_again(self) -> None:
        """Repeat the requests that made the accounts."""
        for account in self._accounts:
            await self._sign_in(account.request_id)

    async def _sign_in(self, request_id: str) -> Account:
        account = await sign_in_guest(self._any_replica("accounts"), request_id)
        self._history.add(SignedIn(now_us(), request_id, account.account_id))
        return account

    async def _open_game(self) -> str:
        token = self._world.signer.service_token("tools", TOKEN_SECONDS)
        people = dict(enumerate(self._accounts[:-1]))
        mode = table_pb2.MODE_SOLO if self._party.solo else table_pb2.MODE_FRIENDLY
        async with rpc.channel(self._any_replica("table"), token, own_connection=True) as channel:
            games = rpc.stub(channel, _GAMES)
            opened = await open_table(games, self._party.match, people, mode=mode, clock=CLOCK)
        self._history.add(GameOpened(now_us(), opened.game_id, 1))
        return opened.game_id

    def _any_replica(self, service: str) -> str:
        """All replicas of a service, in any order: a call goes to the first that can be reached."""
        replicas = self._world.replicas(service)
        self._chance.shuffle(replicas)
        return "ipv4:" + ",".join(map(str, replicas))

    def _clients(self, game_id: str) -> list[Follower]:
        clients: list[Follower] = []
        for seat, (account, habit) in enumerate(zip(self._accounts, self._party.people, strict=False)):
            clients.append(self._player(game_id, account, habit, f"{game_id} seat {seat}"))
            if habit.second_device:
                clients.append(self._follower(game_id, account, f"{game_id} seat {seat}, second device"))
        if self._party.has_spectator:
            clients.append(self._follower(game_id, self._accounts[-1], f"{game_id} spectator"))
        return clients

    def _player(self, game_id: str, account: Account, habit: Habit, name: str) -> Follower:
        client, road = self._connection(game_id, account, name)
        return player_for(habit)(client, road, self._history, habit, self._chance, self._calm)

    def _follower(self, game_id: str, account: Account, name: str) -> Follower:
        client, road = self._connection(game_id, account, name)
        return Follower(client, road, self._history)

    def _connection(self, game_id: str, account: Account, name: str) -> tuple[Client, Road]:
        replicas = self._world.replicas("table")
        road = Road(replicas, account.token, self._chance.randrange(len(replicas)))
        return Client(name, account.account_id, game_id), road
