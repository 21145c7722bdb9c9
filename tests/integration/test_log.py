"""The event log on a real Postgres: what becomes of a row, alone and among others."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import pytest
import uuid_utils.compat as uuids

from chassis.database import Pool, open_pool
from chassis.log import Append, AppendResult, GroupWriter, LogReader, Row, chain_start, first_broken
from tests.conftest import Database
from tests.streams import Stream


@pytest.fixture
async def pool(module_database: Database) -> AsyncIterator[Pool]:
    pool = await open_pool(module_database.dsn("table"), "test")
    yield pool
    await pool.close()


@pytest.fixture
async def writer(module_database: Database) -> AsyncIterator[GroupWriter]:
    async with GroupWriter(module_database.dsn("table")) as writer:
        yield writer


async def test_rows_of_many_streams_are_chained_and_read_back(writer: GroupWriter, pool: Pool) -> None:
    streams = [Stream() for _ in range(50)]
    command_ids: dict[UUID, UUID] = {}
    for _ in range(4):
        rows = [stream.next(command_id=uuid4()) for stream in streams]
        assert set(await asyncio.gather(*map(writer.append, rows))) == {AppendResult.COMMITTED}
        for stream, row in zip(streams, rows, strict=True):
            stream.follow(row)
            assert row.command_id is not None
            command_ids[stream.id] = row.command_id

    reader = LogReader(pool)
    for stream in streams:
        stored = await reader.read(stream.id)
        assert [row.version for row in stored] == [1, 2, 3, 4]
        assert first_broken(stream.id, stored) is None
        assert await reader.head(stream.id) == stored[-1]
        assert await reader.read(stream.id, 1, 2) == stored[1:3]
        assert await reader.find_command(stream.id, command_ids[stream.id]) == stored[-1]
        assert await reader.find_command(stream.id, uuid4()) is None
    unknown = uuids.uuid7()
    assert await reader.versions([streams[0].id, unknown]) == {streams[0].id: 4}
    assert await reader.head(unknown) is None
    assert await reader.read(unknown) == []
    # Rows that came while a statement was under way went together.
    assert writer.counts.batches < 200


async def test_a_writer_that_waits_is_cut_off_by_no_clock(writer: GroupWriter, pool: Pool) -> None:
    """Its first row may come long after it has connected: the server must not take it to be in a statement."""
    async with asyncio.timeout(60):
        while not writer.connected:
            await asyncio.sleep(0.01)
        states = "select state from pg_stat_activity where application_name = 'levata log writer' and datname = $1"
        database = await pool.fetchval("select current_database()")
        while [record["state"] for record in await pool.fetch(states, database)] != ["idle"]:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("change", ["flip", "drop", "swap"])
def test_a_tampered_log_is_found_out(change: str) -> None:
    stream = Stream()
    stored = []
    for number in range(5):
        row = stream.next(b"move %d" % number)
        stream.follow(row)
        stored.append(Row(row.version, row.kinds, row.payload, row.chain, None, None, 0))
    assert first_broken(stream.id, stored) is None
    match change:
        case "flip":
            stored[2].payload = b"move X"
        case "drop":
            del stored[2]
        case "swap":
            stored[2].payload, stored[3].payload = stored[3].payload, stored[2].payload
    assert first_broken(stream.id, stored) == 3


async def test_a_taken_version_is_beaten_and_others_in_the_batch_are_not(writer: GroupWriter, pool: Pool) -> None:
    taken, free = Stream(), Stream()
    first, second = taken.next(b"first"), taken.next(b"second")
    assert await writer.append(first) is AppendResult.COMMITTED
    results = await asyncio.gather(writer.append(second), writer.append(free.next()))
    assert list(results) == [AppendResult.BEATEN, AppendResult.COMMITTED]
    assert [row.payload for row in await LogReader(pool).read(taken.id)] == [b"first"]


async def test_a_row_on_top_of_another_past_is_beaten(writer: GroupWriter, pool: Pool) -> None:
    seen = Stream()
    real = Stream(seen.id)
    row = real.next(b"what happened")
    assert await writer.append(row) is AppendResult.COMMITTED
    # Version 2 is free, but its writer believes in another version 1.
    seen.follow(seen.next(b"what its writer believes"))
    assert await writer.append(seen.next()) is AppendResult.BEATEN
    # So is a row that leaves a hole.
    real.follow(row)
    real.follow(real.next(b"never written"))
    assert await writer.append(real.next()) is AppendResult.BEATEN
    assert len(await LogReader(pool).read(seen.id)) == 1


async def test_a_command_is_applied_once(writer: GroupWriter) -> None:
    stream, command_id = Stream(), uuid4()
    row = stream.next(command_id=command_id)
    assert await writer.append(row) is AppendResult.COMMITTED
    stream.follow(row)
    assert await writer.append(stream.next(command_id=command_id)) is AppendResult.BEATEN
    # In another game the same id is another command.
    assert await writer.append(Stream().next(command_id=command_id)) is AppendResult.COMMITTED


async def test_rows_of_one_stream_never_share_a_batch(writer: GroupWriter, pool: Pool) -> None:
    stream = Stream()
    rows: list[Append] = []
    for _ in range(20):
        rows.append(stream.next())
        stream.follow(rows[-1])
    assert set(await asyncio.gather(*map(writer.append, rows))) == {AppendResult.COMMITTED}
    assert first_broken(stream.id, await LogReader(pool).read(stream.id)) is None
    assert writer.counts.batches == 20


@pytest.mark.parametrize("bad", ["no partition", "not bytes", "short chain"])
async def test_a_bad_row_fails_alone(writer: GroupWriter, bad: str) -> None:
    row = Stream().next(facts=1)
    match bad:
        case "no partition":
            row = Stream(UUID(int=7)).next(facts=1)
        case "not bytes":
            row.payload = "text"  # type: ignore[assignment]
        case "short chain":
            row.chain = b"short"
    rows = [Stream().next(facts=1) for _ in range(100)]
    rows.insert(63, row)
    results = await asyncio.gather(*map(writer.append, rows))
    assert results.pop(63) is AppendResult.FAILED
    assert set(results) == {AppendResult.COMMITTED}
    assert await writer.append(Stream().next()) is AppendResult.COMMITTED


async def test_a_cancelled_caller_does_not_cancel_the_append(writer: GroupWriter, pool: Pool) -> None:
    stream = Stream()
    caller = asyncio.create_task(writer.append(stream.next()))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    # Behind the cancelled one in the same queue.
    assert await writer.append(Stream().next()) is AppendResult.COMMITTED
    assert await LogReader(pool).head(stream.id) is not None


async def test_a_callback_that_fails_stops_nobody(writer: GroupWriter) -> None:
    answered: list[AppendResult] = []

    def fail(result: AppendResult) -> None:
        answered.append(result)
        raise RuntimeError("a fault in the caller")

    writer.submit(Stream().next(), fail)
    assert await writer.append(Stream().next()) is AppendResult.COMMITTED
    assert answered == [AppendResult.COMMITTED]


async def test_stop_writes_what_waits_and_answers_what_comes_later(module_database: Database) -> None:
    writer = GroupWriter(module_database.dsn("table"))
    await writer.start()
    appends = [asyncio.create_task(writer.append(Stream().next())) for _ in range(30)]
    await asyncio.sleep(0)
    await writer.stop()
    assert {await append for append in appends} == {AppendResult.COMMITTED}
    assert await writer.append(Stream().next()) is AppendResult.UNKNOWN


async def test_nothing_waits_for_ever_without_postgres() -> None:
    async with GroupWriter("postgresql://nobody@127.0.0.1:1/nowhere") as writer:
        results = await asyncio.gather(*(writer.append(Stream().next()) for _ in range(5)))
    assert set(results) == {AppendResult.UNKNOWN}


async def test_more_than_may_wait_is_answered_at_once(module_database: Database) -> None:
    async with GroupWriter(module_database.dsn("table"), waiting_rows_max=3) as writer:
        results = await asyncio.gather(*(writer.append(Stream().next()) for _ in range(5)))
    assert results == [AppendResult.COMMITTED] * 3 + [AppendResult.UNKNOWN] * 2


async def test_a_transaction_a_row_on_many_connections_is_the_same_log(module_database: Database, pool: Pool) -> None:
    streams = [Stream() for _ in range(40)]
    last = await pool.fetchval("select last from fact_head")
    async with GroupWriter(module_database.dsn("table"), connections=4, batch_rows_max=1) as writer:
        for _ in range(3):
            rows = [stream.next(facts=1) for stream in streams]
            assert set(await asyncio.gather(*map(writer.append, rows))) == {AppendResult.COMMITTED}
            for stream, row in zip(streams, rows, strict=True):
                stream.follow(row)
    assert writer.counts.batches == 120
    facts = await pool.fetch("select fact_no from facts order by fact_no")
    assert [fact["fact_no"] for fact in facts] == list(range(1, last + 121))


async def test_rows_without_facts_do_not_wait_for_the_fact_head(writer: GroupWriter, module_database: Database) -> None:
    other = await asyncpg.connect(module_database.dsn("table"))
    try:
        async with other.transaction():
            await other.execute("select from fact_head for update")
            assert await writer.append(Stream().next()) is AppendResult.COMMITTED
            waiting = asyncio.create_task(writer.append(Stream().next(facts=1)))
            # Whoever publishes does wait.
            while not await other.fetchval("select count(*) from pg_locks where not granted"):
                await asyncio.sleep(0.01)
            assert not waiting.done()
        assert await waiting is AppendResult.COMMITTED
    finally:
        await other.close()


async def test_facts_of_beaten_rows_are_not_published(writer: GroupWriter, pool: Pool) -> None:
    taken, free = Stream(), Stream()
    last = await pool.fetchval("select last from fact_head")
    assert await writer.append(taken.next(b"first")) is AppendResult.COMMITTED
    await asyncio.gather(writer.append(taken.next(b"second", facts=2)), writer.append(free.next(facts=3)))
    # All are beaten: the head stays where it is.
    assert await writer.append(taken.next(b"third", facts=2)) is AppendResult.BEATEN
    facts = await pool.fetch("select fact_no, subject, payload from facts where fact_no > $1 order by fact_no", last)
    assert [tuple(fact) for fact in facts] == [
        (last + place + 1, f"levata.games.finished.{free.id}", b"1.%d" % place) for place in range(3)
    ]
    assert await pool.fetchval("select last from fact_head") == last + 3


async def test_the_writer_commits_synchronously_whatever_the_default(database: Database) -> None:
    admin = await asyncpg.connect(database.admin_dsn)
    await admin.execute(f'alter database "{database.name}" set synchronous_commit = off')
    await admin.close()
    seen: list[str] = []

    async def connect() -> "asyncpg.Connection[asyncpg.Record]":
        connection = await asyncpg.connect(database.dsn("table"))
        connections.append(connection)
        return connection

    connections: list[asyncpg.Connection[asyncpg.Record]] = []
    async with GroupWriter(connect) as writer:
        assert await writer.append(Stream().next()) is AppendResult.COMMITTED
        seen.append(await connections[0].fetchval("show synchronous_commit"))
    assert seen == ["on"]


async def test_reads_and_appends_touch_one_partition(module_database: Database) -> None:
    connection = await asyncpg.connect(module_database.dsn("table"))
    plan = "\n".join(
        row[0]
        for row in await connection.fetch(
            f"explain select * from game_log where game_id = '{uuids.uuid7()}' and version > 3"
        )
    )
    await connection.close()
    assert plan.count("Scan") == 1


def test_a_chain_starts_from_the_stream() -> None:
    assert chain_start(UUID(int=1)) != chain_start(UUID(int=2))


async def test_an_append_never_reads_the_whole_log(database: Database) -> None:
    """Its plan is made while the log is empty and reading all of it looks cheap: docs/decisions/log-predecessor.md."""
    async with GroupWriter(database.dsn("table")) as writer:
        streams = [Stream() for _ in range(20)]
        for _ in range(20):
            rows = [stream.next() for stream in streams]
            assert set(await asyncio.gather(*map(writer.append, rows))) == {AppendResult.COMMITTED}
            for stream, row in zip(streams, rows, strict=True):
                stream.follow(row)
    # The writer's backend has reported what it did when it is gone.
    connection = await asyncpg.connect(database.admin_dsn)
    try:
        while await connection.fetchval(
            "select count(*) from pg_stat_activity where application_name = 'levata log writer'"
            " and datname = current_database()"
        ):
            await asyncio.sleep(0.05)
        scans = await connection.fetch(
            "select relname, seq_scan from pg_stat_user_tables where relname like 'game_log_%' and n_tup_ins > 0"
        )
    finally:
        await connection.close()
    assert scans
    assert all(row["seq_scan"] == 0 for row in scans), scans
