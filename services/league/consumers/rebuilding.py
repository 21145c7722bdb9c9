"""The projection made anew, beside the live one, from the first facts of the games' and of the ledger's log.

All facts that the consumers have heard when it begins are put in in bulk (`projections.loading`); those that they hear
meanwhile are added as they are to the live build, until both are so close together that the consumers can wait for the
comparison and the switch.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from datetime import date
from functools import partial
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

import grpc
import structlog

from chassis.database import Pool, Session, is_trouble
from chassis.errors import Refused
from chassis.facts import Fact, FactsOwner
from chassis.tasks import end
from services.league.app.rebuild import Done, Progress, Step
from services.league.consumers import games, ledger
from services.league.domain.terms import Terms
from services.league.domain.weeks import Close
from services.league.projections import builds, loading, scores
from services.league.projections.bulk import BULK_SECONDS, bulk
from services.league.projections.classes import close_classes, move_later_scores
from services.league.projections.scores import Touched
from services.league.store.closes import closes
from services.league.store.names import GAMES_CONSUMER, LEDGER_CONSUMER

log = structlog.get_logger(__name__)

# Any number, the same for all replicas.
_REBUILD_LOCK: Final = 0x6C65_6167
# While the consumers wait for the switch they hear nothing: what is still missing then must be little.
_LAST_FACTS_MAX: Final = 500
# A page keeps the process, which serves players too, busy for some hundredths of a second.
PAGE_FACTS: Final = 5_000
PROGRESS_SECONDS: Final = 0.5

_CHECKPOINT: Final = "select incarnation, last from consumer_checkpoint where consumer = $1"
_LOCK: Final = "select from consumer_checkpoint where consumer = any($1) order by consumer for update"
_PARKED: Final = "select fact_no from parked_fact where consumer = $1"

Add: TypeAlias = Callable[[Session, int, Sequence[Fact], Sequence[Close]], Awaitable[Touched]]
Load: TypeAlias = Callable[[Session, int, Sequence[Fact], Sequence[Close]], Awaitable[None]]
# Before the first facts of a log are put into a build, and after the last.
Begin: TypeAlias = Callable[[Session], Awaitable[None]]
Finish: TypeAlias = Callable[[Session, int], Awaitable[None]]


class Filling(NamedTuple):
    """What a log's facts do to a build that is made anew: in bulk at first, and then as they do to the live one."""

    begin: Begin
    load: Load
    finish: Finish
    add: Add


class Rebuilding:
    """Makes the projection anew. Implements `app.rebuild.Rebuilder`."""

    def __init__(
        self, games_log: FactsOwner, ledger_log: FactsOwner, effects: games.Effects, pool: Pool, terms: Terms
    ) -> None:
        self._games_log = games_log
        self._ledger_log = ledger_log
        self._games = Filling(_nothing, effects.load, loading.finish_games, effects.add_again)
        self._ledger = Filling(loading.begin_prizes, ledger.load, loading.finish_prizes, ledger.add)
        self._pool = pool
        self._terms = terms

    async def rebuild(self, *, dry_run: bool) -> AsyncGenerator[Step, None]:
        """Read all facts into a new build until it stands where the consumers do; then compare, and switch."""
        async with self._pool.acquire() as session:
            if not await session.fetchval("select pg_try_advisory_lock($1)", _REBUILD_LOCK):
                raise Refused(
                    "REBUILD_RUNNING", grpc.StatusCode.FAILED_PRECONDITION, "The projection is being made anew already."
                )
            try:
                # What an earlier rebuild left when it was broken off.
                await builds.drop_dead_builds(session)
                logs = (
                    _Log(GAMES_CONSUMER, self._games_log, self._games),
                    _Log(LEDGER_CONSUMER, self._ledger_log, self._ledger),
                )
                async with aclosing(_Rebuild(logs, self._pool, session, self._terms, dry_run).run()) as steps:
                    async for step in steps:
                        yield step
                await builds.drop_dead_builds(session)
            finally:
                if not session.is_closed():
                    await _unlock(session)


async def _unlock(session: Session) -> None:
    """Let the next rebuild begin. The lock is the connection's, so one that may still hold it is closed."""
    try:
        await session.execute("select pg_advisory_unlock($1)", _REBUILD_LOCK)
    except BaseException:
        session.terminate()
        raise


