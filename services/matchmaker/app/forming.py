"""Forming the tables of a pool: one replica at a time does it, from a picture of the pool that it keeps in memory.

The database decides. What a round wants is written under the turn that the replica holds, by statements that leave out
whoever has cancelled meanwhile; a replica that was stopped and goes on finds its turn over, changes nothing and drops
its picture. What other replicas change they tell; what gets lost on the way is found by comparing with the whole pool.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final
from uuid import UUID

import structlog

from chassis.errors import in_a_line
from chassis.tasks import Background
from services.matchmaker.app.dealing import Dealing
from services.matchmaker.app.picture import Picture
from services.matchmaker.app.ports import TURN_US, Ended, Fenced, Forming, Players, PreparedGame, Standing, Turn
from services.matchmaker.app.preparing import Preparing
from services.matchmaker.app.telling import Telling
from services.matchmaker.domain.pairing import Decision, Moved, Opened, Table, pair
from services.matchmaker.domain.quick_play import GONE_US, Pool, QuickTable, QuickTicket, State, is_due

log = structlog.get_logger(__name__)

# How often the turn is kept; who has lost it is replaced within two seconds and a half.
KEEP_TURN_SECONDS: Final = 0.5
# A round follows a change this soon, and another round.
ROUND_SECONDS: Final = 0.02
IDLE_SECONDS: Final = 0.25
# The picture is compared with the pool so often, and less often the longer it takes, within limits: it may have taken
# long only once, and till the next time nothing is found that got lost on the way.
COMPARE_SECONDS: Final = 2.0
COMPARE_SECONDS_MAX: Final = 5.0
COMPARE_SHARE_MAX: Final = 0.02
# How often it is looked for who is not there any more.
GONE_SECONDS: Final = 2.0
# Tables that have been opened and not yet dealt: more than so many are not opened, and who has none waits.
TABLES_MAX: Final = 400
OPENINGS_A_ROUND: Final = 50
# Why the ticket of who is silent ends.
GONE: Final = "GONE"


class Former:
    """Forms the tables of one pool, whenever it is this replica's turn."""

    def __init__(
        self,
        pool: Pool,
        store: Forming,
        preparing: Preparing,
        dealing: Dealing,
        players: Players,
        now_us: Callable[[], int],
        new_id: Callable[[], UUID],
    ) -> None:
        self.pool = pool
        self._store = store
        self._preparing = preparing
        self._dealing = dealing
        self._now_us = now_us
        self._new_id = new_id
        self._telling = Telling(players, now_us)
        self._turn: Turn | None = None
        self._picture = Picture()
        self._changed: set[UUID] = set()
        self._wake = asyncio.Event()
        self._full_since: dict[UUID, int] = {}
        # Tables whose games are being prepared.
        self._unprepared: set[UUID] = set()
        self._background = Background()
        # How often this replica began to form the tables.
        self.turns_taken = 0

    @property
    def has_turn(self) -> bool:
        """Whether this replica forms the pool's tables, as far as it knows."""
        return self._turn is not None

    @property
    def waiting_count(self) -> int:
        """Tickets without a table, where it is this replica's turn."""
        return self._picture.waiting_count

    @property
    def tables_count(self) -> int:
        """Tables without a game yet, where it is this replica's turn."""
        return len(self._picture.tables)

    def start(self) -> None:
        """Begin to try for the turn."""
        self._background.spawn(f"form {self.pool.variant}", self._run())

    async def stop(self) -> None:
        """Form no more; deals under way are taken up by who comes next."""
        await self._background.stop()

    def changed(self, accounts: Iterable[UUID]) -> None:
        """These accounts' tickets are not what they were."""
        if self._turn is not None:
            self._changed.update(accounts)
            self._wake.set()

    # The turn

    async def _run(self) -> None:
        while True:
            try:
                self._turn = await self._take_turn()
                if self._turn is not None:
                    await self._hold(self._turn)
            except Fenced:
                log.info("another replica forms the tables", pool=self.pool.variant)
            except Exception as error:
                log.warning("cannot form tables", pool=self.pool.variant, error=in_a_line(error))
            self._turn = None
            self._picture = Picture()
            self._changed.clear()
            self._full_since.clear()
            self._telling.forget_all()
            await asyncio.sleep(KEEP_TURN_SECONDS)

    async def _take_turn(self) -> Turn | None:
        asked_us = self._now_us()
        turn = await self._store.take_turn(self.pool)
        if turn is not None:
            self._telling.keep_turn(asked_us + TURN_US)
        return turn

    async def _hold(self, turn: Turn) -> None:
        """Form tables until the turn is lost."""
        loop = asyncio.get_running_loop()
        self.turns_taken += 1
        log.info("forms the tables", pool=self.pool.variant, epoch=turn.epoch)
        # Nobody can have been heard before somebody listened.
        end_gone_at = loop.time() + GONE_US / 1_000_000
        compare_at = 0.0
        keep_at = loop.time() + KEEP_TURN_SECONDS
        while True:
            if loop.time() >= keep_at:
                if await self._take_turn() != turn:
                    raise Fenced
                keep_at = loop.time() + KEEP_TURN_SECONDS
            if loop.time() >= compare_at:
                began = loop.time()
                await self._compare()
                compare_at = loop.time() + compare_after_seconds(loop.time() - began)
            if loop.time() >= end_gone_at:
                await self._end_gone(turn)
                end_gone_at = loop.time() + GONE_SECONDS
            self._wake.clear()
            await self._refresh()
            await self._round(turn)
            self._telling.tell(self._picture)
            await self._pause()

    async def _pause(self) -> None:
        """A moment, so that changes gather; then until something changes, or a table may be due."""
        await asyncio.sleep(ROUND_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(IDLE_SECONDS):
                await self._wake.wait()

    # The picture

    async def _compare(self) -> None:
        """Find what is not as it was thought to be. Also takes up the deals that another replica has begun."""
        picture = self._picture
        outline = await self._store.outline(self.pool, picture.marks.sums)
        for table_id in picture.tables.keys() - {table.table_id for table in outline.tables}:
            picture.close(table_id)
        for table in outline.tables:
            known = picture.tables.get(table.table_id)
            # What was prepared since the pool was read is kept.
            if known is None or known.game_id is None or table.game_id is not None:
                picture.open(table)
            if table.dealing:
                self._dealing.deal(table, self._dealt)
        self._changed |= picture.marks.differing(outline.found)

    async def _refresh(self) -> None:
        """Read the tickets that have changed, and tell whoever is not where they were thought to be."""
        changed, self._changed = self._changed, set()
        if not changed:
            return
        fresh = {ticket.account: ticket for ticket in await self._store.tickets(list(changed))}
        # Of those that changed while they were read nothing is known: a deal that ended has told them already.
        for account in changed - self._changed:
            before, after = self._picture.tickets.get(account), fresh.get(account)
            neighbours = self._picture.neighbours(account)
            if after is None or after.pool != self.pool:
                self._picture.drop(account)
            else:
                self._picture.put(after)
            if _differ(before, after):
                self._telling.soon(neighbours | self._picture.neighbours(account) | {account})
            if after is not None and after.pool != self.pool:
                # Who looks for another game is told by whoever forms its tables.
                self._telling.forget([account])

    # A round

    async def _round(self, turn: Turn) -> None:
        await self._seat(turn)
        await self._close_empty(turn)
        self._prepare()
        await self._deal_due(turn)

    async def _seat(self, turn: Turn) -> None:
        picture, now_us = self._picture, self._now_us()
        decisions = self._pair(now_us)
        if not decisions:
            return
        changed = await self._store.seat(turn, decisions)
        for decision in decisions:
            match decision:
                case Opened(ticket, table_id):
                    picture.open(QuickTable(table_id, self.pool, ticket.room, ticket.rank, now_us))
                case Moved(table_id, _):
                    picture.close(table_id)
        for seated in changed:
            picture.put(seated)
        self._tell_tables({each.table_id for each in changed if each.table_id is not None})
        # Whoever is not among them has cancelled, or is not where the picture has it.
        served = {each.account for each in changed}
        wanted = [each.ticket.account for each in decisions if not isinstance(each, Moved)]
        self.changed(account for account in wanted if account not in served)

    def _pair(self, now_us: int) -> list[Decision]:
        picture = self._picture
        waiting = picture.waiting()
        tables = [
            Table(table_id, table.room, table.rank, table.opened_at_us, tuple(picture.seats[table_id]))
            for table_id, table in picture.tables.items()
            if not table.dealing and 0 < len(picture.seats[table_id]) < self.pool.capacity
        ]
        openings = max(0, min(OPENINGS_A_ROUND, TABLES_MAX - len(picture.tables), len(waiting)))
        return pair(
            waiting,
            tables,
            capacity=self.pool.capacity,
            now_us=now_us,
            new_ids=[self._new_id() for _ in range(openings)],
            apart={each.account: each.companions for each in waiting if each.companions},
        )

    async def _close_empty(self, turn: Turn) -> None:
        empty = [
            table_id
            for table_id, table in self._picture.tables.items()
            if not table.dealing and not self._picture.seats[table_id]
        ]
        if empty:
            await self._store.close_empty(turn, empty)
            for table_id in empty:
                self._picture.close(table_id)

    def _prepare(self) -> None:
        for table in self._picture.tables.values():
            if table.game_id is None and table.table_id not in self._unprepared:
                self._unprepared.add(table.table_id)
                self._preparing.prepare(table, self._is_unprepared, self._prepared)

    def _is_unprepared(self, table_id: UUID) -> bool:
        table = self._picture.tables.get(table_id)
        if table is None or table.game_id is not None:
            self._unprepared.discard(table_id)
            return False
        return True

    def _prepared(self, table_id: UUID, game: PreparedGame) -> None:
        self._unprepared.discard(table_id)
        table = self._picture.tables.get(table_id)
        if table is not None:
            self._picture.open(replace(table, game_id=game.game_id, commitment=game.commitment))
            self._telling.soon(self._picture.seats[table_id])
            self._wake.set()

    async def _deal_due(self, turn: Turn) -> None:
        picture = self._picture
        due = self._due()
        if not due:
            return
        dealt = await self._store.begin_deal(turn, due)
        for ticket in dealt:
            picture.put(ticket)
        begun = {ticket.table_id for ticket in dealt}
        for table_id in due:
            if table_id in begun:
                table = replace(picture.tables[table_id], dealing=True)
                picture.open(table)
                # Most often they play at once.
                self._telling.later(picture.seats[table_id])
                self._dealing.deal(table, self._dealt, self._full_since.get(table_id))
            else:
                self.changed(picture.seats[table_id])

    def _due(self) -> dict[UUID, int]:
        """Tables that are to be dealt now, each with how many must sit there for that."""
        now_us = self._now_us()
        due: dict[UUID, int] = {}
        full: dict[UUID, int] = {}
        for table_id, table in self._picture.tables.items():
            if table.dealing:
                continue
            seated = self._picture.seats[table_id].values()
            if len(seated) == self.pool.capacity:
                full[table_id] = self._full_since.get(table_id, now_us)
            if is_due(table, seated, full.get(table_id), now_us):
                # A full table that somebody leaves at this moment goes on looking for another one.
                due[table_id] = 1 if now_us >= table.deals_at_us else self.pool.capacity
        self._full_since = full
        return due

    def _dealt(self, table_id: UUID, accounts: Collection[UUID]) -> None:
        """A deal has ended: with a game, which those who play it were told of, or with people who look for another."""
        for account in accounts:
            self._picture.drop(account)
        self._telling.forget(accounts)
        self._picture.close(table_id)
        self.changed(accounts)

    async def _end_gone(self, turn: Turn) -> None:
        """End the tickets of those who were not heard for too long."""
        for ticket in await self._store.end_gone(turn, GONE_US):
            neighbours = self._picture.neighbours(ticket.account)
            self._picture.drop(ticket.account)
            self._telling.soon(neighbours - {ticket.account})
            self._telling.forget([ticket.account])
            ended = Ended(ticket.ticket_id, ticket.room, ticket.pool, GONE)
            self._telling.say(ticket.account, Standing(ended=ended))

    def _tell_tables(self, table_ids: Iterable[UUID]) -> None:
        """Tell who sits there; where the commitment is about to come, with it."""
        for table_id in table_ids:
            table = self._picture.tables.get(table_id)
            tell = self._telling.later if table is None or table.game_id is None else self._telling.soon
            tell(self._picture.seats[table_id])


def compare_after_seconds(took_seconds: float) -> float:
    """When the picture is compared again, after a comparison that took so long."""
    return min(max(COMPARE_SECONDS, took_seconds / COMPARE_SHARE_MAX), COMPARE_SECONDS_MAX)


def _differ(before: QuickTicket | None, after: QuickTicket | None) -> bool:
    """Whether people have to be told: of who comes, goes or is moved, not of each sign of life and each answer."""
    if before is None:
        # Who waits is told of a table, or of the position, soon.
        return after is not None and after.state is not State.WAITING
    if after is None:
        # Of a deal that has ended those tell who made it.
        return before.state is not State.DEALING
    return (before.ticket_id, before.state, before.table_id) != (after.ticket_id, after.state, after.table_id)
