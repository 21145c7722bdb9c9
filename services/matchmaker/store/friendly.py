"""Friendly tables in Postgres. Whoever changes a table holds its row; that a player has one seat is a key's word."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from asyncpg import Record

from chassis.database import Pool as DatabasePool
from chassis.database import Session, refusing_while_away
from chassis.facts import publish
from chassis.log import NewFact
from rules.chat import LINES_MAX, LINES_SECONDS
from services.matchmaker.app.ports import FriendlyGame, Line, SeatedElsewhere, Told
from services.matchmaker.domain.friendly import NOBODY, Chair, FriendlyTable, Options
from services.matchmaker.store import facts

RECENT_LINES: Final = 50

_COLUMNS: Final = "table_id, code, state, changed_us, (extract(epoch from opened_at) * 1000)::bigint as opened_at_ms"
_GET: Final = f"select {_COLUMNS} from friendly_table where table_id = $1"
_LOCK: Final = f"{_GET} for update"
_BY_CODE: Final = f"select {_COLUMNS} from friendly_table where code = $1"
_OF_ACCOUNTS: Final = f"""
    select account_id, {_COLUMNS} from friendly_seat join friendly_table using (table_id)
    where account_id = any($1)"""
_ADD: Final = """
    insert into friendly_table (table_id, code, game_type, free_seats, state, changed_us)
    values ($1, $2, $3, $4, $5, (extract(epoch from levata_now()) * 1000000)::bigint)
    on conflict do nothing returning changed_us"""
_SAVE: Final = """
    update friendly_table
    set game_type = $2, free_seats = $3, state = $4,
        dealing_at = case when $5 then coalesce(dealing_at, levata_now()) end, fixed = fixed and $5,
        changed_us = greatest(changed_us + 1, (extract(epoch from levata_now()) * 1000000)::bigint)
    where table_id = $1 returning changed_us"""
_NUMBER: Final = """
    update friendly_table
    set changed_us = greatest(changed_us + 1, (extract(epoch from levata_now()) * 1000000)::bigint)
    where table_id = $1 returning true"""
_CLOSE: Final = "delete from friendly_table where table_id = $1"
_SIT: Final = """
    insert into friendly_seat (account_id, table_id) values ($1, $2) on conflict do nothing returning true"""
_STAND: Final = "delete from friendly_seat where account_id = any($1) and table_id = $2"
_LIST: Final = f"""
    select {_COLUMNS} from friendly_table
    where ($1 = '' or game_type = $1) and (not $2 or free_seats > 0) and ($3::uuid is null or table_id < $3)
    order by table_id desc limit $4"""
_RUNNING: Final = """
    select game_id, state, (extract(epoch from began_at) * 1000)::bigint as opened_at_ms from friendly_game
    where not over and ($1 = '' or game_type = $1) and (not $2 or free_seats > 0) and ($3::uuid is null or game_id < $3)
    order by game_id desc limit $4"""
_ANSWER: Final = """
    update friendly_seat s set nonce = $3, seen_at = levata_now()
    from friendly_table t
    where s.account_id = $1 and t.table_id = s.table_id and t.state->>'game_id' = $2 and not t.fixed
    returning t.table_id"""
_FORGET_ANSWERS: Final = "update friendly_seat set nonce = null where table_id = $1"
_UNANSWERED: Final = "select count(*) from friendly_seat where table_id = $1 and nonce is null"
_FIX: Final = "update friendly_table set fixed = true where table_id = $1 and dealing_at is not null returning true"
_NONCES: Final = "select account_id, nonce from friendly_seat where table_id = $1"
_BEGAN: Final = """
    insert into friendly_game (game_id, table_id, game_type, state) values ($1, $2, $3, $4) on conflict do nothing"""
_GAME: Final = "select game_id, table_id, state from friendly_game where game_id = $1"
_GONE: Final = "select account_id, table_id from friendly_seat where seen_at < levata_now() - $1::interval"
_OVERDUE: Final = "select table_id from friendly_table where dealing_at < levata_now() - interval '3 seconds'"
_SAID: Final = f"""
    select count(*) from friendly_line
    where account_id = $1 and said_at > levata_now() - interval '{LINES_SECONDS} seconds'"""
_SAY: Final = """
    insert into friendly_line (table_id, line_no, account_id, text)
    select $1, coalesce(max(line_no), 0) + 1, $2, $3 from friendly_line where table_id = $1
    returning line_no"""
_DROP_LINES: Final = "delete from friendly_line where table_id = $1 and line_no <= $2"
# Who says one drops those that are not recent any more.
_LINES: Final = """
    select table_id, line_no, account_id, text from friendly_line where table_id = any($1) order by table_id, line_no"""
_SEAT_CHANGED: Final = "select state from friendly_game where game_id = $1 for update"
_KEEP_GAME: Final = "update friendly_game set state = $2, free_seats = $3 where game_id = $1"
_OVER: Final = "update friendly_game set over = true where game_id = any($1)"
_FORGET_GAMES: Final = "delete from friendly_game where began_at < levata_now() - interval '2 days'"


class Changing:
    """One transaction about a table, which holds the table's row until it ends."""

    def __init__(self, session: Session, told: Told | None) -> None:
        self._session = session
        self._told = told

    @property
    def table(self) -> FriendlyTable | None:
        """The table as it is; None for none."""
        return None if self._told is None else self._told.table

    async def save(self, table: FriendlyTable) -> Told:
        """The table is this from now on; without people it is closed. SeatedElsewhere if somebody who sits down has a
        seat at another one."""
        before = self.table
        assert before is not None and self._told is not None
        news = await _move_people(self._session, before.people, table)
        told = self._told._replace(table=table)
        if table.owner == NOBODY:
            await self._session.execute(_CLOSE, table.table_id)
            news.append(facts.closed(table.table_id, "EMPTY"))
        elif table != before:
            changed_us = await self._session.fetchval(_SAVE, *_values(table), table.dealing)
            told = told._replace(number=changed_us)
            if table.dealing and not before.dealing:
                await self._session.execute(_FORGET_ANSWERS, table.table_id)
        if news:
            await publish(self._session, news)
        return told


