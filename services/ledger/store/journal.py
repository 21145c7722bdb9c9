"""Entries in Postgres: decided and put down in one transaction, under the locks of the balances that they touch.

`put_down` does it in a caller's transaction (a consumer's, with its checkpoint); `JournalWriter` does it for the many
who ask at once, one transaction for all that came in while the last one was under way.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final, NamedTuple, Self

import asyncpg
import grpc
import structlog

from chassis.database import Pool, Session, is_trouble, refusing_while_away
from chassis.errors import Refused
from chassis.tasks import end
from services.ledger.app.ports import Decided, Moved, nobody_is_told
from services.ledger.domain.journal import Balance, Books, Currency, Entry, Outcome, Slot, Transfer, players_of

log = structlog.get_logger(__name__)

WRITERS: Final = 2
BATCH_ENTRIES_MAX: Final = 256
WAITING_ENTRIES_MAX: Final = 20_000
# After a transaction for several: under load the next one is for more, and all of them cost less. A lone entry never
# waits for this.
BREATH_SECONDS: Final = 0.005
PAUSE_SECONDS: Final = 0.1
# How long an entry waits for Postgres before its caller is told to come again.
PATIENCE_SECONDS: Final = 10.0

_LOCK_BALANCES: Final = "select * from lock_balances($1::uuid[], $2::currency[])"
_KNOWN: Final = "select key, input_hash, number from entry where key = any($1)"
_OPEN_PENDING: Final = """
    select p.key, t.debit, t.credit, t.currency::text, t.amount
    from entry p left join transfer t using (number)
    where p.key = any($1) and p.kind = 'pending' and not exists (select from entry r where r.resolves = p.key)
    order by p.key, t.line"""
# Numbers are taken under the locks of the balances: a player's entries have them in the order of their commits.
_PUT_DOWN: Final = """
    with new as (
        insert into entry (key, input_hash, kind, resolves, cause_kind, cause_id, what, reason)
        select r.key, r.input_hash, r.kind, nullif(r.resolves, ''), r.cause_kind, r.cause_id, r.what, r.reason
        from unnest(
            $1::text[], $2::bytea[], $3::entry_kind[], $4::text[], $5::cause_kind[], $6::text[], $7::text[], $8::text[]
        ) with ordinality as r (key, input_hash, kind, resolves, cause_kind, cause_id, what, reason, place)
        order by r.place
        returning number, key
    ), moved as (
        insert into transfer (number, line, debit, credit, currency, amount)
        select new.number, t.line, t.debit, t.credit, t.currency, t.amount
        from unnest($9::text[], $10::smallint[], $11::uuid[], $12::uuid[], $13::currency[], $14::bigint[])
            as t (key, line, debit, credit, currency, amount)
        join new using (key)
    )
    select key, number from new"""


async def put_down(session: Session, entries: Sequence[Entry]) -> list[Decided]:
    """Decide entries one after another and put down those that stand, in the caller's transaction.

    Call it once in a transaction: locks are taken in one order within a call.
    """
    assert session.is_in_transaction()
    books, numbers = await _open_books(session, entries)
    outcomes = [(books.decide(entry), books.lacking) for entry in entries]
    fresh = [entry for entry, (outcome, _) in zip(entries, outcomes, strict=True) if outcome is Outcome.DONE]
    if fresh:
        put = await session.fetch(_PUT_DOWN, *_columns(fresh, books))
        numbers |= {record["key"]: record["number"] for record in put}
    return [
        Decided(
            outcome,
            numbers[entry.key] if outcome.stands else 0,
            lacking if outcome is Outcome.INSUFFICIENT else None,
        )
        for entry, (outcome, lacking) in zip(entries, outcomes, strict=True)
    ]


async def _open_books(session: Session, entries: Sequence[Entry]) -> tuple[Books, dict[str, int]]:
    """The books that the entries are decided by, and the numbers of those that are in the ledger already."""
    slots = sorted({(t.player, t.currency) for entry in entries for t in entry.transfers})
    balances: dict[Slot, Balance] = {}
    if slots:
        rows = await session.fetch(_LOCK_BALANCES, [slot[0] for slot in slots], [slot[1].value for slot in slots])
        balances = {(row["account"], Currency(row["currency"])): Balance(row["posted"], row["held"]) for row in rows}
    # Read after the locks: whoever put down the same key before held one of them.
    known = await session.fetch(_KNOWN, [entry.key for entry in entries])
    resolved = [entry.resolves for entry in entries if entry.resolves]
    open_pending: dict[str, list[Transfer]] = {}
    for key, debit, credit, currency, amount in await session.fetch(_OPEN_PENDING, resolved) if resolved else ():
        transfers = open_pending.setdefault(key, [])
        if amount is not None:
            transfers.append(Transfer(debit, credit, Currency(currency), amount))
    books = Books(balances, {row["key"]: row["input_hash"] for row in known}, open_pending)
    return books, {row["key"]: row["number"] for row in known}


def _columns(entries: Sequence[Entry], books: Books) -> tuple[list[object], ...]:
    lines = [(entry.key, line, t) for entry in entries for line, t in enumerate(entry.transfers)]
    return (
        [entry.key for entry in entries],
        [books.input_hash_of(entry.key) for entry in entries],
        [entry.kind.value for entry in entries],
        [entry.resolves for entry in entries],
        [entry.cause.kind.value for entry in entries],
        [entry.cause.id for entry in entries],
        [entry.cause.what for entry in entries],
        [entry.cause.reason for entry in entries],
        [key for key, _, _ in lines],
        [line for _, line, _ in lines],
        [t.debit for _, _, t in lines],
        [t.credit for _, _, t in lines],
        [t.currency.value for _, _, t in lines],
        [t.amount for _, _, t in lines],
    )


class _Waiting(NamedTuple):
    entry: Entry
    done: "asyncio.Future[Decided]"
    # Loop time from when on its caller is not kept waiting any longer.
    until: float


class JournalWriter:
    """Puts down the entries of all callers of this process. Implements `app.ports.Journal`.

    Entries that come in while transactions are under way make the next one, and a lone one goes at once. Two writers
    take turns, so that this process and Postgres work at the same time. An entry whose transaction's end is not known
    is simply decided again: its key tells.
    """

    def __init__(self, pool: Pool, moved: Moved = nobody_is_told, *, writers: int = WRITERS) -> None:
        self._pool = pool
        self._moved = moved
        self._writers = writers
        self._waiting: deque[_Waiting] = deque()
        self._something_waits = asyncio.Event()
        # Writers with nothing to do.
        self._idle = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._work(), name="journal writer") for _ in range(self._writers)]
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*map(end, self._tasks))
        self._refuse(self._waiting)

    async def post(self, entry: Entry) -> Decided:
        """Decide an entry and put it down; answers when it is committed."""
        loop = asyncio.get_running_loop()
        if len(self._waiting) >= WAITING_ENTRIES_MAX:
            raise _away()
        done: asyncio.Future[Decided] = loop.create_future()
        self._waiting.append(_Waiting(entry, done, loop.time() + PATIENCE_SECONDS))
        self._something_waits.set()
        # The entry itself knows nothing of a caller that leaves.
        return await done

    async def find(self, entry: Entry) -> Decided | None:
        """What `post` would answer because of what was put down before; None if its key is new."""
        with refusing_while_away():
            row = await self._pool.fetchrow(_KNOWN, [entry.key])
        if row is None:
            return None
        if row["input_hash"] != entry.input_hash:
            return Decided(Outcome.KEY_REUSED, 0)
        return Decided(Outcome.SAME, row["number"])

    async def _work(self) -> None:
        while True:
            try:
                async with self._pool.acquire() as session:
                    while True:
                        batch = await self._next_batch()
                        await self._write(session, batch)
                        if len(batch) > 1:
                            await asyncio.sleep(BREATH_SECONDS)
            except Exception as error:
                log.warning("journal writer stumbled", error=repr(error))
                self._give_up_late_ones()
                self._something_waits.set()
                await asyncio.sleep(PAUSE_SECONDS)

    async def _next_batch(self) -> list[_Waiting]:
        while not self._waiting:
            self._something_waits.clear()
            self._idle += 1
            try:
                await self._something_waits.wait()
            finally:
                self._idle -= 1
        # Shared with the writers that have nothing to do.
        share = ceil(len(self._waiting) / (1 + self._idle))
        return [self._waiting.popleft() for _ in range(min(share, BATCH_ENTRIES_MAX))]

    async def _write(self, session: Session, batch: list[_Waiting]) -> None:
        """One transaction; if Postgres refuses it, halve it until the bad entry stands alone."""
        parts = [batch]
        try:
            while parts:
                try:
                    async with session.transaction():
                        decided = await put_down(session, [waiting.entry for waiting in parts[-1]])
                except Exception as error:
                    if _must_be_decided_again(error, session):
                        raise
                    part = parts.pop()
                    if len(part) > 1:
                        middle = len(part) // 2
                        parts += [part[middle:], part[:middle]]
                    elif isinstance(error, asyncpg.NumericValueOutOfRangeError):
                        # Of an account of the house, whose balances are not looked at before.
                        _answer(part[0], Decided(Outcome.OVERFLOW, 0))
                    else:
                        log.error("the ledger refuses an entry", key=part[0].entry.key, error=repr(error))
                        _answer_with(part[0], error)
                else:
                    self._moved(players_of(waiting.entry for waiting in parts[-1]))
                    for waiting, outcome in zip(parts.pop(), decided, strict=True):
                        _answer(waiting, outcome)
        finally:
            # Whether they were committed their keys will tell.
            for part in parts:
                self._waiting.extendleft(reversed(part))

    def _give_up_late_ones(self) -> None:
        now = asyncio.get_running_loop().time()
        late = [waiting for waiting in self._waiting if waiting.until <= now]
        self._waiting = deque(waiting for waiting in self._waiting if waiting.until > now)
        self._refuse(late)

    @staticmethod
    def _refuse(entries: Iterable[_Waiting]) -> None:
        for waiting in entries:
            _answer_with(waiting, _away())


def _must_be_decided_again(error: Exception, session: Session) -> bool:
    """Postgres failed, or another replica put down one of the keys in the same moment; the entries are not at fault."""
    races = asyncpg.UniqueViolationError | asyncpg.DeadlockDetectedError | asyncpg.SerializationError
    return isinstance(error, races | TimeoutError) or is_trouble(error, session)


def _answer(waiting: _Waiting, decided: Decided) -> None:
    if not waiting.done.done():
        waiting.done.set_result(decided)


def _answer_with(waiting: _Waiting, error: Exception) -> None:
    if not waiting.done.done():
        waiting.done.set_exception(error)


def _away() -> Refused:
    return Refused(
        "TEMPORARILY_UNAVAILABLE",
        grpc.StatusCode.UNAVAILABLE,
        "The ledger cannot be reached now; repeat the call with the same ids.",
    )
