"""People who look for a table of quick play, again and again, each with a stream of what is told of them.

They answer a commitment as soon as it is shown. A game that has begun is cancelled at once, and its people rest before
they look for another one.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
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
from chassis.tasks import Background

GAME: Final = "romanian_whist"
CALL_SECONDS: Final = 20.0
COMING_AT_ONCE, COMING_SECONDS = 32, 120.0
HERE_SECONDS: Final = 3.0
# A game goes on for so long, until all its players have heard of it.
PLAY_SECONDS: Final = 0.5
# Longer than it takes until everybody knows that the game is no more.
REST_SECONDS: Final = 2.0

_CREATE_GUEST: Final = "/levata.accounts.v1.Accounts/CreateGuest"
_WATCH: Final = "/levata.me.v1.Me/Watch"
_MATCHMAKER: Final = "/levata.matchmaker.v1.Matchmaker/"
_ENQUEUE: Final = matchmaker_pb2.EnqueueRequest(room=1, game_type=GAME).SerializeToString()
_HERE: Final = matchmaker_pb2.HereRequest().SerializeToString()
_SEATED: Final = matchmaker_pb2.TICKET_STATE_SEATED
_PLAYING: Final = matchmaker_pb2.TICKET_STATE_PLAYING


@dataclass
class Seen:
    """What people saw in a time of looking for tables."""

    # By game: when each of its players was told of the start, in seconds since 1970.
    started_at: dict[str, list[float]] = field(default_factory=dict)
    # Calls that were refused or failed, by their messages.
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def tickets(self) -> int:
        """How many came to play."""
        return sum(map(len, self.started_at.values()))


class _Matchmaker:
    """The matchmaker's calls over one connection."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.enqueue: Any = channel.unary_unary(_MATCHMAKER + "Enqueue")
        self.add_nonce: Any = channel.unary_unary(_MATCHMAKER + "AddNonce")
        self.here: Any = channel.unary_unary(_MATCHMAKER + "Here")