class _Log:
    """One of the logs that a rebuild reads, up to where its consumer stands."""

    def __init__(self, consumer: str, owner: FactsOwner, filling: Filling) -> None:
        self.consumer = consumer
        self._owner = owner
        self._filling = filling
        self._incarnation: UUID | None = None
        # The last fact in the new build, and where the consumer stood when it was last looked at.
        self.fact = 0
        self.head = 0
        # Facts that are parked have no effect yet, or never; they have none here either, as long as they are.
        self._parked: dict[int, Fact] = {}

    @property
    def missing(self) -> int:
        """How many facts are not in the new build yet."""
        return self.head - self.fact

    async def look(self, session: Session) -> None:
        """Look where the consumer stands."""
        row = await session.fetchrow(_CHECKPOINT, self.consumer)
        if row is None or row["incarnation"] is None:
            # Nothing was ever heard.
            return
        if self._incarnation not in (None, row["incarnation"]):
            raise _changed("The log of facts was restored meanwhile; begin again.")
        self._incarnation, self.head = row["incarnation"], row["last"]

    async def load(self, session: Session, build: int) -> None:
        """Put all facts that are missing into a build that has none, and make what follows from them."""
        await self._filling.begin(session)
        page = self._read_on(self.fact)
        try:
            while self.missing:
                facts = await page
                # The owner reads while these are put in.
                page = self._read_on(facts[-1].number)
                async with bulk(session, durable=False):
                    await self._put(session, build, facts, self._filling.load)
        finally:
            await end(page)
        async with bulk(session, durable=False):
            await self._filling.finish(session, build)

    async def add(self, session: Session, build: int) -> None:
        """Add all facts that are missing, in the caller's transaction, as the consumer does."""
        while self.missing:
            await self._put(session, build, await self._read(self.fact), self._add)
        still = await self._parked_numbers(session)
        unparked = [self._parked.pop(number) for number in sorted(self._parked.keys() - still)]
        await self._in_parts(session, build, unparked, self._add)

    async def _add(self, session: Session, build: int, facts: Sequence[Fact], closed: Sequence[Close]) -> None:
        await scores.refresh(session, build, await self._filling.add(session, build, facts, closed))

    def _read_on(self, after: int) -> "asyncio.Task[list[Fact]]":
        return asyncio.create_task(self._read(after), name=f"rebuild reads {self.consumer}")

    async def _read(self, after: int) -> list[Fact]:
        """The next facts up to where the consumer stands."""
        if after >= self.head:
            return []
        page = await self._owner.read(after, PAGE_FACTS)
        if page.head.incarnation != self._incarnation or not page.facts:
            raise _changed("The log of facts is another one than the consumer has heard.")
        assert page.facts[0].number == after + 1, "the owner's log has a hole"
        return [fact for fact in page.facts if fact.number <= self.head]

    async def _put(self, session: Session, build: int, facts: Sequence[Fact], put: Load) -> None:
        parked = await self._parked_numbers(session)
        self._parked |= {fact.number: fact for fact in facts if fact.number in parked}
        await self._in_parts(session, build, [fact for fact in facts if fact.number not in parked], put)
        self.fact = facts[-1].number

    async def _parked_numbers(self, session: Session) -> set[int]:
        return {record["fact_no"] for record in await session.fetch(_PARKED, self.consumer)}

    async def _in_parts(self, session: Session, build: int, facts: Sequence[Fact], put: Load) -> None:
        if not facts:
            return
        closed = await closes(session)
        try:
            async with session.transaction():
                await put(session, build, facts, closed)
        except Exception as error:
            if is_trouble(error, session):
                raise
            if len(facts) > 1:
                # One of them is at fault: which one is found by halving.
                middle = len(facts) // 2
                await self._in_parts(session, build, facts[:middle], put)
                await self._in_parts(session, build, facts[middle:], put)
                return
            log.exception("rebuild cannot read a fact", fact=facts[0].number, subject=facts[0].subject)
            raise Refused(
                "FACT_UNREADABLE",
                grpc.StatusCode.FAILED_PRECONDITION,
                f"Fact {facts[0].number} cannot be read: {error!r}.",
            ) from error


