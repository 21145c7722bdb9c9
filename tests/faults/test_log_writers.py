"""Writers of one log that race, are cut off, and are killed: the log stays sound, and each is told the truth.

A failing run prints its seed; the schedule of the machine is not part of it.
"""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from chassis.database import Pool, open_pool
from chassis.facts import Fact, FactLog
from chassis.log import AppendResult, GroupWriter, LogReader, first_broken
from tests.conftest import Database
from tests.streams import Stream

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]


async def load(reader: LogReader, stream_id: UUID) -> Stream:
    """A stream as the log has it."""
    stream = Stream(stream_id)
    if head := await reader.head(stream_id):
        stream.version, stream.chain = head.version, head.chain
    return stream


async def check_log(pool: Pool, streams: set[UUID]) -> int:
    """No hole, no broken chain, in every stream; answers the number of rows."""
    reader = LogReader(pool)
    rows = 0
    for stream_id in streams:
        stored = await reader.read(stream_id)
        assert first_broken(stream_id, stored) is None, f"{stream_id} is broken"
        rows += len(stored)
    return rows


async def check_facts(pool: Pool) -> None:
    """Numbers without holes, up to the head; each row's facts together and in order."""
    facts: list[Fact] = []
    while (page := await FactLog(pool).read(len(facts))).facts:
        facts += page.facts
    assert [fact.number for fact in facts] == list(range(1, len(facts) + 1))
    assert (await FactLog(pool).head()).last == len(facts)
    # Every row of these tests has two facts, 1.0 and 1.1 of version 1 and so on.
    published = [(fact.subject.rpartition(".")[2], fact.payload) for fact in facts]
    assert await pool.fetchval("select count(*) from game_log") * 2 == len(published) == len(set(published))
    for (game, first), (same_game, second) in zip(published[::2], published[1::2], strict=True):
        assert game == same_game
        assert first.endswith(b".0") and second == first[:-1] + b"1"


@pytest.mark.parametrize("seed", range(2))
async def test_three_hosts_race_to_append_to_the_same_games(database: Database, seed: int) -> None:
    """Each believes that the games are its own; what it is told is COMMITTED only if it is in the log."""
    pool = await open_pool(database.dsn("table"), "test")
    games = {Stream().id for _ in range(20)}
    outcomes: Counter[AppendResult] = Counter()
    acknowledged: list[tuple[UUID, int, bytes]] = []

    async def host(chance: random.Random) -> None:
        reader = LogReader(pool)
        async with GroupWriter(database.dsn("table")) as writer:
            owned = [await load(reader, game) for game in games]

            async def play(stream: Stream) -> None:
                for _ in range(15):
                    await asyncio.sleep(chance.choice((0, 0, 0, 0.01)))
                    row = stream.next(chance.randbytes(20), facts=2)
                    result = await writer.append(row)
                    outcomes[result] += 1
                    if result is AppendResult.COMMITTED:
                        acknowledged.append((row.stream, row.version, row.chain))
                        stream.follow(row)
                    else:
                        seen = await load(reader, stream.id)
                        stream.version, stream.chain = seen.version, seen.chain

            await asyncio.gather(*map(play, owned))

    await asyncio.gather(*(host(random.Random(seed * 10 + number)) for number in range(3)))
    # They did race, and nobody was refused for another reason.
    assert outcomes[AppendResult.BEATEN] > 0
    assert set(outcomes) == {AppendResult.COMMITTED, AppendResult.BEATEN}
    assert await check_log(pool, games) == outcomes[AppendResult.COMMITTED] == len(acknowledged)
    chains = {(row["game_id"], row["version"], row["chain"]) for row in await pool.fetch("select * from game_log")}
    assert set(acknowledged) == chains
    await check_facts(pool)
    await pool.close()


