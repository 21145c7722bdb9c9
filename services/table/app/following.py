"""Games that others host and somebody watches here: folded from what their hosts announce.

Announcements may be lost; the log never is. So a followed game takes a commit only as the next of those it has, reads
what is missing from the log, and is compared with it whenever nothing was heard for a second, or the way to the others
was lost for a while.
"""

import asyncio
from typing import Final
from uuid import UUID

import structlog

from chassis.errors import Refused
from chassis.tasks import Background, end
from services.table import domain
from services.table.app.audience import Audience, Audiences
from services.table.app.folding import load
from services.table.app.ports import GameLog
from services.table.app.replicas import LiveCommit, Replicas, Unfollow
from services.table.domain import Table

log = structlog.get_logger(__name__)

# So long nothing may be heard of a game until it is compared with the log, and so long one is kept that nobody watches.
SILENCE_SECONDS: Final = 1.0
# Commits that were heard too early to be taken, of one game.
AHEAD_MAX: Final = 256


class FollowedGame:
    """A game as its host announces it."""

    __slots__ = (
        "_ahead",
        "_following",
        "_log",
        "_reading",
        "audience",
        "ended",
        "game_id",
        "heard_at",
        "table",
        "unfollow",
    )

    def __init__(self, following: "Following", log: GameLog, game_id: UUID, table: Table, audience: Audience) -> None:
        self._following = following
        self._log = log
        self.game_id = game_id
        self.table = table
        self.audience = audience
        # Loop time at which it was known last to be at the newest version.
        self.heard_at = asyncio.get_running_loop().time()
        self.unfollow: Unfollow | None = None
        self.ended = False
        self._ahead: dict[int, LiveCommit] = {}
        self._reading = False

    def hear(self, live: LiveCommit) -> None:
        """What the host has announced."""
        if live.commit.version == self.table.version + 1 and not self._reading:
            self._take(live)
        elif live.commit.version > self.table.version:
            if len(self._ahead) < AHEAD_MAX:
                self._ahead[live.commit.version] = live
            self.read_on()

    def read_on(self) -> None:
        """Read from the log what was not heard."""
        if not self._reading and not self.ended:
            self._reading = True
            self._following.background.spawn("read a followed game", self._read_on())

    async def _read_on(self) -> None:
        try:
            await self.catch_up()
        except Refused as refused:
            # The next comparison tries again.
            log.warning("cannot read a followed game", game=str(self.game_id), error=refused.message)
        finally:
            self._reading = False

    async def catch_up(self) -> None:
        """Be at least where the log was when this was called."""
        for commit, _, key in await self._log.read(self.game_id, self.table.version):
            # What came by itself meanwhile is not taken twice.
            if commit.version == self.table.version + 1:
                self._take(LiveCommit(commit, key))
        while (live := self._ahead.pop(self.table.version + 1, None)) is not None:
            self._take(live)
        self._ahead = {version: live for version, live in self._ahead.items() if version > self.table.version}

    def _take(self, live: LiveCommit) -> None:
        if self.ended:
            return
        before = self.table
        after = self.table = domain.apply(before, live.commit)
        self.heard_at = asyncio.get_running_loop().time()
        self.audience.publish(before, live.commit, after, live.key)
        if after.over:
            self.audience.end()
            self._following.let_go(self)


class Following:
    """The followed games of this replica."""

    def __init__(self, log: GameLog, replicas: Replicas, audiences: Audiences) -> None:
        self._log = log
        self._replicas = replicas
        self._audiences = audiences
        self._games: dict[UUID, FollowedGame] = {}
        # Those that begin just now: who comes meanwhile waits for the same.
        self._beginning: dict[UUID, asyncio.Task[FollowedGame | Table | None]] = {}
        self.background = Background()
        self._reconnects = 0

    @property
    def count(self) -> int:
        """How many games are followed."""
        return len(self._games)

    def game(self, game_id: UUID) -> FollowedGame | None:
        """A game that is followed already."""
        return self._games.get(game_id)

    async def follow(self, game_id: UUID) -> FollowedGame | Table | None:
        """A running game, to be watched from now on; a finished one as it ended; None for one that the log has not.

        Who calls must subscribe before it waits for anything else: a game that nobody watches is let go.
        """
        while True:
            found: FollowedGame | Table | None = self._games.get(game_id)
            if found is None:
                found = await asyncio.shield(self._begun(game_id))
            # It may have ended since it began.
            if not isinstance(found, FollowedGame) or not found.ended:
                return found

    def _begun(self, game_id: UUID) -> asyncio.Task[FollowedGame | Table | None]:
        beginning = self._beginning.get(game_id)
        if beginning is None:
            beginning = asyncio.create_task(self._begin(game_id), name="begin to follow a game")
            self._beginning[game_id] = beginning
            beginning.add_done_callback(lambda _: self._beginning.pop(game_id, None))
        return beginning

    async def _begin(self, game_id: UUID) -> FollowedGame | Table | None:
        early: list[LiveCommit] = []
        game: FollowedGame | None = None

        def hear(live: LiveCommit) -> None:
            if game is None:
                early.append(live)
            else:
                game.hear(live)

        # First hear, then read: so that nothing falls between.
        unfollow = await self._replicas.follow(game_id, hear)
        try:
            loaded = await load(self._log, game_id)
            if loaded is None or loaded.table.over:
                return None if loaded is None else loaded.table
            audience = self._audiences.begin(loaded.table.version)
            game = FollowedGame(self, self._log, game_id, loaded.table, audience)
            game.unfollow = unfollow
            self._games[game_id] = game
        finally:
            if game is None:
                await unfollow()
        for live in early:
            game.hear(live)
        return game

    async def hand_over(self, game_id: UUID, version: int) -> Audience | None:
        """This replica is the game's host now: who watches it here goes on, from this version."""
        game = self._games.get(game_id)
        if game is None:
            return None
        if game.table.version < version:
            await game.catch_up()
        if game.ended:
            return None
        self.let_go(game)
        if game.table.version != version:
            # Somebody else has written since: they come again, to whoever it was.
            game.audience.close_streams("MOVED")
            return None
        return game.audience

    def let_go(self, game: FollowedGame) -> None:
        """Follow this game no more."""
        game.ended = True
        if self._games.get(game.game_id) is game:
            del self._games[game.game_id]
        assert game.unfollow is not None
        self.background.spawn("stop following a game", game.unfollow())

    async def start(self) -> None:
        """Begin to look after the games."""
        self.background.spawn("followed games", self._look_after())

    async def _look_after(self) -> None:
        """Compare the games with the log, and let go those that nobody watches."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SILENCE_SECONDS)
            silent_since = loop.time() - SILENCE_SECONDS
            for game in [game for game in self._games.values() if not game.audience.subscriptions]:
                if game.heard_at < silent_since:
                    self.let_go(game)
            try:
                await self._compare(silent_since)
            except Exception as error:
                log.warning("cannot compare followed games with the log", error=repr(error))

    async def _compare(self, silent_since: float) -> None:
        if self._replicas.reconnects != self._reconnects:
            self._reconnects = self._replicas.reconnects
            silent_since = asyncio.get_running_loop().time()
        silent = {game.game_id: game for game in self._games.values() if game.heard_at <= silent_since}
        if not silent:
            return
        for game_id, version in (await self._log.versions(list(silent))).items():
            if version > silent[game_id].table.version:
                silent[game_id].read_on()

    async def stop(self) -> None:
        """Follow nothing any more; the streams are ended by then."""
        for beginning in list(self._beginning.values()):
            await end(beginning)
        for game in list(self._games.values()):
            self.let_go(game)
        await self.background.stop()
