"""People who look for a table of quick play, again and again, each with a stream of what is told of them.

They answer a commitment as soon as it is shown. A game that has begun is ended at once, and its people rest before they
look for another one.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid4

import grpc
from levata.accounts.v1 import accounts_pb2
from levata.matchmaker.v1 import matchmaker_pb2
from levata.me.v1 import me_pb2

from bench.cancelling import Cancelling, cancelling
from bench.load import Metadata, connections
from bench.servers import Service

GAME: Final = "romanian_whist"
CALL_SECONDS: Final = 20.0
SIGNING_IN_AT_ONCE, OPENING_AT_ONCE = 32, 200
HERE_SECONDS: Final = 3.0
REST_SECONDS: Final = 3.0

_WATCH: Final = "/levata.me.v1.Me/Watch"
_MATCHMAKER: Final = "/levata.matchmaker.v1.Matchmaker/"
_ENQUEUE: Final = matchmaker_pb2.EnqueueRequest(room=1, game_type=GAME).SerializeToString()
_HERE: Final = matchmaker_pb2.HereRequest().SerializeToString()
_SEATED: Final = matchmaker_pb2.TICKET_STATE_SEATED
_PLAYING: Final = matchmaker_pb2.TICKET_STATE_PLAYING


@dataclass
class Seen:
    """What came of a time of looking for tables."""

    # Seconds, from the call to the answer.
    enqueued: list[float] = field(default_factory=list)
    # Seconds from the wish to the start.
    waited: list[float] = field(default_factory=list)
    # Seconds from the first news of a full table to each player's start message.
    started: list[float] = field(default_factory=list)
    refused: int = 0


class _Seeker:
    """Somebody who looks for a table."""

    def __init__(self, crowd: "Crowd", number: int, account_id: str, token: str) -> None:
        self.account_id = account_id
        self._crowd = crowd
        self._shown: Metadata = (("authorization", f"Bearer {token}"),)
        self._matchmaker = crowd.matchmaker[number % len(crowd.matchmaker)]
        self._watch: Any = crowd.accounts[number % len(crowd.accounts)].unary_stream(_WATCH)
        self._answered = ""
        self._wished_at = 0.0
        self.looks = False

    async def open(self) -> None:
        """Begin to hear, and wait for the first status."""
        self._stream: Any = self._watch(me_pb2.WatchRequest().SerializeToString(), metadata=self._shown)
        while me_pb2.WatchResponse.FromString(await self._stream.read()).WhichOneof("kind") != "status":
            pass

    async def hear(self) -> None:
        """Act on what comes, until cancelled."""
        while (raw := await self._stream.read()) is not grpc.aio.EOF:
            message = me_pb2.WatchResponse.FromString(raw)
            if message.WhichOneof("kind") == "search":
                self._search(message.search)

    async def enqueue(self) -> None:
        """Ask for a table."""
        self._wished_at = time.perf_counter()
        self.looks = True
        try:
            await self._matchmaker.enqueue(_ENQUEUE, metadata=self._shown, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            self._crowd.refused(self, error)
        else:
            self._crowd.seen.enqueued.append(time.perf_counter() - self._wished_at)

    async def here(self) -> None:
        """A sign of life."""
        await self._matchmaker.here(_HERE, metadata=self._shown, timeout=CALL_SECONDS)

    async def _answer(self, game_id: str) -> None:
        request = matchmaker_pb2.AddNonceRequest(game_id=game_id).SerializeToString()
        try:
            await self._matchmaker.add_nonce(request, metadata=self._shown, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            self._crowd.late(error)

    def _search(self, search: me_pb2.Search) -> None:
        ticket = search.ticket
        if not self.looks or not search.HasField("ticket"):
            return
        table = ticket.table
        if len(table.taken) == table.seats > 0:
            self._crowd.full(table.game_id)
        if ticket.state == _SEATED and table.game_id and table.game_id != self._answered:
            self._answered = table.game_id
            self._crowd.spawn(self._answer(table.game_id))
        elif ticket.state == _PLAYING:
            self.looks = False
            self._crowd.plays(self, ticket.game_id, time.perf_counter() - self._wished_at)


class _Matchmaker:
    """The calls of one connection."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.enqueue: Any = channel.unary_unary(_MATCHMAKER + "Enqueue")
        self.add_nonce: Any = channel.unary_unary(_MATCHMAKER + "AddNonce")
        self.here: Any = channel.unary_unary(_MATCHMAKER + "Here")


