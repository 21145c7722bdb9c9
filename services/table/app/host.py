"""A replica as the host of its games: which they are, how they come and go, and their clocks.

A game belongs to the replica that its row in `game_hosts` names. Belonging is only about who does the work: that two
hosts never both write one version is the log's promise, not this module's.
"""

import asyncio
import contextlib
from itertools import islice
from typing import Final
from uuid import UUID
from weakref import WeakValueDictionary

import structlog

from chassis.clock import Clock
from chassis.errors import Refused
from chassis.figures import SECONDS, Histogram
from chassis.tasks import Background
from services.table.app import errors
from services.table.app.audience import Audiences
from services.table.app.deadlines import Deadlines
from services.table.app.folding import load
from services.table.app.following import Following
from services.table.app.heartbeat import LATE_SECONDS, Heartbeat
from services.table.app.own_games import Players
from services.table.app.ports import GameLog, Loaded, Owner, Store
from services.table.app.replicas import Replicas
from services.table.app.running import RunningGame
from services.table.app.thinking import Thinkers

log = structlog.get_logger(__name__)

TICK_SECONDS: Final = 0.25
LOADS_AT_ONCE: Final = 8
# How often we look for games that nobody hosts.
LOOK_SECONDS: Final = 0.5
# How long who asks for an abandoned game waits for it to be claimed and loaded, before its row is read again.
COME_SECONDS: Final = 1.0
WANTED_MAX: Final = 200
# How often our games are compared with the rows in any case: a claim whose answer was lost leaves no other trace.
COMPARE_SECONDS: Final = 10.0
# Partitions are made two months ahead, so that a day without the database does no harm.
HOUSEKEEPING_SECONDS: Final = 6 * 3600


