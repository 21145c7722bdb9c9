"""People who look for tables of quick play at the matchmaker, and play what comes of it.

They hear of their tickets over Me.Watch, ask now one replica and now another, and repeat what was not answered; some
think better of it at the worst moment, and some leave the game as soon as it begins and look for another one.
"""

import asyncio
import itertools
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

import asyncpg
import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from levata.matchmaker.v1 import matchmaker_pb2
from levata.me.v1 import me_pb2
from levata.table.v1 import table_pb2

from chassis import rpc
from chassis.errors import reason_of
from chassis.settings import Address
from chassis.tasks import end
from tools.client import Account
from tools.faults.evidence import GIVEN_XP
from tools.faults.history import (
    Broke,
    Complained,
    Enqueued,
    GameLeft,
    History,
    SaidHere,
    TicketCancelled,
    TicketTold,
)
from tools.faults.parties import BREATH_SECONDS, Party, give_purses
from tools.faults.schedule import Search, Seeker, Wish
from tools.faults.world import TOKEN_SECONDS, World, now_us
from tools.migrate import SCHEMAS
from tools.patience import patiently, why_again, within

CALL_SECONDS: Final = 3.0
HERE_SECONDS: Final = 3.0
PAUSE_SECONDS: Final = 0.2
# News may be lost on the way; who wants to be sure asks anew, and is told all that is.
WATCH_SECONDS: Final = 6.0
_MATCHMAKER: Final = matchmaker_pb2.DESCRIPTOR.services_by_name["Matchmaker"]
_ME: Final = me_pb2.DESCRIPTOR.services_by_name["Me"]
_TABLE: Final = table_pb2.DESCRIPTOR.services_by_name["Table"]
# Answers to who gives a ticket up: it is too late, and there will be a game.
_TOO_LATE: Final = frozenset({"DEALING", "ALREADY_PLAYING"})


class SeekersParty(Party):
    """Some people who look for tables, each on their own."""

    def __init__(
        self, world: World, history: History, chance: random.Random, calm: asyncio.Event, search: Search
    ) -> None:
        super().__init__(world, history, chance, calm)
        self._search = search

    async def prepare(self) -> None:
        """Accounts that are signed in, of some level, and with money."""
        self._accounts = [
            account._replace(token=self._world.signer.player_token(account.account_id, False, TOKEN_SECONDS))
            for account in [await self._sign_in(str(uuid4())) for _ in self._search.people]
        ]
        await give_purses(self._world, self._accounts)
        league = await asyncpg.connect(self._world.postgres.dsn(SCHEMAS["league"].role))
        try:
            await league.execute(
                "insert into progress (build, account_id, xp) select build, unnest($1::uuid[]), $2 from live_build",
                [account.account_id for account in self._accounts],
                GIVEN_XP,
            )
        finally:
            await league.close()

    async def play(self) -> None:
        """One search after another until all is calm."""
        await asyncio.gather(*itertools.starmap(self._seek, zip(self._accounts, self._search.people, strict=True)))

    async def _seek(self, account: Account, seeker: Seeker) -> None:
        """All searches of one person; the last one ends in a game that is played."""
        wishes = list(seeker.wishes)
        caller = _Caller(self._world, account, self._chance)
        news = _News(account, self._world.replicas("accounts")[0], self._history)
        listening = asyncio.create_task(news.listen())
        try:
            for number in itertools.count():
                wish = wishes.pop(0) if wishes and not self._calm.is_set() else Wish.PLAY
                searching = _Searching(caller, news, self._history, self._search, seeker, number)
                game_id = await searching.until_it_ends(wish)
                if game_id is None or wish is Wish.LEAVE:
                    await asyncio.sleep(BREATH_SECONDS)
                    continue
                clients = self._player(game_id, account, seeker.habit, f"{game_id} {account.account_id}")
                await asyncio.gather(*(client.follow() for client in clients))
                if self._calm.is_set():
                    return
        finally:
            await end(listening)


class _Caller:
    """Somebody's calls: each over a connection of its own, to any replica, and again to another one."""

    def __init__(self, world: World, account: Account, chance: random.Random) -> None:
        self.account = account.account_id
        self._token = account.token
        self._matchmakers = _from_anywhere(world.replicas("matchmaker"), chance)
        self._tables = _from_anywhere(world.replicas("table"), chance)

    async def ask(self, method: str, request: Message) -> Any:
        """A call of the matchmaker's."""
        return await patiently(lambda: self._call(next(self._matchmakers), _MATCHMAKER, method, request))

    async def leave(self, game_id: str) -> None:
        """Give the seat of a game up."""
        request = table_pb2.LeaveRequest(game_id=game_id, request_id=str(uuid4()))
        await patiently(lambda: self._call(next(self._tables), _TABLE, "Leave", request))

    async def _call(self, at: Address, service: ServiceDescriptor, method: str, request: Message) -> Any:
        async with rpc.channel(str(at), self._token, own_connection=True) as channel:
            return await getattr(rpc.stub(channel, service), method)(request, timeout=CALL_SECONDS)


def _from_anywhere(replicas: list[Address], chance: random.Random) -> Iterator[Address]:
    first = chance.randrange(len(replicas))
    return itertools.cycle(replicas[first:] + replicas[:first])


