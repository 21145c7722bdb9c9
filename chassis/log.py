"""The event log: one row per commit of a stream, chained by hashes, appended in groups.

A row counts only on top of what its writer has seen: the statement that inserts it demands the predecessor's version
and chain, and the primary key lets one row have each version. So two hosts of one game cannot both write, with no lease
involved. Facts for other services are numbered by the same statement (see `chassis.facts`). Knows nothing of what is in
a payload.
"""

import asyncio
import hashlib
import struct
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Final, NamedTuple, Self, TypeAlias
from uuid import UUID

import asyncpg
import structlog

from chassis.database import CONNECT_SECONDS, STATEMENT_SECONDS, Connection, Pool, is_trouble, session_settings
from chassis.figures import SECONDS, Histogram
from chassis.tasks import end

log = structlog.get_logger(__name__)

# The plan of an append is made once a connection, perhaps while the log is empty: then reading the whole log for a
# predecessor looks cheap, and each append costs more than the one before until Postgres next counts the table's rows.
_BY_KEY: Final = {"enable_seqscan": "off"}

BATCH_ROWS_MAX: Final = 512
# Bounds of the figures: how many rows the statements have.
BATCH_ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, BATCH_ROWS_MAX)
# More than this waits only when Postgres is far behind; each game has one row under way, so it is some 20,000 games.
WAITING_ROWS_MAX: Final = 20_000
RECONNECT_SECONDS_MIN: Final = 0.05
RECONNECT_SECONDS_MAX: Final = 1.0
# How long the backend of a lost connection may take to end, before its rows are answered.
BACKEND_END_SECONDS: Final = 2

_CHAINED_NUMBERS: Final = struct.Struct(">II")


def chain_start(stream: UUID) -> bytes:
    """What the first row of a stream is chained to."""
    return hashlib.sha256(stream.bytes).digest()


def next_chain(previous: bytes, version: int, kinds: int, payload: bytes) -> bytes:
    """SHA-256 of the previous chain, version and kinds as unsigned 32-bit big-endian integers, and the payload."""
    return hashlib.sha256(previous + _CHAINED_NUMBERS.pack(version, kinds) + payload).digest()


@dataclass(slots=True)
class NewFact:
    """Something that other services must hear of: the bytes as they are published, and the NATS subject."""

    subject: str
    payload: bytes


@dataclass(slots=True)
class Append:
    """One row to be."""

    stream: UUID
    version: int
    kinds: int
    payload: bytes
    previous_chain: bytes
    chain: bytes
    command_id: UUID | None = None
    input_hash: bytes | None = None
    facts: tuple[NewFact, ...] = ()


class AppendResult(Enum):
    """What became of a row."""

    # It is in the log, durably.
    COMMITTED = "committed"
    # It is not: the version is taken, its predecessor is another than the writer saw, or the command id was there.
    BEATEN = "beaten"
    # The connection was lost or never there. Reload: if the stored chain at that version is the row's, it is in.
    UNKNOWN = "unknown"
    # It is not: Postgres or its driver refuses this row, also alone.
    FAILED = "failed"


Done: TypeAlias = Callable[[AppendResult], None]
_Entry: TypeAlias = tuple[Append, Done]


@dataclass(slots=True)
class Row:
    """One commit as it was stored."""

    version: int
    kinds: int
    payload: bytes
    chain: bytes
    command_id: UUID | None
    input_hash: bytes | None
    recorded_at_us: int


def first_broken(stream: UUID, rows: Sequence[Row]) -> int | None:
    """The first version that is missing or does not follow from the one before; None for a sound log from version 1."""
    chain = chain_start(stream)
    for version, row in enumerate(rows, start=1):
        chain = next_chain(chain, version, row.kinds, row.payload)
        if row.version != version or row.chain != chain:
            return version
    return None


