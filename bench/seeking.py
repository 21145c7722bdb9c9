"""People who look for a table of quick play, again and again, each with a stream of what is told of them.

They answer a commitment as soon as it is shown. A game that has begun is ended soon, and once its people are told that
it is over they may look for another one.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid4

import grpc
from levata.accounts.v1 import accounts_pb2
from levata.matchmaker.v1 import matchmaker_pb2
from levata.me.v1 import me_pb2

from bench.cancelling import cancelling
from bench.load import Metadata, connections
from bench.servers import Service
from chassis.tasks import Background

GAME: Final = "romanian_whist"
CALL_SECONDS: Final = 20.0
COMING_AT_ONCE, COMING_SECONDS = 32, 120.0
HERE_SECONDS: Final = 3.0
# A game goes on for so long, until all its players have heard of it.
PLAY_SECONDS: Final = 0.5
# Who was refused tries again after so long.
AGAIN_SECONDS: Final = 1.0
REST_LOOK_SECONDS, REST_SECONDS_MAX = 0.2, 90.0

_CREATE_GUEST: Final = "/levata.accounts.v1.Accounts/CreateGuest"
_WATCH: Final = "/levata.me.v1.Me/Watch"
_MATCHMAKER: Final = "/levata.matchmaker.v1.Matchmaker/"
_ENQUEUE: Final = matchmaker_pb2.EnqueueRequest(room=1, game_type=GAME).SerializeToString()
_HERE: Final = matchmaker_pb2.HereRequest().SerializeToString()
_SEATED: Final = matchmaker_pb2.TICKET_STATE_SEATED
_PLAYING: Final = matchmaker_pb2.TICKET_STATE_PLAYING
_ENDED: Final = matchmaker_pb2.TICKET_STATE_ENDED


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
        self._plays = False
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
            if message.WhichOneof("kind") == "search":
                self._hear(message.search.ticket)

    async def look(self) -> None:
        """Ask for a table."""
        self.looks, self._answered = True, ""
        if not await self._call(self._matchmaker.enqueue, _ENQUEUE):
            self._give_up()

    async def stay(self) -> None:
        """Say that one is still there."""
        await self._call(self._matchmaker.here, _HERE)

    def _hear(self, ticket: matchmaker_pb2.Ticket) -> None:
        """What is told of the own ticket; that there is none has no state."""
        if self.looks and ticket.state == _SEATED and ticket.table.game_id not in ("", self._answered):
            self._answered = ticket.table.game_id
            request = matchmaker_pb2.AddNonceRequest(game_id=self._answered).SerializeToString()
            self._crowd.do(self._call(self._matchmaker.add_nonce, request))
        elif self.looks and ticket.state == _PLAYING:
            self.looks, self._plays = False, True
            self._crowd.plays(ticket.game_id)
        elif self.looks and ticket.state == _ENDED:
            self._crowd.seen.failures[f"ended: {ticket.ended}"] += 1
            self._give_up()
        elif self.looks and self._answered and not ticket.state:
            # A stream tells what is, not all that was.
            self._crowd.seen.failures["a game was over before its start was heard of"] += 1
            self._give_up()
        elif self._plays and ticket.state != _PLAYING:
            self._plays = False
            self._crowd.rested(self)

    def _give_up(self) -> None:
        self.looks = False
        self._crowd.gave_up(self)

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
        self,
        accounts: Sequence[grpc.aio.Channel],
        matchmaker: Sequence[grpc.aio.Channel],
        end_game: Callable[[UUID], None],
    ) -> None:
        self.seen = Seen()
        self._accounts = accounts
        self._matchmaker = [_Matchmaker(channel) for channel in matchmaker]
        self._end_game = end_game
        self._all: list[_Seeker] = []
        self._ready: deque[_Seeker] = deque()
        # How many look, and how many are to look all the time.
        self._looking = self._looking_max = 0
        self._background = Background()

    async def gather(self, tokens: Sequence[str]) -> None:
        """Have the bearers of these tokens come."""
        await in_turns(range(len(tokens)), lambda number: self._come(number, tokens[number]))
        self._ready.extend(self._all)
        self.do(self._stay())

    async def look(self, rate: float, seconds: float) -> Seen:
        """So many wishes a second, whatever becomes of them; what was seen until all of them have played."""
        self.seen = Seen()
        began = time.perf_counter()
        for number in range(round(rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            if self._ready:
                self._next()
            else:
                self.seen.failures["nobody is left who could look"] += 1
        await self.rest()
        return self.seen

    async def keep_looking(self, count: int, warm_seconds: float, seconds: float) -> Seen:
        """So many look at the same time: when one comes to play, another one looks. What was seen in the seconds after
        the warm ones."""
        self._looking_max = count
        self._fill()
        await asyncio.sleep(warm_seconds)
        self.seen = seen = Seen()
        await asyncio.sleep(seconds)
        self.seen = Seen()
        self._looking_max = 0
        return seen

    async def rest(self) -> None:
        """Wait until nobody looks or plays any more."""
        async with asyncio.timeout(REST_SECONDS_MAX):
            while len(self._ready) < len(self._all):
                await asyncio.sleep(REST_LOOK_SECONDS)

    async def stop(self) -> None:
        """End all calls."""
        await self._background.stop()

    # For the seekers

    def plays(self, game_id: str) -> None:
        """One of them was told of a start."""
        self._looking -= 1
        self._fill()
        told = self.seen.started_at.setdefault(game_id, [])
        told.append(time.time())
        if len(told) == 1:
            asyncio.get_running_loop().call_later(PLAY_SECONDS, self._end_game, UUID(game_id))

    def gave_up(self, seeker: _Seeker) -> None:
        """One of them was refused."""
        self._looking -= 1
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, self.rested, seeker)

    def rested(self, seeker: _Seeker) -> None:
        """One of them may look again."""
        self._ready.append(seeker)
        self._fill()

    def do(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do this beside the rest."""
        self._background.spawn("a seeker", work)

    def _fill(self) -> None:
        while self._looking < self._looking_max and self._ready:
            self._next()

    def _next(self) -> None:
        self._looking += 1
        self.do(self._ready.popleft().look())

    async def _come(self, number: int, token: str) -> None:
        accounts = self._accounts[number % len(self._accounts)]
        matchmaker = self._matchmaker[number % len(self._matchmaker)]
        seeker = _Seeker(self, accounts, matchmaker, token)
        await seeker.come()
        self.do(seeker.hear())
        self._all.append(seeker)

    async def _stay(self) -> None:
        while True:
            for seeker in self._all:
                if seeker.looks:
                    self.do(seeker.stay())
            await asyncio.sleep(HERE_SECONDS)


