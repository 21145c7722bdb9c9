"""From a table whose seats are fixed to its game: entries held for all, the game created, everybody told.

All that is asked for follows from the rows that `begin_deal` has fixed, so that each may be taken again: by the same
replica when an answer was lost, by another one when this one died. What became of the game's id decides.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

import structlog

from chassis.errors import in_a_line
from chassis.tasks import Background
from services.matchmaker.app.batches import CALLS_MAX, TABLES_MAX, Batches
from services.matchmaker.app.outcomes import Outcomes
from services.matchmaker.app.ports import (
    Dealt,
    Ended,
    Entrants,
    Entry,
    Forming,
    Games,
    Ledger,
    NewGame,
    NotCreated,
    Players,
    Seat,
    Standing,
    Started,
)
from services.matchmaker.domain.quick_play import QuickTable, QuickTicket, State

log = structlog.get_logger(__name__)

T = TypeVar("T")

# For so long it is tried to create a game; then its id is closed, and its people look for another table.
TRY_SECONDS: Final = 6.0
# Together with this, whoever gets no game looks again within 15 seconds.
GIVING_BACK_SECONDS: Final = 8.0
PAUSE_SECONDS: Final = 0.2
PAUSE_SECONDS_MAX: Final = 2.0
# What became of a deal is written in less, or was held up.
WRITING_US_MAX: Final = 1_000_000

# Of a table, and of those who have been told all that there is to tell them.
Done = Callable[[UUID, Collection[UUID]], None]


class _Result(NamedTuple):
    """What the ledger said of those at a table."""

    entries: Sequence[Entry]

    @property
    def playing(self) -> list[UUID]:
        """Who was accepted."""
        return [entry.account for entry in self.entries if not entry.refusal]

    @property
    def refused(self) -> dict[UUID, str]:
        """Who was not, and why."""
        return {entry.account: entry.refusal for entry in self.entries if entry.refusal}


class Dealing:
    """The deals that are under way in this replica."""

    def __init__(
        self, store: Forming, games: Games, ledger: Ledger, players: Players, now_us: Callable[[], int]
    ) -> None:
        self._store = store
        self._games = games
        self._players = players
        self._now_us = now_us
        # Of tables that are dealt at the same time.
        self._reading = Batches("read tables", store.dealt)
        self._holding = Batches("hold entries", ledger.hold, TABLES_MAX, CALLS_MAX)
        self._creating = Batches("create games", games.create_all, TABLES_MAX, CALLS_MAX)
        self._keeping = Batches("keep that games run", store.started)
        # By table, when it began, on the machine's own clock.
        self._began: dict[UUID, float] = {}
        self._background = Background()
        self.outcomes = Outcomes()

    @property
    def under_way(self) -> int:
        """How many there are."""
        return len(self._began)

    @property
    def oldest_seconds(self) -> float:
        """How long the one takes that began first; 0 if there is none."""
        now = time.monotonic()
        return now - min(list(self._began.values()), default=now)

    def deal(self, table: QuickTable, done: Done, full_since_us: int | None = None) -> None:
        """Begin the deal of a table, if it is not under way here; of a full one it may be known since when it is."""
        if table.table_id not in self._began:
            self._began[table.table_id] = time.monotonic()
            self._background.spawn("deal a table", self._deal(table, done, full_since_us))

    async def stop(self) -> None:
        """Deal no more; who comes next goes on."""
        await self._background.stop()
        for batches in (self._reading, self._holding, self._creating, self._keeping):
            await batches.stop()

    async def _deal(self, table: QuickTable, done: Done, full_since_us: int | None) -> None:
        try:
            dealt = await _stubbornly("read a table", lambda: self._reading.ask(table.table_id))
            accounts = [each.ticket.account for each in dealt]
            if accounts:
                result = await self._make_game(table, dealt)
                self._count(dealt, result, full_since_us)
            done(table.table_id, accounts)
        finally:
            self._began.pop(table.table_id, None)

    async def _make_game(self, table: QuickTable, dealt: Sequence[Dealt]) -> _Result:
        """Who plays the game now; nobody, if there is none."""
        game_id = table.game_id
        assert game_id is not None, "a table is dealt only when its game has been prepared"
        result = await self._try(table, game_id, dealt)
        if result is None:
            # Whether it was created is not known: from here on it is settled for good.
            if await _stubbornly("cancel a game", lambda: self._games.cancel(game_id)):
                result = await _stubbornly("hold entries", lambda: self._hold(game_id, dealt))
            else:
                await self._until_given_back(game_id, dealt)
                await self._search_again(table, dealt, {})
                return _Result(())
        if not result.playing:
            await _stubbornly("cancel a game", lambda: self._games.cancel(game_id))
            await self._search_again(table, dealt, result.refused)
            return result
        started = Started(table.table_id, game_id, result.playing, result.refused)
        number = await _stubbornly("keep that a game runs", lambda: self._numbered(self._keeping.ask(started)))
        self._tell(table, dealt, result, number)
        return result

    def _count(self, dealt: Sequence[Dealt], result: _Result, full_since_us: int | None) -> None:
        self.outcomes.refused.update(result.refused.values())
        if result.playing:
            playing = set(result.playing)
            queued = [each.ticket.queued_at_us for each in dealt if each.ticket.account in playing]
            self.outcomes.add_started(self._now_us(), queued, full_since_us)
        else:
            self.outcomes.not_started += 1

    async def _try(self, table: QuickTable, game_id: UUID, dealt: Sequence[Dealt]) -> _Result | None:
        """Hold the entries and create the game; None if that did not succeed for so long."""
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + TRY_SECONDS, PAUSE_SECONDS
        while True:
            try:
                result = await self._hold(game_id, dealt)
                if result.playing:
                    await self._creating.ask(NewGame(game_id, _seats(dealt, result, table.pool.capacity)))
                return result
            except NotCreated:
                return None
            except Exception as error:
                log.warning("cannot begin a game", game_id=str(game_id), error=in_a_line(error))
                if loop.time() + pause > end:
                    return None
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    async def _hold(self, game_id: UUID, dealt: Sequence[Dealt]) -> _Result:
        return _Result(await self._holding.ask(Entrants(game_id, [each.ticket for each in dealt])))

    async def _until_given_back(self, game_id: UUID, dealt: Sequence[Dealt]) -> None:
        """Until the ledger has heard that there is no such game, or people would be refused for what is their own.

        It hears of it within moments. Where that is long in coming they look for another table all the same.
        """
        pause = PAUSE_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(GIVING_BACK_SECONDS):
                while await self._may_be_held(game_id, dealt):
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, PAUSE_SECONDS_MAX)

    async def _may_be_held(self, game_id: UUID, dealt: Sequence[Dealt]) -> bool:
        try:
            await self._hold(game_id, dealt)
        except NotCreated:
            return False
        except Exception as error:
            log.warning("cannot learn whether entries were given back", game_id=str(game_id), error=in_a_line(error))
        return True

    async def _search_again(self, table: QuickTable, dealt: Sequence[Dealt], refused: dict[UUID, str]) -> None:
        number = await _stubbornly(
            "send people back", lambda: self._numbered(self._store.not_started(table.table_id, refused))
        )
        self._tell_refused(dealt, refused, number)

    async def _numbered(self, writing: Awaitable[None]) -> int:
        """The number of what is told of a writing. It is not much later than the writing began: who stood still
        meanwhile says nothing over what others have said since."""
        began_us = self._now_us()
        await writing
        return min(self._now_us(), began_us + WRITING_US_MAX)

    def _tell(self, table: QuickTable, dealt: Sequence[Dealt], result: _Result, number: int) -> None:
        playing = set(result.playing)
        for ticket in (each.ticket for each in dealt if each.ticket.account in playing):
            plays = replace(ticket, state=State.PLAYING, table_id=None, game_id=table.game_id)
            self._players.tell(ticket.account, Standing(plays), None, number)
        self._tell_refused(dealt, result.refused, number)

    def _tell_refused(self, dealt: Sequence[Dealt], refused: dict[UUID, str], number: int) -> None:
        for ticket in (each.ticket for each in dealt if each.ticket.account in refused):
            ended = Ended(ticket.ticket_id, ticket.room, ticket.pool, refused[ticket.account])
            self._players.tell(ticket.account, Standing(ended=ended), None, number)


async def _stubbornly(what: str, call: Callable[[], Awaitable[T]]) -> T:
    """The answer to what can be asked again and must be known, however long it takes."""
    pause = PAUSE_SECONDS
    while True:
        try:
            return await call()
        except Exception as error:
            log.warning("a deal is held up", step=what, error=in_a_line(error))
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)


def _seats(dealt: Sequence[Dealt], result: _Result, capacity: int) -> list[Seat]:
    """In the order of joining, with bots for those who were refused and for the rest."""
    entries = {entry.account: entry for entry in result.entries}
    seats = [_seat(each.ticket, each.nonce, entries[each.ticket.account]) for each in dealt]
    return seats + [Seat()] * (capacity - len(seats))


def _seat(ticket: QuickTicket, nonce: bytes, entry: Entry) -> Seat:
    if entry.refusal:
        return Seat()
    return Seat(
        account=ticket.account,
        guest=ticket.guest,
        nonce=nonce,
        room=ticket.room,
        coins=entry.coins,
        gold=entry.gold,
        prize=entry.prize,
        coffee=ticket.coffee,
    )