class LogReader:
    """Reads a log table."""

    def __init__(self, pool: Pool, *, table: str = "game_log", stream_column: str = "game_id") -> None:
        _check_names(table, stream_column)
        self._pool = pool
        rows = f"""
            select version, kinds, payload, chain, command_id, input_hash,
                   (extract(epoch from recorded_at) * 1000000)::bigint as recorded_at_us
            from {table} where {stream_column} = $1"""
        self._read = f"{rows} and version > $2 order by version limit $3"
        self._find_command = f"{rows} and command_id = $2"
        self._head = f"{rows} order by version desc limit 1"
        self._versions = f"""
            select s.stream, h.version
            from unnest($1::uuid[]) as s (stream)
            cross join lateral (
                select version from {table} where {stream_column} = s.stream order by version desc limit 1
            ) as h"""
        self._of_kinds = f"""
            select {stream_column}, version, kinds, payload, chain, command_id, input_hash,
                   (extract(epoch from recorded_at) * 1000000)::bigint as recorded_at_us
            from {table} where {stream_column} = any($1) and kinds & %d <> 0 order by {stream_column}, version"""

    async def read(self, stream: UUID, after_version: int = 0, limit: int | None = None) -> list[Row]:
        """Rows after a version, oldest first; without a limit all of them."""
        return [_row(record) for record in await self._pool.fetch(self._read, stream, after_version, limit)]

    async def head(self, stream: UUID) -> Row | None:
        """The newest row."""
        record = await self._pool.fetchrow(self._head, stream)
        return None if record is None else _row(record)

    async def find_command(self, stream: UUID, command_id: UUID) -> Row | None:
        """The row that applied a command."""
        record = await self._pool.fetchrow(self._find_command, stream, command_id)
        return None if record is None else _row(record)

    async def versions(self, streams: Sequence[UUID]) -> dict[UUID, int]:
        """The newest versions of many streams in one query; a stream without rows is left out."""
        return {record["stream"]: record["version"] for record in await self._pool.fetch(self._versions, streams)}

    async def read_kinds(self, streams: Sequence[UUID], kinds: int) -> dict[UUID, list[Row]]:
        """Of many streams the rows in which any of these kinds is, oldest first; a stream without any is left out."""
        found: dict[UUID, list[Row]] = {}
        # The kinds are in the statement itself: only so can an index of just such rows serve it.
        for stream, *row in await self._pool.fetch(self._of_kinds % kinds, streams):
            found.setdefault(stream, []).append(Row(*row))
        return found


def _row(record: asyncpg.Record) -> Row:
    return Row(*record)


def _check_names(*names: str) -> None:
    """Names go into SQL as they are."""
    for name in names:
        if not name.isidentifier():
            raise ValueError(f"not a plain SQL name: {name!r}")


class AppendStatements:
    """The SQL of appending a batch."""

    def __init__(self, table: str, stream_column: str) -> None:
        _check_names(table, stream_column)
        # The predecessor is demanded of every row but the first; rows that were beaten simply do not come back. Its
        # chain is fetched as a value: `exists` behind an `or` may be answered from a hash of the whole log. Rows are
        # sorted by the caller, so that two batches take their locks in the same order.
        insert = f"""
            insert into {table}
                ({stream_column}, version, kinds, payload, chain, command_id, input_hash, recorded_at)
            select r.stream, r.version, r.kinds, r.payload, r.chain, r.command_id, r.input_hash, (select levata_now())
            from unnest(
                $1::uuid[], $2::int[], $3::int[], $4::bytea[], $5::bytea[], $6::bytea[], $7::uuid[], $8::bytea[]
            ) as r (stream, version, kinds, payload, previous_chain, chain, command_id, input_hash)
            where r.version = 1 or r.previous_chain = (
                select p.chain from {table} p where p.{stream_column} = r.stream and p.version = r.version - 1
            )
            on conflict do nothing
            returning {stream_column} as stream"""
        # Without facts the head, for which all writers of the log wait in turn, is left alone.
        self.plain = insert
        # What `numbered` reads makes the rows be inserted before the head is locked, so that all take locks in one
        # order. Numbers and time are computed from the head's newest version, after waiting for whoever holds it.
        self.with_facts = f"""
            with appended as ({insert}
            ), numbered as (
                select f.subject, f.payload, row_number() over (order by f.place) as nth, count(*) over () as total
                from unnest($9::uuid[], $10::text[], $11::bytea[])
                    with ordinality as f (stream, subject, payload, place)
                join appended using (stream)
            ), head as (
                update fact_head
                set last = last + (select count(*) from numbered), at = greatest(at, levata_now())
                where exists (select from numbered)
                returning last, at
            ), published as (
                insert into facts (fact_no, subject, payload, at)
                select head.last - numbered.total + numbered.nth, numbered.subject, numbered.payload, head.at
                from numbered cross join head
            )
            select stream from appended"""

    async def prepare(self, connection: Connection) -> "Appender":
        """Make a fresh connection ready."""
        try:
            await connection.execute(_SESSION)
            plain = await connection.prepare(self.plain)
            with_facts = await connection.prepare(self.with_facts)
            # Last, because only running a statement tells the server that this is all for now: after a mere `prepare`
            # its clock for statements runs, and the first append, should it come late, would be cut off by it.
            backend = await connection.fetchrow(_BACKEND)
            assert backend is not None
        except BaseException:
            connection.terminate()
            raise
        return Appender(connection, _Backend(*backend), plain, with_facts)


