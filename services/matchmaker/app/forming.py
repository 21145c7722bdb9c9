"""Forming the tables of a pool: one replica at a time does it, from a picture of the pool that it keeps in memory.

The database decides. What a round wants is written under the turn that the replica holds, by statements that leave out
whoever has cancelled meanwhile; a replica that was stopped and goes on finds its turn over, changes nothing and drops
its picture. What other replicas change they tell; what gets lost on the way is found by reading the pool anew.
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
from services.matchmaker.app.ports import QUICK_PLAY, Ended, Fenced, Forming, Games, Players, Standing, Turn
from services.matchmaker.domain.pairing import Moved, Opened, Table, Ticket, pair
from services.matchmaker.domain.quick_play import GONE_US, Pool, QuickTable, QuickTicket, State, is_due

log = structlog.get_logger(__name__)

# How often the turn is kept; who has lost it is replaced within two seconds and a half.
KEEP_TURN_SECONDS: Final = 0.5
# A round follows a change this soon, and another round.
ROUND_SECONDS: Final = 0.02
IDLE_SECONDS: Final = 0.25
# The pool is read anew so often, and less often the longer it takes.
RELOAD_SECONDS: Final = 2.0
RELOAD_SHARE_MAX: Final = 0.02
# Tables that have been opened and not yet dealt: more than so many are not opened, and who has none waits.
TABLES_MAX: Final = 400
OPENINGS_A_ROUND: Final = 50
# Who waits without a table is told the position so often; so many are told in a round.
AHEAD_SECONDS: Final = 1.0
AHEAD_TOLD_MAX: Final = 200
PREPARE_PAUSE_SECONDS: Final = 0.3
# Why the ticket of who is silent ends.
GONE: Final = "GONE"


class Picture:
    """What is known of a pool."""

    def __init__(self, tickets: Iterable[QuickTicket], tables: Iterable[QuickTable]) -> None:
        self.tickets = {ticket.account: ticket for ticket in tickets}
        self.tables = {table.table_id: table for table in tables}
        self.seats: dict[UUID, dict[UUID, QuickTicket]] = {table_id: {} for table_id in self.tables}
        # Without a table, the longest waiting first; sorted when it is asked for.
        self._waiting: dict[UUID, QuickTicket] = {}
        self._sorted: list[QuickTicket] | None = None
        for ticket in self.tickets.values():
            self._place(ticket)

    def put(self, ticket: QuickTicket) -> None:
        """A ticket as it is now."""
        self.drop(ticket.account)
        self.tickets[ticket.account] = ticket
        self._place(ticket)

    def drop(self, account: UUID) -> QuickTicket | None:
        """The account has no ticket in this pool any more."""
        ticket = self.tickets.pop(account, None)
        if ticket is not None:
            if self._waiting.pop(account, None) is not None:
                self._sorted = None
            if ticket.table_id is not None and ticket.table_id in self.seats:
                self.seats[ticket.table_id].pop(account, None)
        return ticket

    def open(self, table: QuickTable) -> None:
        """A table as it is now."""
        self.tables[table.table_id] = table
        self.seats.setdefault(table.table_id, {})

    def close(self, table_id: UUID) -> None:
        """A table that is no more."""
        self.tables.pop(table_id, None)
        self.seats.pop(table_id, None)

    def waiting(self) -> list[QuickTicket]:
        """Those without a table, the longest waiting first."""
        if self._sorted is None:
            self._sorted = sorted(self._waiting.values(), key=lambda ticket: ticket.queued_at_us)
        return self._sorted

    def seated(self, table_id: UUID) -> list[QuickTicket]:
        """Who sits at a table, in the order of joining."""
        return sorted(self.seats.get(table_id, {}).values(), key=lambda ticket: ticket.place)

    def neighbours(self, account: UUID) -> set[UUID]:
        """All who sit at the account's table, itself included; nobody where it has none."""
        ticket = self.tickets.get(account)
        if ticket is None or ticket.table_id is None:
            return set()
        return set(self.seats.get(ticket.table_id, ()))

    def standing(self, account: UUID) -> Standing:
        """What there is to say of an account."""
        ticket = self.tickets.get(account)
        if ticket is None or ticket.table_id is None:
            return Standing(ticket)
        return Standing(ticket, self.tables.get(ticket.table_id), self.seated(ticket.table_id))

    def _place(self, ticket: QuickTicket) -> None:
        if ticket.state is State.WAITING:
            self._waiting[ticket.account] = ticket
            self._sorted = None
        elif ticket.table_id is not None:
            self.seats.setdefault(ticket.table_id, {})[ticket.account] = ticket