class PostgresFriendlyTables:
    """Implements `app.ports.FriendlyStore`."""

    def __init__(self, pool: DatabasePool) -> None:
        self._pool = pool

    async def add(self, table: FriendlyTable) -> Told | None:
        """Open a table; None if its id or its code is taken."""
        with refusing_while_away():
            async with self._pool.acquire() as session, session.transaction():
                table_id, game_type, free, state = _values(table)
                changed_us = await session.fetchval(_ADD, table_id, table.code, game_type, free, state)
                if changed_us is None:
                    return None
                news = await _move_people(session, (), table)
                await publish(session, [facts.friendly_opened(table), *news])
        return await self.get(table.table_id)

    @asynccontextmanager
    async def changing(self, table_id: UUID) -> AsyncIterator[Changing]:
        """A transaction about a table."""
        with refusing_while_away():
            async with self._pool.acquire() as session, session.transaction():
                row = await session.fetchrow(_LOCK, table_id)
                yield Changing(session, None if row is None else _told(row))

    async def get(self, table_id: UUID) -> Told | None:
        """A table that waits."""
        return await self._one(_GET, table_id)

    async def by_code(self, code: str) -> Told | None:
        """A table that waits, by its code."""
        return await self._one(_BY_CODE, code)

    async def of(self, accounts: Sequence[UUID]) -> Sequence[Told | None]:
        """The table at which each of them sits, in the order asked."""
        with refusing_while_away():
            rows = await self._pool.fetch(_OF_ACCOUNTS, accounts)
            told = await self._with_lines(rows)
        at = {row["account_id"]: each for row, each in zip(rows, told, strict=True)}
        return [at.get(account) for account in accounts]

    async def _one(self, query: str, argument: object) -> Told | None:
        with refusing_while_away():
            told = await self._with_lines(await self._pool.fetch(query, argument))
        return told[0] if told else None

    async def _with_lines(self, rows: Sequence[Record]) -> list[Told]:
        """Tables, each with what was said there; several rows may be of one."""
        if not rows:
            return []
        lines: defaultdict[UUID, list[Line]] = defaultdict(list)
        for table_id, *line in await self._pool.fetch(_LINES, list({row["table_id"] for row in rows})):
            lines[table_id].append(Line(*line))
        return [_told(row)._replace(lines=lines[row["table_id"]]) for row in rows]

    async def waiting(self, game_type: str, free_only: bool, before: UUID | None, limit: int) -> Sequence[Told]:
        """Tables that wait, the newest first."""
        with refusing_while_away():
            return [_told(row) for row in await self._pool.fetch(_LIST, game_type, free_only, before, limit)]

    async def running(self, game_type: str, free_only: bool, before: UUID | None, limit: int) -> Sequence[Told]:
        """Tables that are played, the newest first."""
        with refusing_while_away():
            rows = await self._pool.fetch(_RUNNING, game_type, free_only, before, limit)
        return [Told(_table(row["state"]), 0, row["opened_at_ms"], running=True) for row in rows]

    async def answer(self, account: UUID, game_id: UUID, nonce: bytes) -> UUID | None:
        """Keep what somebody adds to the shuffle; the table, or None if there is none that waits for it."""
        with refusing_while_away():
            table_id: UUID | None = await self._pool.fetchval(_ANSWER, account, str(game_id), nonce)
        return table_id

    async def unanswered(self, table_id: UUID) -> int:
        """How many have not answered the commitment."""
        count: int = await self._pool.fetchval(_UNANSWERED, table_id)
        return count

    async def fix(self, table_id: UUID) -> Mapping[UUID, bytes] | None:
        """From now on no answer is taken: what was added to the shuffle. None if it is not being dealt any more."""
        async with self._pool.acquire() as session, session.transaction():
            if not await session.fetchval(_FIX, table_id):
                return None
            return {row["account_id"]: row["nonce"] or b"" for row in await session.fetch(_NONCES, table_id)}

    async def began(self, table: FriendlyTable) -> None:
        """The game of a table runs; the table is no more."""
        assert table.game_id is not None
        table_id, game_type, _, state = _values(table)
        async with self._pool.acquire() as session, session.transaction():
            if await session.fetchrow(_LOCK, table_id) is None:
                return
            await session.execute(_BEGAN, table.game_id, table_id, game_type, state)
            await session.execute(_CLOSE, table_id)
            await publish(session, [facts.started(table_id, table.game_id, table.people)])

    async def game(self, game_id: UUID) -> FriendlyGame | None:
        """A game that began at a friendly table, lately."""
        with refusing_while_away():
            row = await self._pool.fetchrow(_GAME, game_id)
        return None if row is None else FriendlyGame(row["game_id"], _table(row["state"]))

    async def gone(self, silent: timedelta) -> Sequence[tuple[UUID, UUID]]:
        """Who was not heard for so long, and at which table."""
        return [(row["account_id"], row["table_id"]) for row in await self._pool.fetch(_GONE, silent)]

    async def waiting_count(self) -> int:
        """How many tables wait."""
        return int(await self._pool.fetchval("select count(*) from friendly_table"))

    async def overdue(self) -> Sequence[UUID]:
        """Tables whose deal takes too long: who began it may have died."""
        return [row["table_id"] for row in await self._pool.fetch(_OVERDUE)]

    async def say(self, table_id: UUID, account: UUID, text: str) -> int | None:
        """Keep a line; its number, or None if the player has said too much, or the table is no more."""
        with refusing_while_away():
            async with self._pool.acquire() as session, session.transaction():
                # Holds the table, and gives what is told of it a number of its own.
                if not await session.fetchval(_NUMBER, table_id) or await session.fetchval(_SAID, account) >= LINES_MAX:
                    return None
                line_no: int = await session.fetchval(_SAY, table_id, account, text)
                await session.execute(_DROP_LINES, table_id, line_no - RECENT_LINES)
                return line_no

    async def forget(self) -> None:
        """Delete games that nobody asks for any more."""
        await self._pool.execute(_FORGET_GAMES)