class _Seeker:
    """One of them."""

    def __init__(self, crowd: "Crowd", accounts: grpc.aio.Channel, matchmaker: _Matchmaker, token: str) -> None:
        self.looks = False
        self._crowd = crowd
        self._matchmaker = matchmaker
        self._shown: Metadata = (("authorization", f"Bearer {token}"),)
        watch: Any = accounts.unary_stream(_WATCH)
        self._stream = watch(me_pb2.WatchRequest().SerializeToString(), metadata=self._shown)
        self._answered = ""

    async def come(self) -> None:
        """Be as those are who have been around for a while: the stream shows all, the matchmaker knows the token."""
        while me_pb2.WatchResponse.FromString(await self._stream.read()).WhichOneof("kind") != "status":
            pass
        await self._call(self._matchmaker.here, _HERE)

    async def hear(self) -> None:
        """Act on what comes, until the stream ends."""
        while (raw := await self._stream.read()) is not grpc.aio.EOF:
            message = me_pb2.WatchResponse.FromString(raw)
            if self.looks and message.WhichOneof("kind") == "search":
                self._hear(message.search.ticket)

    async def look(self) -> None:
        """Ask for a table."""
        self.looks = True
        if not await self._call(self._matchmaker.enqueue, _ENQUEUE):
            self._rest()

    async def stay(self) -> None:
        """Say that one is still there."""
        await self._call(self._matchmaker.here, _HERE)

    def _hear(self, ticket: matchmaker_pb2.Ticket) -> None:
        if ticket.state == _SEATED and ticket.table.game_id not in ("", self._answered):
            self._answered = ticket.table.game_id
            request = matchmaker_pb2.AddNonceRequest(game_id=self._answered).SerializeToString()
            self._crowd.do(self._call(self._matchmaker.add_nonce, request))
        elif ticket.state == _PLAYING:
            self._crowd.plays(ticket.game_id)
            self._rest()

    def _rest(self) -> None:
        self.looks = False
        asyncio.get_running_loop().call_later(REST_SECONDS, self._crowd.rested, self)

    async def _call(self, method: Any, request: bytes) -> bool:
        try:
            await method(request, metadata=self._shown, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            self._crowd.seen.failures[str(error.details())] += 1
            return False
        return True


class Crowd:
    """All of them."""

    def __init__(
        self, accounts: Sequence[grpc.aio.Channel], matchmaker: Sequence[grpc.aio.Channel], cancels: Cancelling
    ) -> None:
        self.seen = Seen()
        self._accounts = accounts
        self._matchmaker = [_Matchmaker(channel) for channel in matchmaker]
        self._cancels = cancels
        self._all: list[_Seeker] = []
        self._ready: deque[_Seeker] = deque()
        self._background = Background()

    async def gather(self, count: int) -> None:
        """Have so many come."""
        numbers = iter(range(count))
        await asyncio.gather(*(self._come(numbers) for _ in range(COMING_AT_ONCE)))
        self._ready.extend(self._all)
        self.do(self._stay())

    async def look(self, rate: float, seconds: float, *, to_the_end: bool = False) -> Seen:
        """So many wishes a second, whatever becomes of them; what was seen in this time, or until all have played."""
        self.seen = seen = Seen()
        began = time.perf_counter()
        for number in range(round(rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            if self._ready:
                self.do(self._ready.popleft().look())
            else:
                seen.failures["nobody is left who could look"] += 1
        if to_the_end:
            await self.rest()
        self.seen = Seen()
        return seen

    async def rest(self) -> None:
        """Wait until nobody looks any more."""
        while any(seeker.looks for seeker in self._all):
            await asyncio.sleep(REST_SECONDS)

    async def stop(self) -> None:
        """End all calls."""
        await self._background.stop()

    # For the seekers

    def plays(self, game_id: str) -> None:
        """One of them was told of a start."""
        told = self.seen.started_at.setdefault(game_id, [])
        told.append(time.time())
        if len(told) == 1:
            asyncio.get_running_loop().call_later(PLAY_SECONDS, self._cancels.cancel, UUID(game_id))

    def rested(self, seeker: _Seeker) -> None:
        """One of them may look again."""
        self._ready.append(seeker)

    def do(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do this beside the rest."""
        self._background.spawn("a seeker", work)

    async def _come(self, numbers: Iterator[int]) -> None:
        create: Any = self._accounts[0].unary_unary(
            _CREATE_GUEST,
            request_serializer=accounts_pb2.CreateGuestRequest.SerializeToString,
            response_deserializer=accounts_pb2.CreateGuestResponse.FromString,
        )
        for number in numbers:
            request = accounts_pb2.CreateGuestRequest(request_id=str(uuid4()))
            guest = await create(request, timeout=COMING_SECONDS)
            accounts = self._accounts[number % len(self._accounts)]
            matchmaker = self._matchmaker[number % len(self._matchmaker)]
            seeker = _Seeker(self, accounts, matchmaker, guest.access_token)
            await seeker.come()
            self.do(seeker.hear())
            self._all.append(seeker)

    async def _stay(self) -> None:
        while True:
            for seeker in self._all:
                if seeker.looks:
                    self.do(seeker.stay())
            await asyncio.sleep(HERE_SECONDS)


@asynccontextmanager
async def gathered(services: Mapping[str, Service], dsn: str, count: int) -> AsyncIterator[Crowd]:
    """So many people; `dsn` is the table service's own, through which their games are cancelled."""
    async with (
        connections(services["accounts"].address) as accounts,
        connections(services["matchmaker"].address) as matchmaker,
        cancelling(dsn) as cancels,
    ):
        crowd = Crowd(accounts, matchmaker, cancels)
        await crowd.gather(count)
        try:
            yield crowd
        finally:
            await crowd.stop()