class Host:
    """The running games of this replica. Implements `running.Surroundings`."""

    def __init__(
        self,
        host_id: UUID,
        store: Store,
        game_log: GameLog,
        clock: Clock,
        replicas: Replicas,
        players: Players,
        audiences: Audiences,
        following: Following,
    ) -> None:
        # This process's name as a host; a restarted process is another host.
        self.id: Final = host_id
        self.store = store
        self.log = game_log
        self.clock = clock
        self.replicas = replicas
        self.players = players
        self.heartbeat = Heartbeat(store, clock, replicas, self.id, self)
        self.deadlines = Deadlines()
        self.thinkers = Thinkers()
        self.background = Background()
        self.mailbox_seconds = Histogram(SECONDS)
        self.games: dict[UUID, RunningGame] = {}
        # Games whose first commit is under way here: their rows come before.
        self.beginning: set[UUID] = set()
        # Abandoned games that are asked for; they are claimed first, and at once.
        self._wanted: set[UUID] = set()
        self._look_now = asyncio.Event()
        # Games that somebody waits for; nothing is kept for those that nobody does.
        self._awaited: WeakValueDictionary[UUID, asyncio.Event] = WeakValueDictionary()
        # Games that met a fault of ours: they are served no more by this process, and their logs stay for the next.
        self.stopped: set[UUID] = set()
        self.stopping = False
        # Games of others that were taken over, and games that others have taken from here.
        self.claimed_count = 0
        self.beaten_count = 0
        self._audiences = audiences
        self._following = following
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE)
        # Loop time of the next comparison with the rows.
        self._compare_at = 0.0

    async def start(self, address: str) -> None:
        """Be seen, and take on the games that nobody hosts."""
        await self.heartbeat.start(address)
        for name, work in (
            ("heartbeat", self.heartbeat.run()),
            ("claims", self._claim()),
            ("clocks", self._tick()),
            ("silences", self._audiences.fill_silences()),
            ("housekeeping", self._keep_house()),
        ):
            self.background.spawn(name, work)

    async def stop(self) -> None:
        """Leave the games to others; what is in flight is committed first."""
        self.stopping = True
        for game in list(self.games.values()):
            game.release()
        await self.background.stop()
        self.thinkers.stop()
        try:
            await self.store.release(self.id)
        except Refused as refused:
            # Others take the games when they have not seen us for a while.
            log.warning("cannot release the games", error=refused.message)

    # What running games need

    async def load(self, game_id: UUID) -> Loaded | None:
        """A game as the log has it now."""
        return await load(self.log, game_id)

    async def still_owns(self, game_id: UUID, epoch: int) -> bool:
        """Whether this replica hosts the game at this epoch."""
        owner = await self.store.owner(game_id)
        return owner is not None and (owner.host_id, owner.epoch) == (self.id, epoch)

    def drop(self, game: RunningGame, *, is_faulty: bool) -> None:
        """The game needs no host, or has another; or it met a fault of ours."""
        if self.games.get(game.game_id) is game:
            del self.games[game.game_id]
        if is_faulty:
            self.stopped.add(game.game_id)
        elif game.table.over:
            self.background.spawn("mark a game as over", self.store.mark_over(game.game_id))

    # Games coming in

    def add_new(self, game_id: UUID, loaded: Loaded, epoch: int) -> RunningGame:
        """Host a game whose first commit is ours; bots that are first to decide begin."""
        known = self.games.get(game_id)
        if known is not None:
            # Found in the log and taken by then.
            return known
        audience = self._audiences.begin(loaded.table.version)
        game = self._put(RunningGame(self, game_id, loaded, epoch, audience))
        game.go_on()
        return game

    def _put(self, game: RunningGame) -> RunningGame:
        self.games[game.game_id] = game
        awaited = self._awaited.pop(game.game_id, None)
        if awaited is not None:
            awaited.set()
        return game

    async def comes(self, game_id: UUID, seconds: float) -> None:
        """Wait until the game is hosted here, and no longer than so."""
        if game_id in self.games:
            return
        awaited = self._awaited.setdefault(game_id, asyncio.Event())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await awaited.wait()

    def compare_soon(self) -> None:
        """Something that was not answered may have made a game ours in the database: take what is not here."""
        self._compare_at = 0.0

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
            # Who follows it here goes on without noticing.
            audience = await self._following.hand_over(game_id, loaded.table.version)
        known = self.games.get(game_id)
        if self.stopping or (known is not None and known.epoch >= epoch):
            if audience is not None:
                audience.close_streams("MOVED")
            return known
        if known is not None:
            # Another host had it for a while. Its watchers come again.
            known.let_go()
        audience = audience or self._audiences.begin(loaded.table.version)
        game = self._put(RunningGame(self, game_id, loaded, epoch, audience))
        game.take_over()
        return game

    async def find(self, game_id: UUID, owner: Owner) -> RunningGame | None:
        """The game, if by its row it is ours or nobody's: then it is taken, whatever becomes of the caller.

        None where it is another's, or could not be had in a second.
        """
        if game_id in self.stopped:
            raise errors.unavailable()
        if owner.host_id == self.id:
            return await self.background.to_its_end("take a game over", self.take(game_id, owner.epoch))
        if (owner.host_id is None or not owner.is_alive) and self.heartbeat.is_sure:
            self._wanted.add(game_id)
            self._look_now.set()
            await self.comes(game_id, COME_SECONDS)
        return self.games.get(game_id)

    # What the heartbeat needs

    async def compare(self) -> None:
        """Let go what has become another's, take what has become ours, and go on with the rest."""
        # Games that come while the rows are read are not in them, and need not be compared.
        here = list(self.games.values())
        own = dict(await self.store.own_games(self.id))
        for game in here:
            if own.get(game.game_id) != game.epoch and not game.dropped:
                self.beaten_count += 1
                log.warning("a game has become another's", game=str(game.game_id), epoch=game.epoch)
                game.let_go()
        for game_id, epoch in own.items():
            if game_id not in self.games and game_id not in self.beginning and game_id not in self.stopped:
                self._take_soon(game_id, epoch)

    def go_on(self) -> None:
        """Our games are surely ours again: bots whose turn came meanwhile decide."""
        for game in list(self.games.values()):
            game.go_on()

    # The loops

    async def _claim(self) -> None:
        """Take what nobody hosts, first what somebody waits for, and now and then what is ours without our knowing."""
        loop = asyncio.get_running_loop()
        while True:
            claimed: list[tuple[UUID, int]] = []
            self._look_now.clear()
            wanted = list(islice(self._wanted, WANTED_MAX))
            self._wanted.difference_update(wanted)
            try:
                if loop.time() >= self._compare_at:
                    self._compare_at = loop.time() + COMPARE_SECONDS
                    await self.compare()
                if self.heartbeat.is_sure:
                    sure_until_us = self.heartbeat.sure_until_us
                    claimed = await self.store.claim_abandoned(self.id, wanted)
                    self.claimed_count += len(claimed)
                    for game_id, epoch in claimed:
                        log.info("claimed a game", game=str(game_id), epoch=epoch)
                        self._take_soon(game_id, epoch, sure_until_us)
            except Exception as error:
                # The claim may have been committed all the same, and we did not hear of it.
                self.compare_soon()
                log.warning("cannot look for abandoned games", error=repr(error))
                await asyncio.sleep(LOOK_SECONDS)
            # A batch is seldom all that a host has left.
            if not claimed:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._look_now.wait()

    def _take_soon(self, game_id: UUID, epoch: int, sure_until_us: int = 0) -> None:
        self.background.spawn("take a game over", self._taken(game_id, epoch, sure_until_us))

    async def _taken(self, game_id: UUID, epoch: int, sure_until_us: int = 0) -> None:
        """Take over a game that was claimed; as often as it takes, because nobody else will while we are alive.

        `sure_until_us` is how long we were sure of all our games when it was claimed: until then its row is not read
        again, which hundreds of games at once would wait for.
        """
        while True:
            try:
                if self.clock.now_us() < sure_until_us or await self.still_owns(game_id, epoch):
                    await self.take(game_id, epoch)
                return
            except Refused as refused:
                log.warning("cannot take a game over yet", game=str(game_id), error=refused.message)
                await asyncio.sleep(LOOK_SECONDS)

    async def _keep_house(self) -> None:
        while True:
            try:
                await self.store.make_log_partitions()
                await self.store.forget_dead_hosts()
            except Exception as error:
                log.warning("cannot keep house", error=repr(error))
            await asyncio.sleep(HOUSEKEEPING_SECONDS)

    async def _tick(self) -> None:
        """Look at games whose times have come."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += TICK_SECONDS
            await asyncio.sleep(due - loop.time())
            if loop.time() - due > LATE_SECONDS:
                self.heartbeat.trouble()
                due = loop.time()
            # Not before a heartbeat has succeeded since the deadline: until then we may not be the host any more.
            for game_id, entry_us in list(self.deadlines.due(self.heartbeat.beat_at_us)):
                game = self.games.get(game_id)
                if game is not None and game.look_at_us == entry_us:
                    self._look_at(game)

    def _look_at(self, game: RunningGame) -> None:
        try:
            if 0 < game.due_at_us <= self.heartbeat.beat_at_us:
                game.look(self.heartbeat.beat_at_us, self.heartbeat.troubled_at_us)
                # Until what comes of it is committed, and should nothing come of it.
                self.deadlines.look_again(game, self.heartbeat.beat_at_us + 1)
            else:
                game.look_at_us = 0
                self.deadlines.note(game)
        except Exception:
            # The other games' clocks go on.
            log.exception("a game's clock failed", game=str(game.game_id))
            game.stop()
