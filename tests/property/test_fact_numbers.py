"""Numbers of facts have no holes and run in the order of commits, whatever writers do; readers see each once.

Three writers append at once, with pauses between a statement and its commit, with transactions that are rolled back,
and with connections that are lost. Readers only ever ask for what comes after the last number that they saw. The same
checks must find something when numbers are taken outside the append's own transaction.
"""

import asyncio
import itertools
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import asyncpg
import pytest

from chassis.database import Connection
from chassis.facts import Fact, FactLog
from chassis.log import Append, Appender, AppendStatements
from tests.conftest import Database
from tests.streams import Stream

WRITERS = 3
READERS = 2
APPENDS = 60
STATEMENTS = AppendStatements("game_log", "game_id")


class Numbering(Protocol):
    """A way of appending a row with its facts, inside a transaction of `appender`'s connection."""

    async def __call__(self, appender: Appender, row: Append, outside: Connection) -> None: ...


async def by_the_append(appender: Appender, row: Append, outside: Connection) -> None:
    """As the log does it."""
    assert await appender.insert([row]) == {row.stream}


async def before_the_append(appender: Appender, row: Append, outside: Connection) -> None:
    """Numbers are taken in a transaction of their own, as a sequence would give them."""
    last = await outside.fetchval("update fact_head set last = last + $1 returning last", len(row.facts))
    facts, row.facts = row.facts, ()
    assert await appender.insert([row]) == {row.stream}
    for number, fact in enumerate(facts, start=last - len(facts) + 1):
        await appender.raw.execute(
            "insert into facts (fact_no, subject, payload, at) values ($1, $2, $3, levata_now())",
            number,
            fact.subject,
            fact.payload,
        )


class GivenUp(Exception):
    """A transaction that is rolled back."""


async def write(dsn: str, numbering: Numbering, chance: random.Random, committed: set[bytes]) -> None:
    """Append rows of many streams; `committed` gets the facts of those that were."""
    appender = await STATEMENTS.prepare(await asyncpg.connect(dsn))
    outside = await asyncpg.connect(dsn)
    for _ in range(APPENDS):
        row = Stream().next(facts=chance.choice((1, 1, 1, 2, 5)))
        names = {b"%s %s" % (fact.subject.encode(), fact.payload) for fact in row.facts}
        with suppress(GivenUp, asyncpg.InterfaceError):
            async with appender.raw.transaction():
                await asyncio.sleep(chance.choice((0, 0, 0.005)))
                await numbering(appender, row, outside)
                await asyncio.sleep(chance.choice((0, 0, 0, 0.01, 0.03)))
                match chance.random():
                    case fate if fate < 0.1:
                        raise GivenUp
                    case fate if fate < 0.15:
                        # The writer is killed; the server rolls back.
                        appender.terminate()
                        raise GivenUp
            committed |= names
        if appender.raw.is_closed():
            appender = await STATEMENTS.prepare(await asyncpg.connect(dsn))
    await appender.raw.close()
    await outside.close()


async def read(dsn: str, chance: random.Random, written: Callable[[], bool]) -> list[Fact]:
    """Follow the log from its beginning until nothing comes any more; now and then start over from the last number."""
    connection = await asyncpg.connect(dsn)
    seen: list[Fact] = []
    while True:
        last_round = written()
        page = await FactLog(connection).read(seen[-1].number if seen else 0, chance.choice((1, 10, 1000)))
        seen += page.facts
        if last_round and not page.facts:
            await connection.close()
            return seen
        if chance.random() < 0.05:
            await connection.close()
            connection = await asyncpg.connect(dsn)
        await asyncio.sleep(chance.choice((0, 0.002, 0.02)))


def violations(seen: list[Fact], committed: set[bytes]) -> list[str]:
    """What a reader saw that must not be."""
    found = []
    for earlier, later in itertools.pairwise(seen):
        if later.number != earlier.number + 1:
            found.append(f"a hole between {earlier.number} and {later.number}")
        if later.at_us < earlier.at_us:
            found.append(f"time runs back at {later.number}")
    names = [b"%s %s" % (fact.subject.encode(), fact.payload) for fact in seen]
    if len(set(names)) != len(names):
        found.append("facts seen twice")
    if missed := committed - set(names):
        found.append(f"{len(missed)} facts missed")
    if invented := set(names) - committed:
        found.append(f"{len(invented)} facts that were never committed")
    return found


async def violations_of(database: Database, numbering: Numbering, seed: int) -> list[str]:
    """Let writers and readers run, and check what each reader saw."""
    chance = random.Random(seed)
    dsn = database.dsn("table")
    committed: set[bytes] = set()
    writers = [
        asyncio.create_task(write(dsn, numbering, random.Random(chance.random()), committed)) for _ in range(WRITERS)
    ]
    readers = [
        asyncio.create_task(read(dsn, random.Random(chance.random()), lambda: all(task.done() for task in writers)))
        for _ in range(READERS)
    ]
    await asyncio.gather(*writers)
    return [violation for seen in await asyncio.gather(*readers) for violation in violations(seen, committed)]


@pytest.mark.parametrize("seed", range(3))
async def test_numbers_by_the_append_have_no_holes_and_are_seen_once(database: Database, seed: int) -> None:
    assert await violations_of(database, by_the_append, seed) == []


async def test_numbers_taken_outside_are_found_out(database: Database) -> None:
    admin = await asyncpg.connect(database.admin_dsn)
    # They would be refused at once.
    await admin.execute("alter table tables.facts disable trigger guard")
    await admin.execute("alter table tables.fact_head disable trigger kept")
    await admin.close()
    found = await violations_of(database, before_the_append, seed=0)
    assert any("missed" in violation for violation in found)
    assert any("hole" in violation for violation in found)


async def test_numbers_taken_outside_are_refused(database: Database) -> None:
    appender = await STATEMENTS.prepare(await asyncpg.connect(database.dsn("table")))
    outside = await asyncpg.connect(database.dsn("table"))
    with pytest.raises(asyncpg.RestrictViolationError):
        await before_the_append(appender, Stream().next(facts=1), outside)
    await appender.raw.close()
    await outside.close()