class _Backend(NamedTuple):
    """The server's end of a connection; the id alone may be given to another."""

    pid: int
    started_at: datetime


_BACKEND: Final = "select pid, backend_start from pg_stat_activity where pid = pg_backend_pid()"
# Waits for its end.
_END_BACKEND: Final = """
    select pg_terminate_backend(pid, $3) from pg_stat_activity where pid = $1 and backend_start = $2"""

_SESSION: Final = """
    -- Plans without regard to statistics: always index look-ups in one partition, also while the table is new.
    set plan_cache_mode = force_generic_plan;
    set enable_seqscan = off;
    -- Whatever the server's default is; a stricter one is kept.
    select set_config('synchronous_commit', 'on', false)
    where current_setting('synchronous_commit') in ('off', 'local')"""


class Appender:
    """A connection that is ready to insert batches; `GroupWriter` has one for each of its workers."""

    def __init__(
        self,
        raw: Connection,
        backend: _Backend,
        plain: "asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]",
        with_facts: "asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]",
    ) -> None:
        self.raw = raw
        self.backend = backend
        self._plain = plain
        self._with_facts = with_facts

    async def insert(self, rows: list[Append]) -> set[UUID]:
        """Insert rows in one transaction; answers the streams of those that are in."""
        columns = (
            [row.stream for row in rows],
            [row.version for row in rows],
            [row.kinds for row in rows],
            [row.payload for row in rows],
            [row.previous_chain for row in rows],
            [row.chain for row in rows],
            [row.command_id for row in rows],
            [row.input_hash for row in rows],
        )
        facts = [(row.stream, fact.subject, fact.payload) for row in rows if row.facts for fact in row.facts]
        if facts:
            records = await self._with_facts.fetch(*columns, *map(list, zip(*facts, strict=True)))
        else:
            records = await self._plain.fetch(*columns)
        return {record[0] for record in records}

    def terminate(self) -> None:
        """Close the connection without a word."""
        self.raw.terminate()


@dataclass(slots=True)
class WriterCounts:
    """What a writer has done so far."""

    batches: int = 0
    # Rows of each statement, and the seconds until it was committed.
    rows: Histogram = field(default_factory=lambda: Histogram(BATCH_ROWS))
    seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    results: dict[AppendResult, int] = field(default_factory=lambda: dict.fromkeys(AppendResult, 0))