class _News:
    """What somebody is told of the own ticket, over as many connections as it takes."""

    def __init__(self, account: Account, accounts: Address, history: History) -> None:
        self.ticket: matchmaker_pb2.Ticket | None = None
        self._account = account
        self._accounts = accounts
        self._history = history
        self._changed = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Until something is told, or for so long."""
        self._changed.clear()
        with suppress(TimeoutError):
            await within(seconds, self._changed.wait())

    async def listen(self) -> None:
        """For as long as this runs."""
        while True:
            try:
                async with (
                    asyncio.timeout(WATCH_SECONDS),
                    rpc.channel(str(self._accounts), self._account.token, own_connection=True) as channel,
                ):
                    stream = rpc.stub(channel, _ME).Watch(me_pb2.WatchRequest())
                    while (message := await stream.read()) is not grpc.aio.EOF:
                        if message.HasField("search"):
                            self._take(message.search)
            except grpc.aio.AioRpcError as error:
                self._history.add(Broke(now_us(), self._account.account_id, why_again(error)))
            except (TimeoutError, asyncio.InvalidStateError):
                continue
            await asyncio.sleep(PAUSE_SECONDS)

    def _take(self, search: me_pb2.Search) -> None:
        self.ticket = ticket = search.ticket if search.HasField("ticket") else None
        account = self._account.account_id
        if ticket is None:
            self._history.add(TicketTold(now_us(), account, "", ""))
        else:
            state = matchmaker_pb2.TicketState.Name(ticket.state).removeprefix("TICKET_STATE_")
            self._history.add(TicketTold(now_us(), account, ticket.ticket_id, state, ticket.game_id, ticket.ended))
        self._changed.set()


class _Searching:
    """One search of one person."""

    def __init__(
        self, caller: _Caller, news: _News, history: History, search: Search, seeker: Seeker, number: int
    ) -> None:
        self._caller = caller
        self._news = news
        self._history = history
        self._search = search
        self._seeker = seeker
        self._number = number
        # The games whose commitments were answered.
        self._answered: set[str] = set()

    async def until_it_ends(self, wish: Wish) -> str | None:
        """The game that came of it; None if none did."""
        present = asyncio.create_task(self._say_here())
        try:
            devices = 2 if self._seeker.asks_twice else 1
            ticket_id, *_ = await asyncio.gather(*(self._enqueue() for _ in range(devices)))
            game_id = await self._await_game(ticket_id, wish)
            if game_id is not None and wish is Wish.LEAVE:
                await self._caller.leave(game_id)
                self._history.add(GameLeft(now_us(), self._caller.account, game_id))
            return game_id
        finally:
            await end(present)

    async def _say_here(self) -> None:
        while True:
            sent_us = now_us()
            try:
                await self._caller.ask("Here", matchmaker_pb2.HereRequest())
            except grpc.aio.AioRpcError as error:
                self._complain(error)
            else:
                self._history.add(SaidHere(sent_us, now_us(), self._caller.account))
            await asyncio.sleep(HERE_SECONDS)

    async def _enqueue(self) -> str:
        match, seeker = self._search.match, self._seeker
        request = matchmaker_pb2.EnqueueRequest(
            room=seeker.room, game_type=match.game_type, variant=match.variant, coffee=seeker.coffee
        )
        sent_us = now_us()
        ticket_id: str = (await self._caller.ask("Enqueue", request)).ticket.ticket_id
        self._history.add(Enqueued(sent_us, now_us(), self._caller.account, self._number, ticket_id))
        return ticket_id

    async def _await_game(self, ticket_id: str, wish: Wish) -> str | None:
        loop = asyncio.get_running_loop()
        gives_up_at = loop.time() + self._seeker.patience_seconds if wish is Wish.CANCEL else None
        was_told = False
        while True:
            ticket = self._news.ticket
            if ticket is not None and ticket.ticket_id == ticket_id:
                was_told = True
                match ticket.state:
                    case matchmaker_pb2.TICKET_STATE_PLAYING:
                        return ticket.game_id
                    case matchmaker_pb2.TICKET_STATE_ENDED:
                        return None
                    case matchmaker_pb2.TICKET_STATE_SEATED if self._is_to_be_answered(ticket):
                        if wish is Wish.CANCEL_AT_DEAL and len(ticket.table.taken) == ticket.table.seats:
                            _, has_left = await asyncio.gather(
                                self._answer(ticket.table.game_id), self._cancel(ticket_id)
                            )
                            if has_left:
                                return None
                            wish = Wish.PLAY
                        else:
                            await self._answer(ticket.table.game_id)
                        continue
            elif was_told and ticket is None:
                # The end of the game was told before its beginning.
                return None
            if gives_up_at is not None and loop.time() >= gives_up_at:
                if await self._cancel(ticket_id):
                    return None
                gives_up_at = None
            await self._news.wait(PAUSE_SECONDS)

    def _is_to_be_answered(self, ticket: matchmaker_pb2.Ticket) -> bool:
        return bool(ticket.table.game_id) and ticket.table.game_id not in self._answered

    async def _answer(self, game_id: str) -> None:
        self._answered.add(game_id)
        request = matchmaker_pb2.AddNonceRequest(game_id=game_id, nonce=uuid4().bytes)
        try:
            await self._caller.ask("AddNonce", request)
        except grpc.aio.AioRpcError as error:
            # The table was dealt meanwhile, or joined another one.
            if reason_of(error) != "NOTHING_TO_ANSWER":
                self._complain(error)

    async def _cancel(self, ticket_id: str) -> bool:
        """Give the ticket up; whether that came in time."""
        try:
            await self._caller.ask("CancelTicket", matchmaker_pb2.CancelTicketRequest(ticket_id=ticket_id))
        except grpc.aio.AioRpcError as error:
            if reason_of(error) not in _TOO_LATE:
                self._complain(error)
            return False
        self._history.add(TicketCancelled(now_us(), self._caller.account, ticket_id))
        return True

    def _complain(self, error: grpc.aio.AioRpcError) -> None:
        what = f"{error.code().name} {reason_of(error)}: {error.details()}"
        self._history.add(Complained(now_us(), self._caller.account, what))