async def in_turns(numbers: Sequence[int], work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Do this for each, some at once."""
    left = iter(numbers)

    async def go_on() -> None:
        for number in left:
            await work(number)

    await asyncio.gather(*(go_on() for _ in range(COMING_AT_ONCE)))


@asynccontextmanager
async def gathered(services: Mapping[str, Service], dsn: str, count: int) -> AsyncIterator[Crowd]:
    """So many people; `dsn` is the table service's own, through which their games are cancelled."""
    accounts, matchmaker = services["accounts"].address, services["matchmaker"].address
    async with cancelling(dsn) as cancels, crowd(accounts, matchmaker, cancels.cancel) as people:
        await people.gather(await _guests(accounts, count))
        yield people


@asynccontextmanager
async def crowd(accounts: str, matchmaker: str, end_game: Callable[[UUID], None]) -> AsyncIterator[Crowd]:
    """Nobody yet; those who gather call these addresses."""
    async with connections(accounts) as to_accounts, connections(matchmaker) as to_matchmaker:
        people = Crowd(to_accounts, to_matchmaker, end_game)
        try:
            yield people
        finally:
            await people.stop()


async def _guests(accounts: str, count: int) -> Sequence[str]:
    """Access tokens of so many new guests."""
    tokens = []
    async with grpc.aio.insecure_channel(accounts) as channel:
        create: Any = channel.unary_unary(
            _CREATE_GUEST,
            request_serializer=accounts_pb2.CreateGuestRequest.SerializeToString,
            response_deserializer=accounts_pb2.CreateGuestResponse.FromString,
        )

        async def come(_: int) -> None:
            request = accounts_pb2.CreateGuestRequest(request_id=str(uuid4()))
            tokens.append((await create(request, timeout=COMING_SECONDS)).access_token)

        await in_turns(range(count), come)
    return tokens