class GroupWriter:
    """Appends the rows of all streams of a process.

    Rows that come in while a statement is under way make the next one: there is no timer, and a lone row goes at once.
    `connections` and `batch_rows_max` are for comparison: 16 and 1 make a transaction per row on sixteen connections.
    """

    def __init__(
        self,
        connect: str | Callable[[], Awaitable[Connection]],
        *,
        table: str = "game_log",
        stream_column: str = "game_id",
        connections: int = 1,
        batch_rows_max: int = BATCH_ROWS_MAX,
        waiting_rows_max: int = WAITING_ROWS_MAX,
        on_facts: Callable[[], None] | None = None,
    ) -> None:
        """`connect` is a DSN, or makes a connection. `on_facts` is called after each commit that published facts."""
        self._connect = connect if callable(connect) else partial(_connect, connect)
        self._statements = AppendStatements(table, stream_column)
        self._connections = connections
        self._batch_rows_max = batch_rows_max
        self._waiting_rows_max = waiting_rows_max
        self._on_facts = on_facts
        self._waiting: deque[_Entry] = deque()
        # Streams that have a row under way; the next row of such a stream waits for the outcome.
        self._busy: set[UUID] = set()
        # Workers with nothing to do.
        self._idle: deque[asyncio.Future[None]] = deque()
        self._workers: list[asyncio.Task[None]] = []
        self._connected = 0
        self._accepting = False
        self.counts = WriterCounts()

    @property
    def connected(self) -> bool:
        """Whether rows can be written now."""
        return self._connected > 0

    @property
    def waiting(self) -> int:
        """Rows that wait for the statement under way."""
        return len(self._waiting)

    async def start(self) -> None:
        """Begin to write. Returns at once; rows wait for the connection."""
        assert not self._workers, "started twice"
        self._accepting = True
        self._workers = [asyncio.create_task(self._work(), name="log writer") for _ in range(self._connections)]

    async def stop(self, seconds: float = STATEMENT_SECONDS) -> None:
        """Write what waits and end; what cannot be written in time is answered UNKNOWN, and so is what comes later."""
        self._accepting = False
        self._wake(len(self._idle))
        if self._workers:
            _, late = await asyncio.wait(self._workers, timeout=seconds)
            await asyncio.gather(*map(end, late))
            self._workers = []
        self._give_up_waiting()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def submit(self, row: Append, done: Done) -> None:
        """Append `row`; `done` is called with the result, on the loop, right after the commit."""
        if not self._accepting or len(self._waiting) >= self._waiting_rows_max:
            # Never from within the call: the caller is in the middle of something.
            asyncio.get_running_loop().call_soon(self._answer, [(row, done)], AppendResult.UNKNOWN)
            return
        self._waiting.append((row, done))
        if self._idle:
            self._wake(1)

    async def append(self, row: Append) -> AppendResult:
        """Append `row`. Cancelling the caller does not cancel the append."""
        result: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
        self.submit(row, result.set_result)
        return await asyncio.shield(result)

    # A worker, one a connection

    async def _work(self) -> None:
        while connection := await self._open():
            self._connected += 1
            try:
                while batch := await self._next_batch(connection):
                    await self._write(connection, batch)
                return
            except Exception as error:
                # A fault of ours must not stop all games either; whose rows they were has been told.
                log.warning(
                    "log writer lost its connection", error=repr(error), exc_info=not _is_trouble(error, connection)
                )
            finally:
                self._connected -= 1
                connection.terminate()

    async def _open(self) -> "Appender | None":
        """A connection; None when there was none until the end. What waits meanwhile does not wait for ever."""
        pause = RECONNECT_SECONDS_MIN
        while True:
            try:
                return await self._statements.prepare(await self._connect())
            except Exception as error:
                # Whatever it is: asyncpg has errors of its own for a connection that is lost while it opens.
                log.warning("log writer cannot connect", error=repr(error))
            if not self.connected:
                self._give_up_waiting()
            if not self._accepting:
                return None
            await asyncio.sleep(pause)
            pause = min(2 * pause, RECONNECT_SECONDS_MAX)

    async def _next_batch(self, connection: "Appender") -> list[_Entry]:
        """Rows of different streams, sorted by stream; none at the end."""
        while True:
            if connection.raw.is_closed():
                raise ConnectionError("closed while there was nothing to write")
            if batch := self._take():
                return batch
            if not self._accepting:
                return []
            await self._something_happens(connection)

    def _take(self) -> list[_Entry]:
        waiting, busy, limit = self._waiting, self._busy, self._batch_rows_max
        batch: list[_Entry] = []
        later: list[_Entry] = []
        while waiting and len(batch) < limit:
            entry = waiting.popleft()
            stream = entry[0].stream
            if stream in busy:
                later.append(entry)
            else:
                busy.add(stream)
                batch.append(entry)
        waiting.extendleft(reversed(later))
        # All writers take their locks in this order.
        batch.sort(key=_stream_number)
        return batch

    async def _something_happens(self, connection: "Appender") -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(woken)

        def on_closed(_: object) -> None:
            if not woken.done():
                woken.set_result(None)

        connection.raw.add_termination_listener(on_closed)
        try:
            await woken
        finally:
            connection.raw.remove_termination_listener(on_closed)

    def _wake(self, workers: int) -> None:
        while workers and self._idle:
            woken = self._idle.popleft()
            if not woken.done():
                woken.set_result(None)
                workers -= 1

    async def _write(self, connection: "Appender", batch: list[_Entry]) -> None:
        """Insert the batch and answer each of its rows; if that fails, halve it until the bad row stands alone."""
        parts = [batch]
        try:
            while parts:
                began = time.monotonic()
                try:
                    appended = await connection.insert([row for row, _ in parts[-1]])
                except Exception as error:
                    if _is_trouble(error, connection):
                        raise
                    part = parts.pop()
                    if len(part) > 1:
                        middle = len(part) // 2
                        parts += [part[middle:], part[:middle]]
                    else:
                        row, _ = part[0]
                        log.error(
                            "the log refuses a row", stream=str(row.stream), version=row.version, error=repr(error)
                        )
                        self._finish(part, AppendResult.FAILED)
                else:
                    self.counts.seconds.observe(time.monotonic() - began)
                    self.counts.rows.observe(len(parts[-1]))
                    self._finish_inserted(parts.pop(), appended)
        except Exception:
            await self._end_backend(connection.backend)
            raise
        finally:
            for part in parts:
                self._finish(part, AppendResult.UNKNOWN)

    async def _end_backend(self, backend: "_Backend") -> None:
        """Make sure that a statement which was cut off does not commit behind the back of who is told UNKNOWN."""
        try:
            async with asyncio.timeout(BACKEND_END_SECONDS):
                connection = await self._connect()
                try:
                    await connection.fetch(_END_BACKEND, *backend, BACKEND_END_SECONDS * 1000)
                finally:
                    connection.terminate()
        except Exception as error:
            # Most often the whole server is away, and its backends with it.
            log.warning("log writer cannot end its former backend", error=repr(error))

    # Answers

    def _finish_inserted(self, batch: list[_Entry], appended: set[UUID]) -> None:
        self.counts.batches += 1
        if self._on_facts is not None and any(row.facts for row, _ in batch):
            self._on_facts()
        if len(appended) == len(batch):
            self._finish(batch, AppendResult.COMMITTED)
            return
        self._finish([entry for entry in batch if entry[0].stream in appended], AppendResult.COMMITTED)
        self._finish([entry for entry in batch if entry[0].stream not in appended], AppendResult.BEATEN)

    def _finish(self, entries: list[_Entry], result: AppendResult) -> None:
        self._busy.difference_update([row.stream for row, _ in entries])
        self._answer(entries, result)

    def _give_up_waiting(self) -> None:
        entries = list(self._waiting)
        self._waiting.clear()
        self._answer(entries, AppendResult.UNKNOWN)

    def _answer(self, entries: list[_Entry], result: AppendResult) -> None:
        self.counts.results[result] += len(entries)
        for row, done in entries:
            try:
                done(result)
            except Exception:
                log.exception("who appended a row failed at the answer", stream=str(row.stream), version=row.version)


def _is_trouble(error: Exception, connection: Appender) -> bool:
    # A statement that was not answered in time may be under way for ever.
    return isinstance(error, TimeoutError) or is_trouble(error, connection.raw)


def _stream_number(entry: _Entry) -> int:
    return entry[0].stream.int


async def _connect(dsn: str) -> Connection:
    return await asyncpg.connect(
        dsn,
        timeout=CONNECT_SECONDS,
        # The server's timeout comes first; this one is for a server that does not answer at all.
        command_timeout=STATEMENT_SECONDS + CONNECT_SECONDS,
        server_settings={**session_settings("levata log writer"), **_BY_KEY},
    )
