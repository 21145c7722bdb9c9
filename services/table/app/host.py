"""A replica as the host of its games: heartbeat, claims, clocks.

A game belongs to the replica that its row in `game_hosts` names; a replica that is not seen for three seconds loses
its games to whoever claims them. Belonging is only about who does the work: that two hosts never both write one version
is the log's promise, not this module's.
"""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID, uuid4

import structlog

from chassis.clock import Clock
from chassis.errors import Refused
from services.table import domain
from services.table.app.ports import GameLog, Loaded, Messages, Store
from services.table.app.running import RunningGame
from services.table.app.thinking import Thinkers
from services.table.domain import HOST_SILENT_SECONDS

log = structlog.get_logger(__name__)

T = TypeVar("T")

BEAT_SECONDS: Final = 1.0
# A heartbeat that takes longer has failed.
BEAT_TIMEOUT_SECONDS: Final = 2.0
TICK_SECONDS: Final = 0.25
# A loop that was late by so much cannot tell whether a player's move arrived in time.
LATE_SECONDS: Final = 0.5
LOADS_AT_ONCE: Final = 8
# Partitions are made two months ahead, so that a day without the database does no harm.
HOUSEKEEPING_SECONDS: Final = 6 * 3600


class Host:
    """The running games of this replica. Implements `running.Surroundings`."""

    def __init__(self, store: Store, game_log: GameLog, messages: Messages, clock: Clock) -> None:
        self.host_id = str(uuid4())
        self.store = store
        self.log = game_log
        self.messages = messages
        self.clock = clock
        self.thinkers = Thinkers()
        self.games: dict[UUID, RunningGame] = {}
        self._address = ""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE)
        self._stopping = False
        # Clock time of the last heartbeat that succeeded, and since when heartbeats have succeeded without a break.
        self.beat_at_us = 0
        self._beating_since_us = 0
        # Whether the database may know of games of ours that we do not.
        self._unsure_of_own = False
        # The last time at which our clocks could not be trusted: the loop was late, or Postgres was away.
        self._troubled_at_us = 0

    @property
    def id(self) -> UUID:
        """This process's name as a host; a restarted process is another host."""
        return UUID(self.host_id)

    async def start(self, address: str) -> None:
        """Be seen, and take on the games that nobody hosts."""
        self._address = address
        await self._beat()
        for name, work in (
            ("heartbeat", self._heartbeat()),
            ("claims", self._claim()),
            ("clocks", self._tick()),
            ("housekeeping", self._keep_house()),
        ):
            self.spawn(name, work)

    async def stop(self) -> None:
        """Leave the games to others; what is in flight is committed first."""
        self._stopping = True
        for game in list(self.games.values()):
            game.release()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.thinkers.stop()
        try:
            await self.store.release(self.id)
        except Refused as refused:
            # Others take the games when they have not seen us for a while.
            log.warning("cannot release the games", error=refused.message)

    # What running games need

    async def load(self, game_id: UUID) -> Loaded | None:
        """A game folded from the log; None when there is none, or when it was cancelled before it began."""
        table = None
        logged = await self.log.read(game_id)
        for commit, _ in logged:
            if table is None and not isinstance(commit.events[0], domain.Created):
                return None
            table = domain.apply(table, commit)
        return None if table is None else Loaded(table, logged[-1].chain)

    async def still_owns(self, game_id: UUID, epoch: int) -> bool:
        """Whether this replica hosts the game at this epoch."""
        return await self.store.owner(game_id) == (self.id, epoch)

    def drop(self, game: RunningGame) -> None:
        """The game needs no host, or has another."""
        if self.games.get(game.game_id) is game:
            del self.games[game.game_id]
        if game.table.over:
            self.spawn("mark a game as over", self.store.mark_over(game.game_id))

    def spawn(self, name: str, work: Coroutine[None, None, None]) -> None:
        """Run `work` beside everything else; a failure is logged, and cancels nothing."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, name))

    async def to_its_end(self, name: str, work: Coroutine[None, None, T]) -> T:
        """The result of `work`, which goes on to its end when its caller is cancelled."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("background work failed", work=name, exc_info=task.exception())

    # Games coming in

    def add_new(self, game_id: UUID, loaded: Loaded, epoch: int) -> RunningGame:
        """Host a game whose first commit is ours; bots that are first to decide begin."""
        known = self.games.get(game_id)
        if known is not None:
            # Found in the log and taken by then.
            return known
        game = self.games[game_id] = RunningGame(self, game_id, loaded, epoch)
        game.go_on()
        return game

    def look_for_own_games(self) -> None:
        """Something that was not answered may have made a game ours in the database: take what is not here."""
        self._unsure_of_own = True

    async def take(self, game_id: UUID, epoch: int) -> RunningGame | None:
        """Host a game that this replica owns at `epoch` and begin with a logged act; None when it is over."""
        known = self.games.get(game_id)
        if known is not None and known.epoch == epoch:
            return known
        async with self._loads:
            loaded = await self.load(game_id)
        if loaded is None or loaded.table.over:
            # Created but never committed (its caller repeats or cancels), cancelled, or finished.
            if loaded is not None:
                await self.store.mark_over(game_id)
            return None
        known = self.games.get(game_id)
        if self._stopping or (known is not None and known.epoch >= epoch):
            return known
        if known is not None:
            # Another host had it for a while. Its watchers come again.
            known.let_go()
        game = self.games[game_id] = RunningGame(self, game_id, loaded, epoch)
        game.take_over()
        return game

    # The loops

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                async with asyncio.timeout(BEAT_TIMEOUT_SECONDS):
                    await self._beat()
            except Exception as error:
                self._troubled_at_us = self.clock.now_us()
                log.warning("heartbeat failed", error=repr(error))

    async def _beat(self) -> None:
        await self.store.heartbeat(self.id, self._address)
        now = self.clock.now_us()
        if now - self.beat_at_us > HOST_SILENT_SECONDS * 1_000_000:
            # Others may have taken games meanwhile, and players could not be heard.
            self._troubled_at_us = self._beating_since_us = now
        self.beat_at_us = now

    async def _claim(self) -> None:
        """Claim what nobody hosts; others are judged only after our own heartbeats held for a whole window."""
        while True:
            claimed: list[tuple[UUID, int]] = []
            try:
                if self._unsure_of_own:
                    own = await self.store.own_games(self.id)
                    self._unsure_of_own = False
                    for game_id, epoch in own:
                        if game_id not in self.games:
                            self.spawn("take a game over", self._taken(game_id, epoch))
                if self._beats_held():
                    claimed = await self.store.claim_abandoned(self.id)
                    for game_id, epoch in claimed:
                        log.info("claimed a game", game=str(game_id), epoch=epoch)
                        self.spawn("take a game over", self._taken(game_id, epoch))
            except Exception as error:
                # The claim may have been committed all the same, and we did not hear of it.
                self.look_for_own_games()
                log.warning("cannot look for abandoned games", error=repr(error))
            # A batch is seldom all that a host has left.
            if not claimed:
                await asyncio.sleep(BEAT_SECONDS)

    def _beats_held(self) -> bool:
        now = self.clock.now_us()
        window = HOST_SILENT_SECONDS * 1_000_000
        return now - self.beat_at_us < window and now - self._beating_since_us >= window

    async def _taken(self, game_id: UUID, epoch: int) -> None:
        """Take over a game that was claimed; as often as it takes, because nobody else will while we are alive."""
        while True:
            try:
                if await self.still_owns(game_id, epoch):
                    await self.take(game_id, epoch)
                return
            except Refused as refused:
                log.warning("cannot take a game over yet", game=str(game_id), error=refused.message)
                await asyncio.sleep(BEAT_SECONDS)

    async def _keep_house(self) -> None:
        while True:
            try:
                await self.store.make_log_partitions()
                await self.store.forget_dead_hosts()
            except Exception as error:
                log.warning("cannot keep house", error=repr(error))
            await asyncio.sleep(HOUSEKEEPING_SECONDS)

    async def _tick(self) -> None:
        """Clocks that ran out, and heartbeats to silent streams."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += TICK_SECONDS
            await asyncio.sleep(due - loop.time())
            late = loop.time() - due
            now_us = self.clock.now_us()
            if late > LATE_SECONDS:
                self._troubled_at_us = now_us
                due = loop.time()
            for game in list(self.games.values()):
                try:
                    self._look_at_clock(game)
                    if game.subscriptions:
                        game.fill_silences(loop.time())
                except Exception:
                    # The other games' clocks go on.
                    log.exception("a game's clock failed", game=str(game.game_id))
                    game.let_go()

    def _look_at_clock(self, game: RunningGame) -> None:
        table = game.table
        deadline_us = table.deadline_us
        # Not before a heartbeat has succeeded since the deadline: until then we may not be the host any more.
        if deadline_us and deadline_us <= self.beat_at_us:
            game.expire(trustworthy=self._troubled_at_us < table.opened_at_us)
        elif not deadline_us and 0 < table.abandoned_at_us <= self.beat_at_us:
            game.leave_to_bot()