class Former:
    """Forms the tables of one pool, whenever it is this replica's turn."""

    def __init__(
        self,
        pool: Pool,
        store: Forming,
        games: Games,
        dealing: Dealing,
        players: Players,
        now_us: Callable[[], int],
        new_id: Callable[[], UUID],
    ) -> None:
        self.pool = pool
        self._store = store
        self._games = games
        self._dealing = dealing
        self._players = players
        self._now_us = now_us
        self._new_id = new_id
        self._turn: Turn | None = None
        self._picture = Picture((), ())
        self._changed: set[UUID] = set()
        self._wake = asyncio.Event()
        self._full_since: dict[UUID, int] = {}
        self._preparing: set[UUID] = set()
        self._listening_since_us = 0
        self._last_number = 0
        self._told_up_to = 0
        self._background = Background()

    @property
    def has_turn(self) -> bool:
        """Whether this replica forms the pool's tables, as far as it knows."""
        return self._turn is not None

    @property
    def waiting_count(self) -> int:
        """Tickets without a table, where it is this replica's turn."""
        return len(self._picture.waiting())

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

    async def _run(self) -> None:
        while True:
            try:
                self._turn = await self._store.take_turn(self.pool)
                if self._turn is not None:
                    await self._hold(self._turn)
            except Fenced:
                log.info("another replica forms the tables", pool=self.pool.variant)
            except Exception as error:
                log.warning("cannot form tables", pool=self.pool.variant, error=in_a_line(error))
            self._turn = None
            self._picture = Picture((), ())
            self._full_since.clear()
            await asyncio.sleep(KEEP_TURN_SECONDS)

    async def _hold(self, turn: Turn) -> None:
        """Form tables until the turn is lost."""
        loop = asyncio.get_running_loop()
        log.info("forms the tables", pool=self.pool.variant, epoch=turn.epoch)
        # Nobody can have been heard before somebody listened.
        self._listening_since_us = self._now_us()
        await self._reload()
        keep_at = loop.time() + KEEP_TURN_SECONDS
        reload_at = loop.time() + RELOAD_SECONDS
        tell_at = 0.0
        while True:
            if loop.time() >= keep_at:
                kept = await self._store.take_turn(self.pool)
                if kept != turn:
                    raise Fenced
                keep_at = loop.time() + KEEP_TURN_SECONDS
            if loop.time() >= reload_at:
                began = loop.time()
                await self._reload()
                await self._end_gone(turn)
                took = loop.time() - began
                reload_at = loop.time() + max(RELOAD_SECONDS, took / RELOAD_SHARE_MAX)
            self._wake.clear()
            await self._refresh()
            await self._round(turn)
            if loop.time() >= tell_at:
                self._tell_waiting()
                tell_at = loop.time() + AHEAD_SECONDS
            await self._pause()

    async def _pause(self) -> None:
        """A moment, so that changes gather; then until something changes, or a table may be due."""
        await asyncio.sleep(ROUND_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(IDLE_SECONDS):
                await self._wake.wait()

    # The picture

    async def _reload(self) -> None:
        """Read the whole pool, and tell whoever is not where they were thought to be."""
        before = self._picture
        contents = await self._store.contents(self.pool)
        self._picture = after = Picture(contents.tickets, contents.tables)
        self._changed.clear()
        # Of deals that have ended those tell who made them.
        moved = {
            account
            for account in before.tickets.keys() | after.tickets.keys()
            if _differ(before.tickets.get(account), after.tickets.get(account))
        }
        self._tell(moved)
        for table in contents.tables:
            if table.dealing:
                self._deal(table)

    async def _refresh(self) -> None:
        """Read the tickets that others have changed."""
        if not self._changed:
            return
        accounts, self._changed = list(self._changed), set()
        fresh = {ticket.account: ticket for ticket in await self._store.tickets(accounts)}
        to_tell: set[UUID] = set()
        for account in accounts:
            before, after = self._picture.tickets.get(account), fresh.get(account)
            neighbours = self._picture.neighbours(account)
            if after is None or after.pool != self.pool:
                self._picture.drop(account)
            else:
                self._picture.put(after)
            if _differ(before, after):
                to_tell |= neighbours | self._picture.neighbours(account) | {account}
        self._tell(to_tell)

    # A round

    async def _round(self, turn: Turn) -> None:
        await self._seat(turn)
        await self._close_empty(turn)
        self._prepare()
        await self._deal_due(turn)

    async def _seat(self, turn: Turn) -> None:
        picture, now_us = self._picture, self._now_us()
        waiting = picture.waiting()
        tables = [
            Table(table_id, table.room, table.rank, table.opened_at_us, tuple(picture.seats[table_id]))
            for table_id, table in picture.tables.items()
            if not table.dealing and 0 < len(picture.seats[table_id]) < self.pool.capacity
        ]
        openings = max(0, min(OPENINGS_A_ROUND, TABLES_MAX - len(picture.tables), len(waiting)))
        decisions = pair(
            [Ticket(each.ticket_id, each.account, each.room, each.rank, each.queued_at_us) for each in waiting],
            tables,
            capacity=self.pool.capacity,
            now_us=now_us,
            new_ids=[self._new_id() for _ in range(openings)],
            apart={each.account: each.companions for each in waiting if each.companions},
        )
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
        self._tell({account for each in changed for account in picture.neighbours(each.account)})
        # Whoever is not among them has cancelled, or is not where the picture has it.
        served = {each.account for each in changed}
        wanted = [each.ticket.account for each in decisions if not isinstance(each, Moved)]
        self.changed(account for account in wanted if account not in served)

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
            if table.game_id is None and table.table_id not in self._preparing:
                self._preparing.add(table.table_id)
                self._background.spawn("prepare a table", self._prepare_table(table))

    async def _prepare_table(self, table: QuickTable) -> None:
        """Have the table's game prepared, however long it takes; until then it is not dealt."""
        try:
            while (now := self._picture.tables.get(table.table_id)) is not None and now.game_id is None:
                try:
                    # The table's id makes it the same game, whoever asks for it and however often.
                    prepared = await self._games.prepare(table.table_id, *self.pool, self.pool.capacity, QUICK_PLAY)
                    await self._store.keep_prepared(table.table_id, prepared.game_id, prepared.commitment)
                except Exception as error:
                    log.warning("cannot prepare a game", error=in_a_line(error))
                    await asyncio.sleep(PREPARE_PAUSE_SECONDS)
                    continue
                now = self._picture.tables.get(table.table_id)
                if now is not None:
                    self._picture.open(replace(now, game_id=prepared.game_id, commitment=prepared.commitment))
                    self._tell(self._picture.seats[table.table_id])
                    self._wake.set()
                return
        finally:
            self._preparing.discard(table.table_id)

    async def _deal_due(self, turn: Turn) -> None:
        picture, now_us = self._picture, self._now_us()
        due: dict[UUID, int] = {}
        full: dict[UUID, int] = {}
        for table_id, table in picture.tables.items():
            if table.dealing:
                continue
            seated = picture.seats[table_id].values()
            if len(seated) == self.pool.capacity:
                full[table_id] = self._full_since.get(table_id, now_us)
            if is_due(table, seated, full.get(table_id), now_us):
                # A full table that somebody leaves at this moment goes on looking for another one.
                due[table_id] = 1 if now_us >= table.deals_at_us else self.pool.capacity
        self._full_since = full
        if not due:
            return
        dealt = await self._store.begin_deal(turn, due)
        for ticket in dealt:
            picture.put(ticket)
        begun = {ticket.table_id for ticket in dealt}
        for table_id in due:
            if table_id in begun:
                picture.open(replace(picture.tables[table_id], dealing=True))
                self._tell(picture.seats[table_id])
                self._deal(picture.tables[table_id])
            else:
                self.changed(picture.seats[table_id])

    def _deal(self, table: QuickTable) -> None:
        self._dealing.deal(table, self._dealt)

    def _dealt(self, table_id: UUID, accounts: Collection[UUID]) -> None:
        """A deal has ended: with a game, which those who play it were told of, or with people who look for another."""
        for account in accounts:
            self._picture.drop(account)
        self._picture.close(table_id)
        self.changed(accounts)

    # Who is gone, and who is told

    async def _end_gone(self, turn: Turn) -> None:
        now_us = self._now_us()
        if now_us - self._listening_since_us < GONE_US:
            return
        silent = [
            ticket
            for ticket in self._picture.tickets.values()
            if ticket.state < State.DEALING and now_us - ticket.seen_at_us > GONE_US
        ]
        if not silent:
            return
        gone = await self._store.end_gone(turn, [ticket.account for ticket in silent], GONE_US)
        for account in gone:
            neighbours = self._picture.neighbours(account)
            ticket = self._picture.drop(account)
            assert ticket is not None
            self._tell(neighbours - {account})
            self._say(account, Standing(ended=Ended(ticket.ticket_id, ticket.room, ticket.pool, GONE)))

    def _tell(self, accounts: Iterable[UUID]) -> None:
        for account in accounts:
            self._say(account, self._picture.standing(account))

    def _tell_waiting(self) -> None:
        """Tell those who wait without a table how many are before them, some at a time."""
        waiting = self._picture.waiting()
        self._told_up_to = self._told_up_to if self._told_up_to < len(waiting) else 0
        upto = min(len(waiting), self._told_up_to + AHEAD_TOLD_MAX)
        for ahead in range(self._told_up_to, upto):
            self._say(waiting[ahead].account, Standing(waiting[ahead]), ahead)
        self._told_up_to = upto

    def _say(self, account: UUID, standing: Standing, ahead: int | None = None) -> None:
        # Later states must have higher numbers, also where the clock is set back by a little.
        self._last_number = max(self._last_number + 1, self._now_us())
        self._players.tell(account, standing, ahead, self._last_number)


def _differ(before: QuickTicket | None, after: QuickTicket | None) -> bool:
    """Whether people have to be told: of who comes, goes or is moved, not of each sign of life and each answer."""
    if before is None:
        # Who waits is told of a table, or of the position, soon.
        return after is not None and after.state is not State.WAITING
    if after is None:
        # Of a deal that has ended those tell who made it.
        return before.state is not State.DEALING
    return (before.ticket_id, before.state, before.table_id) != (after.ticket_id, after.state, after.table_id)
