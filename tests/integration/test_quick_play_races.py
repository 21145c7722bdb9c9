"""A thousand cancellations in the millisecond of the deal, on a real Postgres: out, or in a whole game, and nothing
between (platform.md, "Rooms and quick play")."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID, uuid4

import pytest

from chassis.database import open_pool
from services.matchmaker.app.ports import Turn
from services.matchmaker.domain.pairing import Decision, Opened, Seated
from services.matchmaker.domain.quick_play import Pool, QuickTicket, State
from services.matchmaker.store.quick_play import PostgresQuickPlay
from tests.conftest import Database
from tests.integration.test_quick_play_store import asked_for

POOL = Pool("klaverjas", "amsterdam")
SEATS = 4
# As many tables are dealt by one statement as a busy round of the former has.
ROUNDS, TABLES = 50, 20
# Within so long the two begin: a cancellation takes about as long, so that either may come first.
SPREAD_SECONDS = 0.004


class Table(NamedTuple):
    """A full table, and somebody at it who thinks better of it."""

    table_id: UUID
    people: Sequence[QuickTicket]
    fickle: QuickTicket
    # Its time is over: it is dealt with whoever is left, instead of only when it is full.
    overdue: bool

    @property
    def seats_min(self) -> int:
        return 1 if self.overdue else SEATS


@pytest.fixture
async def store(database: Database) -> AsyncIterator[PostgresQuickPlay]:
    async with await open_pool(database.dsn("matchmaker"), "matchmaker") as pool:
        yield PostgresQuickPlay(pool)


async def full_tables(store: PostgresQuickPlay, turn: Turn, chance: random.Random) -> list[Table]:
    people = await store.add([asked_for(uuid4(), POOL) for _ in range(TABLES * SEATS)])
    tables = []
    decisions: list[Decision] = []
    for number in range(TABLES):
        group = people[number * SEATS : (number + 1) * SEATS]
        table = Table(uuid4(), group, chance.choice(group), overdue=number % 2 == 1)
        first, *others = group
        decisions += [Opened(first, table.table_id), *(Seated(each, table.table_id) for each in others)]
        tables.append(table)
    await store.seat(turn, decisions)
    return tables


async def deal(store: PostgresQuickPlay, turn: Turn, tables: Sequence[Table]) -> dict[UUID, set[UUID]]:
    """Who is dealt with, by table."""
    dealt: dict[UUID, set[UUID]] = {table.table_id: set() for table in tables}
    for ticket in await store.begin_deal(turn, {table.table_id: table.seats_min for table in tables}):
        assert ticket.table_id is not None and ticket.state is State.DEALING
        dealt[ticket.table_id].add(ticket.account)
    return dealt


async def cancel(store: PostgresQuickPlay, table: Table, after_seconds: float = 0) -> bool:
    """Whether it came in time."""
    await asyncio.sleep(after_seconds)
    ticket = await store.cancel(table.fickle.account, table.fickle.ticket_id)
    assert ticket is None or ticket.state is State.DEALING
    return ticket is None


async def check(
    store: PostgresQuickPlay, tables: Sequence[Table], dealt: Mapping[UUID, set[UUID]], left: Sequence[bool]
) -> None:
    """Everybody is where they must be by who left in time."""
    accounts = [ticket.account for table in tables for ticket in table.people]
    now = {ticket.account: ticket.state for ticket in await store.tickets(accounts)}
    for table, has_left in zip(tables, left, strict=True):
        everybody = {ticket.account for ticket in table.people}
        stay = everybody - {table.fickle.account} if has_left else everybody
        is_dealt = table.overdue or not has_left
        assert dealt[table.table_id] == (stay if is_dealt else set())
        states = {account: now[account] for account in everybody if account in now}
        assert states == dict.fromkeys(stay, State.DEALING if is_dealt else State.SEATED)


async def test_who_cancels_at_the_deal_is_out_or_plays_and_no_full_table_is_dealt_short(
    store: PostgresQuickPlay,
) -> None:
    chance = random.Random(7)
    turn = await store.take_turn(POOL)
    assert turn is not None
    for _ in range(ROUNDS):
        tables = await full_tables(store, turn, chance)
        cancelling = asyncio.gather(*(cancel(store, table, chance.uniform(0, SPREAD_SECONDS)) for table in tables))
        dealt, left = await asyncio.gather(deal(store, turn, tables), cancelling)
        await check(store, tables, dealt, left)


async def test_the_two_orders(store: PostgresQuickPlay) -> None:
    """What comes of each order where there is no race."""
    turn = await store.take_turn(POOL)
    assert turn is not None
    tables = await full_tables(store, turn, random.Random(7))
    early, late = tables[: TABLES // 2], tables[TABLES // 2 :]
    assert all([await cancel(store, table) for table in early])
    dealt = await deal(store, turn, tables)
    assert not any([await cancel(store, table) for table in late])
    await check(store, tables, dealt, [table in early for table in tables])