async def games_over(session: Session, game_ids: Sequence[UUID]) -> None:
    """These games are played no more, in the caller's transaction."""
    await session.execute(_OVER, game_ids)


async def seat_changed(session: Session, game_id: UUID, seat: int, account: UUID | None, guest: bool) -> None:
    """A seat of a running game is somebody else's, or free to be taken, in the caller's transaction."""
    state = await session.fetchval(_SEAT_CHANGED, game_id)
    if state is None:
        return
    table = _table(state)
    chairs = list(table.chairs)
    chairs[seat] = Chair(account, guest)
    changed = FriendlyTable(table.table_id, table.code, table.options, table.owner, tuple(chairs))
    free = sum(not chair.is_taken for chair in chairs)
    await session.execute(_KEEP_GAME, game_id, json.dumps(_state(changed)), free)


async def _move_people(session: Session, before: Sequence[UUID], table: FriendlyTable) -> list[NewFact]:
    after = table.people
    gone = [account for account in before if account not in after]
    if gone:
        await session.execute(_STAND, gone, table.table_id)
    news = []
    for account in after:
        if account not in before:
            if not await session.fetchval(_SIT, account, table.table_id):
                raise SeatedElsewhere
            news.append(facts.seated(table.table_id, account))
    return news


def _values(table: FriendlyTable) -> tuple[UUID, str, int, str]:
    free = sum(not chair.is_taken and chair.kept_for is None for chair in table.chairs)
    return table.table_id, table.options.game_type, free, json.dumps(_state(table))


def _state(table: FriendlyTable) -> dict[str, Any]:
    def plain(each: object) -> object:
        return str(each) if isinstance(each, UUID) else each

    return {
        "table_id": str(table.table_id),
        "code": table.code,
        "options": asdict(table.options),
        "owner": str(table.owner),
        "chairs": [{name: plain(each) for name, each in asdict(chair).items()} for chair in table.chairs],
        "removed": [str(account) for account in table.removed],
        "deals": table.deals,
        "game_id": None if table.game_id is None else str(table.game_id),
        "commitment": table.commitment.hex(),
    }


def _table(text: str) -> FriendlyTable:
    state = json.loads(text)
    return FriendlyTable(
        UUID(state["table_id"]),
        state["code"],
        Options(**state["options"]),
        UUID(state["owner"]),
        tuple(map(_chair, state["chairs"])),
        tuple(map(UUID, state["removed"])),
        state["deals"],
        state["game_id"] and UUID(state["game_id"]),
        bytes.fromhex(state["commitment"]),
    )


def _chair(state: dict[str, Any]) -> Chair:
    ids = {name: UUID(state[name]) if state[name] else None for name in ("account", "kept_for")}
    return Chair(**(state | ids))


def _told(row: Record) -> Told:
    return Told(_table(row["state"]), row["changed_us"], row["opened_at_ms"])