@pytest.mark.parametrize("seed", range(2))
async def test_a_connection_lost_at_any_moment_leaves_no_doubt(database: Database, seed: int) -> None:
    """UNKNOWN and then a look at the log is the truth: what is not there then never comes."""
    chance = random.Random(seed)
    pool = await open_pool(database.dsn("table"), "test")
    reader = LogReader(pool)
    outcomes: Counter[AppendResult] = Counter()
    kept = 0
    stop = False

    async def play(writer: GroupWriter, stream: Stream) -> None:
        nonlocal kept
        while not stop:
            row = stream.next(os.urandom(200), facts=2)
            result = await writer.append(row)
            outcomes[result] += 1
            if result is not AppendResult.COMMITTED:
                assert result is AppendResult.UNKNOWN
                head = await reader.head(stream.id)
                if head is None or head.chain != row.chain:
                    assert (head.chain if head else Stream(stream.id).chain) == row.previous_chain
                    continue
            # As committed as if the answer had come.
            stream.follow(row)
            kept += 1

    async with GroupWriter(database.dsn("table")) as writer:
        streams = [Stream() for _ in range(100)]
        players = [asyncio.create_task(play(writer, stream)) for stream in streams]
        admin = await asyncpg.connect(database.admin_dsn)
        for _ in range(12):
            await asyncio.sleep(chance.uniform(0.05, 0.25))
            await admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name = 'levata log writer'"
            )
        await admin.close()
        # However little time there was between them to write anything.
        async with asyncio.timeout(60):
            while not outcomes[AppendResult.COMMITTED]:
                await asyncio.sleep(0.01)
        stop = True
        await asyncio.gather(*players)
    assert outcomes[AppendResult.UNKNOWN] > 0
    assert outcomes[AppendResult.COMMITTED] > 0
    assert await check_log(pool, {stream.id for stream in streams}) == kept
    await check_facts(pool)
    await pool.close()


async def test_a_statement_that_was_cut_off_does_not_commit_behind_ones_back(database: Database) -> None:
    """The connection breaks on our side only; the server is still at it, waiting for a lock."""
    blocker = await asyncpg.connect(database.dsn("table"))
    transaction = blocker.transaction()
    await transaction.start()
    await blocker.execute("select from fact_head for update")
    made: list[asyncpg.Connection[asyncpg.Record]] = []

    async def connect() -> "asyncpg.Connection[asyncpg.Record]":
        made.append(await asyncpg.connect(database.dsn("table")))
        return made[-1]

    stream = Stream()
    async with GroupWriter(connect) as writer:
        append = asyncio.create_task(writer.append(stream.next(facts=1)))
        while not await blocker.fetchval(
            "select count(*) from pg_locks join pg_stat_activity using (pid)"
            " where not granted and datname = current_database()"
        ):
            await asyncio.sleep(0.01)
        made[0].terminate()
        assert await append is AppendResult.UNKNOWN
        await transaction.rollback()
        # Had its backend lived on, the row would be there now or soon.
        assert await writer.append(Stream().next(facts=1)) is AppendResult.COMMITTED
        assert await blocker.fetchval("select count(*) from game_log where game_id = $1", stream.id) == 0
        assert await blocker.fetchval("select last from fact_head") == 1
    await blocker.close()


async def test_writer_processes_killed_and_started_again_leave_a_sound_log(database: Database) -> None:
    """Three processes, each killed with SIGKILL again and again; what they had told as committed is there."""
    pool = await open_pool(database.dsn("table"), "test")
    told: set[tuple[UUID, int]] = set()
    chance = random.Random(0)

    async def life(number: int) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.faults.writer_process", database.dsn("table"),
            cwd=ROOT, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        lines = 0
        deadly = chance.randrange(20, 200)
        async for line in process.stdout:
            stream, version = line.split()
            told.add((UUID(stream.decode()), int(version)))
            lines += 1
            if lines == deadly:
                process.send_signal(signal.SIGKILL)
        assert await process.wait() == -signal.SIGKILL

    for _ in range(3):
        await asyncio.gather(*map(life, range(3)))
    # What a killed one had sent may be committed all the same, a little later.
    async with asyncio.timeout(60):
        while await pool.fetchval(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and application_name = 'levata log writer'"
        ):
            await asyncio.sleep(0.02)
    stored = {(row["game_id"], row["version"]) for row in await pool.fetch("select game_id, version from game_log")}
    assert told <= stored
    assert await check_log(pool, {stream for stream, _ in stored}) == len(stored)
    await check_facts(pool)
    await pool.close()