class Crowd:
    """Many of them."""

    def __init__(
        self,
        accounts: Sequence[grpc.aio.Channel],
        matchmaker: Sequence[grpc.aio.Channel],
        cancels: Cancelling,
    ) -> None:
        self.accounts = accounts
        self.matchmaker = [_Matchmaker(channel) for channel in matchmaker]
        self.seen = Seen()
        self.failures: deque[str] = deque(maxlen=10)
        self._cancels = cancels
        self._seekers: list[_Seeker] = []
        self._resting: deque[_Seeker] = deque()
        # By game: when its table was full, and how many were told that it has begun.
        self._full_at: dict[str, float] = {}
        self._begun: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def gather(self, count: int) -> None:
        """Have so many come in and open their streams."""
        create = self.accounts[0].unary_unary(
            "/levata.accounts.v1.Accounts/CreateGuest",
            request_serializer=accounts_pb2.CreateGuestRequest.SerializeToString,
            response_deserializer=accounts_pb2.CreateGuestResponse.FromString,
        )
        numbers = itertools.count()
        at_once = asyncio.Semaphore(SIGNING_IN_AT_ONCE)

        async def come() -> None:
            async with at_once:
                guest = await create(accounts_pb2.CreateGuestRequest(request_id=str(uuid4())), timeout=CALL_SECONDS)
                seeker = _Seeker(self, next(numbers), guest.account.account_id, guest.access_token)
                await seeker.open()
                self._seekers.append(seeker)

        await asyncio.gather(*(come() for _ in range(count)))
        self._resting.extend(self._seekers)
        for seeker in self._seekers:
            self.spawn(seeker.hear())
        self.spawn(self._stay())

    async def look(self, rate: float, seconds: float) -> None:
        """So many wishes a second, whatever becomes of them."""
        began = time.perf_counter()
        for number in range(round(rate * seconds)):
            due = began + number / rate
            if due > time.perf_counter():
                await asyncio.sleep(due - time.perf_counter())
            if not self._resting:
                self.failures.append("nobody is left who could look")
                continue
            self.spawn(self._resting.popleft().enqueue())

    def full(self, game_id: str) -> None:
        """A table is full."""
        self._full_at.setdefault(game_id, time.perf_counter())

    def plays(self, seeker: _Seeker, game_id: str, waited: float) -> None:
        """A player was told of the start."""
        now = time.perf_counter()
        self.seen.waited.append(waited)
        full_at = self._full_at.get(game_id)
        if full_at is not None:
            self.seen.started.append(now - full_at)
        begun = self._begun[game_id] = self._begun.get(game_id, 0) + 1
        if begun == 6:
            self._full_at.pop(game_id, None)
            del self._begun[game_id]
            self._cancels.cancel(UUID(game_id))
        asyncio.get_running_loop().call_later(REST_SECONDS, self._resting.append, seeker)

    def refused(self, seeker: _Seeker, error: grpc.aio.AioRpcError) -> None:
        """A wish was not taken."""
        self.seen.refused += 1
        self.failures.append(str(error.details()))
        seeker.looks = False
        asyncio.get_running_loop().call_later(REST_SECONDS, self._resting.append, seeker)

    def late(self, error: grpc.aio.AioRpcError) -> None:
        """An answer came too late for its table."""
        self.failures.append(str(error.details()))

    def spawn(self, work: Any) -> None:
        """Do this beside the rest."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """End all streams and calls."""
        for task in self._tasks:
            task.cancel()

    async def _stay(self) -> None:
        while True:
            await asyncio.sleep(HERE_SECONDS)
            for seeker in self._seekers:
                if seeker.looks:
                    self.spawn(seeker.here())


@asynccontextmanager
async def crowd(services: Mapping[str, Service], dsn: str, count: int) -> AsyncIterator[Crowd]:
    """So many people; `dsn` is the table service's own, through which their games are cancelled."""
    async with (
        connections(services["accounts"].address) as accounts,
        connections(services["matchmaker"].address) as matchmaker,
        cancelling(dsn) as cancels,
    ):
        gathered = Crowd(accounts, matchmaker, cancels)
        await gathered.gather(count)
        try:
            yield gathered
        finally:
            gathered.stop()
