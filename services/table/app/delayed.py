"""Games that spectators see as they were some time ago, by the wish of the table's owner.

A delayed game follows the log and nothing else: what is shown when depends on when it was decided alone, so that it is
the same at every replica, whoever hosts the game and however often that changes. The log is read well before the
commits are due. What is read and not yet shown never leaves this module.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from chassis.clock import Clock
from chassis.tasks import Background, end
from services.table.app.audience import Audience, Audiences
from services.table.app.ports import GameLog, Messages
from services.table.domain import SPECTATOR, Commit, SeatChanged, Table, apply

log = structlog.get_logger(__name__)

TICK_SECONDS: Final = 0.25
# A game's log is read at least so often, and more often where the delay is short.
READ_SECONDS_MAX: Final = 3.0
# A game that nobody watches is kept so long for those who only come again.
IDLE_SECONDS: Final = 10.0


class Shown(NamedTuple):
    """A commit that has become visible, with the table before and after it."""

    before: Table | None
    commit: Commit
    after: Table


class LateTable:
    """A table as it was some time ago: None before its first commit may be seen."""

    __slots__ = ("_delay_us", "_due_us", "_waiting", "known_version", "table")

    def __init__(self, delay_us: int) -> None:
        self._delay_us = delay_us
        self.table: Table | None = None
        # In the order of the log, each with the time from which it may be seen.
        self._waiting: deque[tuple[int, Commit]] = deque()
        self._due_us = 0
        self.known_version = 0

    @property
    def version(self) -> int:
        """The version that is seen; 0 before the first."""
        return 0 if self.table is None else self.table.version

    def learn(self, commits: Iterable[Commit]) -> None:
        """The next commits of the log."""
        for commit in commits:
            assert commit.version == self.known_version + 1
            self.known_version = commit.version
            # Hosts' clocks differ a little: no commit is seen before its predecessor.
            self._due_us = max(self._due_us, commit.decided_at_us + self._delay_us)
            self._waiting.append((self._due_us, commit))

    def advance(self, now_us: int) -> Iterator[Shown]:
        """What has become visible by now."""
        while self._waiting and self._waiting[0][0] <= now_us:
            commit = self._waiting.popleft()[1]
            before = self.table
            self.table = apply(before, commit)
            yield Shown(before, commit, self.table)


class DelayedGame:
    """A game for its spectators on this replica."""

    __slots__ = ("audience", "game_id", "late", "needed_at", "read_every", "reads_at")

    def __init__(self, game_id: UUID, delay_seconds: int, audience: Audience) -> None:
        self.game_id = game_id
        self.late = LateTable(delay_seconds * 1_000_000)
        self.audience = audience
        # Read at half the delay what was decided since the last time is known before it is due.
        self.read_every = min(delay_seconds / 2, READ_SECONDS_MAX)
        # Loop times: of the next reading, and when somebody wanted the game last.
        self.reads_at = 0.0
        self.needed_at = 0.0

    @property
    def table(self) -> Table | None:
        """The game as it may be seen now; None before its beginning may be."""
        return self.late.table

    @property
    def is_over(self) -> bool:
        """Whether its end was seen."""
        return self.late.table is not None and self.late.table.over

    def show(self, now_us: int, messages: Messages) -> None:
        """Send what has become visible; to who has seen nothing yet, a snapshot."""
        for before, commit, after in self.late.advance(now_us):
            if before is None:
                message = messages.snapshot(after, SPECTATOR)
            else:
                message = messages.commit_messages(before, commit, after).message(SPECTATOR)
            self.audience.show(after.version, message)
        if self.is_over:
            self.audience.end()


class DelayedGames:
    """The delayed games of this replica."""

    def __init__(self, game_log: GameLog, messages: Messages, audiences: Audiences, clock: Clock) -> None:
        self._log = game_log
        self._messages = messages
        self._audiences = audiences
        self._clock = clock
        self._games: dict[UUID, DelayedGame] = {}
        # Those that are read for the first time: who comes meanwhile waits for the same.
        self._beginning: dict[UUID, asyncio.Task[DelayedGame]] = {}
        self._background = Background()

    async def start(self) -> None:
        """Begin to show and to read on."""
        self._background.spawn("show delayed games", self._show())
        self._background.spawn("read for delayed games", self._read_on())

    async def stop(self) -> None:
        """End it; the streams are ended by then."""
        await self._background.stop()
        for beginning in list(self._beginning.values()):
            await end(beginning)

    async def find(self, game_id: UUID, delay_seconds: int) -> DelayedGame | Table:
        """A game of the log as spectators may see it now, or as it ended, once that may be seen.

        Who wants to watch must subscribe before waiting for anything else.
        """
        game = self._games.get(game_id)
        if game is None:
            beginning = self._beginning.get(game_id)
            if beginning is None:
                beginning = asyncio.create_task(self._begin(game_id, delay_seconds), name="begin a delayed game")
                self._beginning[game_id] = beginning
                beginning.add_done_callback(lambda _: self._beginning.pop(game_id, None))
            game = await asyncio.shield(beginning)
        game.needed_at = asyncio.get_running_loop().time()
        game.show(self._clock.now_us(), self._messages)
        return game.table if game.table is not None and game.is_over else game

    async def _begin(self, game_id: UUID, delay_seconds: int) -> DelayedGame:
        game = DelayedGame(game_id, delay_seconds, self._audiences.begin(0))
        await self._read(game)
        game.needed_at = asyncio.get_running_loop().time()
        self._games[game_id] = game
        return game

    async def _read(self, game: DelayedGame) -> None:
        game.reads_at = asyncio.get_running_loop().time() + game.read_every
        commits = [logged.commit for logged in await self._log.read(game.game_id, game.late.known_version)]
        game.late.learn(commits)
        # Whoever has a seat now is no spectator any more, also of what was.
        changes = [event for commit in commits for event in commit.events if type(event) is SeatChanged]
        seated = {change.occupant.account for change in changes if change.occupant.account}
        game.audience.part_with(seated)

    async def _show(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now_us = self._clock.now_us()
            for game in list(self._games.values()):
                try:
                    game.show(now_us, self._messages)
                except Exception:
                    # Who comes again has it read anew.
                    log.exception("a delayed game cannot be shown", game=str(game.game_id))
                    game.audience.close_streams("MOVED")
                    del self._games[game.game_id]
                    continue
                if game.audience.subscriptions:
                    game.needed_at = loop.time()
                elif loop.time() - game.needed_at > IDLE_SECONDS:
                    del self._games[game.game_id]

    async def _read_on(self) -> None:
        """Read what the games have more, those that have nothing new not at all."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = loop.time()
            games = {game.game_id: game for game in self._games.values() if game.reads_at <= now and not game.is_over}
            for game in games.values():
                game.reads_at = now + game.read_every
            if games:
                try:
                    newest = await self._log.versions(list(games))
                except Exception as error:
                    # They are shown later than they might be.
                    log.warning("cannot read on for delayed games", error=repr(error))
                    continue
                await asyncio.gather(
                    *(
                        self._read_more(games[game_id])
                        for game_id, version in newest.items()
                        if version > games[game_id].late.known_version
                    )
                )

    async def _read_more(self, game: DelayedGame) -> None:
        try:
            await self._read(game)
        except Exception as error:
            log.warning("cannot read on for a delayed game", game=str(game.game_id), error=repr(error))