class _Rebuild:
    """One rebuild."""

    def __init__(self, logs: Sequence[_Log], pool: Pool, session: Session, terms: Terms, dry_run: bool) -> None:
        self._logs = logs
        self._pool = pool
        self._session = session
        self._terms = terms
        self._dry_run = dry_run
        self._build = 0
        # Weeks whose closes the new build has followed.
        self._followed: set[date] = set()

    async def run(self) -> AsyncGenerator[Step, None]:
        """All of it; broken off anywhere it leaves the live build as it was."""
        async with self._session.transaction():
            self._build = await builds.begin_build(self._session)
        log.info("rebuild begins", build=self._build)
        closed = await self._look()
        if not any(each.head for each in self._logs):
            raise Refused(
                "NOTHING_HEARD",
                grpc.StatusCode.FAILED_PRECONDITION,
                "No fact was ever heard: there is nothing to make anew.",
            )
        async with aclosing(self._load()) as steps:
            async for step in steps:
                yield step
        await self._finish(closed)
        self._followed = set(closed)
        comparison = None
        while comparison is None:
            await self._catch_up()
            yield self._progress()
            comparison = await self._compare_and_switch()
        for difference in comparison.shown:
            yield difference
        log.info("rebuild ends", build=self._build, differences=comparison.differing, switched=not self._dry_run)
        facts, ledger_facts = (each.fact for each in self._logs)
        yield Done(facts, ledger_facts, comparison.rows, comparison.differing, not self._dry_run)

    def _progress(self) -> Progress:
        return Progress(sum(each.fact for each in self._logs), sum(each.head for each in self._logs))

    async def _look(self) -> list[date]:
        """Look where the consumers stand; they have heard all that was counted when these weeks were closed."""
        closed = [close.week for close in await closes(self._session)]
        for each in self._logs:
            await each.look(self._session)
        return closed

    async def _load(self) -> AsyncGenerator[Progress, None]:
        """Load all logs at once: the database puts in and sorts for one while the other is read."""
        loads = [asyncio.create_task(self._load_log(each), name=f"rebuild of {each.consumer}") for each in self._logs]
        try:
            running: Collection[asyncio.Task[None]] = loads
            while running:
                yield self._progress()
                done, running = await asyncio.wait(running, timeout=PROGRESS_SECONDS)
                for load in done:
                    load.result()
        finally:
            for load in loads:
                await end(load)

    async def _load_log(self, each: _Log) -> None:
        async with self._pool.acquire() as session:
            await each.load(session, self._build)

    async def _finish(self, closed: Sequence[date]) -> None:
        """Make what follows from both logs; of two steps that do not need each other both at once."""
        make_scores = partial(loading.make_scores, closed=closed, terms=self._terms)
        await self._at_once(make_scores, loading.index_prizes)
        await self._at_once(loading.make_blocks, loading.key_scores, loading.open_prizes)
        await self._at_once(loading.open_scores)

    async def _at_once(self, *steps: Callable[[Session, int], Awaitable[None]]) -> None:
        running = [asyncio.create_task(self._step(step), name="step of a rebuild") for step in steps]
        try:
            await asyncio.gather(*running)
        finally:
            for step in running:
                await end(step)

    async def _step(self, step: Callable[[Session, int], Awaitable[None]]) -> None:
        async with self._pool.acquire() as session, bulk(session, durable=False):
            await step(session, self._build)

    async def _catch_up(self) -> None:
        async with bulk(self._session, durable=False):
            await self._add_since(await self._look())

    async def _compare_and_switch(self) -> builds.Comparison | None:
        """Keep the consumers waiting, catch up, compare, switch. None if there is too much to catch up with."""
        async with bulk(self._session):
            await self._session.execute(_LOCK, [each.consumer for each in self._logs], timeout=BULK_SECONDS)
            closed = await self._look()
            if any(each.missing > _LAST_FACTS_MAX for each in self._logs) or not self._followed.issuperset(closed):
                return None
            await self._add_since(closed)
            comparison = await builds.compare(self._session, self._build)
            if not self._dry_run:
                await builds.switch(self._session, self._build)
            return comparison

    async def _add_since(self, closed: Sequence[date]) -> None:
        """Add what is missing, and follow the weeks that have been closed since, as the live build has."""
        for each in self._logs:
            await each.add(self._session, self._build)
        for week in closed:
            if week not in self._followed:
                _, moves = await close_classes(self._session, self._build, week, self._terms)
                await move_later_scores(self._session, self._build, week, moves)
                self._followed.add(week)


async def _nothing(_: Session) -> None:
    """What a log needs that has nothing to begin."""


def _changed(message: str) -> Refused:
    return Refused("INCARNATION_CHANGED", grpc.StatusCode.FAILED_PRECONDITION, message)
