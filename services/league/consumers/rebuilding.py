"""The projection made anew, beside the live one, from the first facts of the games' and of the ledger's log."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

import grpc
import structlog

from chassis.database import Pool, Session, is_trouble
from chassis.errors import Refused
from chassis.facts import Fact, FactsOwner
from services.league.app.rebuild import Done, Progress, Step
from services.league.consumers import games, ledger
from services.league.domain.terms import Terms
from services.league.domain.weeks import Close
from services.league.projections import builds, classes, scores
from services.league.store.closes import closes
from services.league.store.names import GAMES_CONSUMER, LEDGER_CONSUMER

log = structlog.get_logger(__name__)

# Any number, the same for all replicas.
_REBUILD_LOCK: Final = 0x6C65_6167
# While the consumers wait for the switch they hear nothing: what is still missing then must be little.
_LAST_FACTS_MAX: Final = 500
PAGE_FACTS: Final = 2_000

_CHECKPOINT: Final = "select incarnation, last from consumer_checkpoint where consumer = $1"
_LOCK: Final = "select from consumer_checkpoint where consumer = any($1) order by consumer for update"
_PARKED: Final = "select fact_no from parked_fact where consumer = $1"

Add = Callable[[Session, int, Sequence[Fact], Sequence[Close]], Awaitable[object]]


class Rebuilding:
    """Makes the projection anew. Implements `app.rebuild.Rebuilder`."""

    def __init__(
        self, games_log: FactsOwner, ledger_log: FactsOwner, effects: games.Effects, pool: Pool, terms: Terms
    ) -> None:
        self._games_log = games_log
        self._ledger_log = ledger_log
        self._effects = effects
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
                    _Log(GAMES_CONSUMER, self._games_log, self._effects.add, session),
                    _Log(LEDGER_CONSUMER, self._ledger_log, ledger.add, session),
                )
                async for step in _Rebuild(logs, session, self._terms, dry_run).run():
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

    def __init__(self, consumer: str, owner: FactsOwner, add: Add, session: Session) -> None:
        self.consumer = consumer
        self._owner = owner
        self._add_facts = add
        self._session = session
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

    async def look(self) -> None:
        """Look where the consumer stands."""
        row = await self._session.fetchrow(_CHECKPOINT, self.consumer)
        if row is None or row["incarnation"] is None:
            # Nothing was ever heard.
            return
        if self._incarnation not in (None, row["incarnation"]):
            raise _changed("The log of facts was restored meanwhile; begin again.")
        self._incarnation, self.head = row["incarnation"], row["last"]

    async def add_page(self, build: int) -> None:
        """Add the next facts, in the caller's transaction."""
        page = await self._owner.read(self.fact, PAGE_FACTS)
        if page.head.incarnation != self._incarnation or not page.facts:
            raise _changed("The log of facts is another one than the consumer has heard.")
        facts = [fact for fact in page.facts if fact.number <= self.head]
        assert facts[0].number == self.fact + 1, "the owner's log has a hole"
        parked = await self._parked_numbers()
        self._parked |= {fact.number: fact for fact in facts if fact.number in parked}
        await self._add(build, [fact for fact in facts if fact.number not in parked])
        self.fact = facts[-1].number

    async def add_unparked(self, build: int) -> None:
        """Add what was parked when it was read and has had its effect since."""
        still = await self._parked_numbers()
        await self._add(build, [self._parked.pop(number) for number in sorted(self._parked.keys() - still)])

    async def _parked_numbers(self) -> set[int]:
        return {record["fact_no"] for record in await self._session.fetch(_PARKED, self.consumer)}

    async def _add(self, build: int, facts: Sequence[Fact]) -> None:
        closed = await closes(self._session)
        try:
            async with self._session.transaction():
                await self._add_facts(self._session, build, facts, closed)
        except Exception as error:
            if is_trouble(error, self._session):
                raise
            if len(facts) > 1:
                # One of them is at fault: which one is found by halving.
                middle = len(facts) // 2
                await self._add(build, facts[:middle])
                await self._add(build, facts[middle:])
                return
            log.exception("rebuild cannot read a fact", fact=facts[0].number, subject=facts[0].subject)
            raise Refused(
                "FACT_UNREADABLE",
                grpc.StatusCode.FAILED_PRECONDITION,
                f"Fact {facts[0].number} cannot be read: {error!r}.",
            ) from error


class _Rebuild:
    """One rebuild."""

    def __init__(self, logs: Sequence[_Log], session: Session, terms: Terms, dry_run: bool) -> None:
        self._logs = logs
        self._session = session
        self._terms = terms
        self._dry_run = dry_run
        self._build = 0

    async def run(self) -> AsyncGenerator[Step, None]:
        """All of it; broken off anywhere it leaves the live build as it was."""
        self._build = await builds.begin_build(self._session)
        log.info("rebuild begins", build=self._build)
        await self._look()
        if not any(each.head for each in self._logs):
            raise Refused(
                "NOTHING_HEARD",
                grpc.StatusCode.FAILED_PRECONDITION,
                "No fact was ever heard: there is nothing to make anew.",
            )
        comparison = None
        while comparison is None:
            await self._look()
            for each in self._logs:
                while each.missing:
                    async with self._session.transaction():
                        await each.add_page(self._build)
                    yield Progress(sum(log.fact for log in self._logs), sum(log.head for log in self._logs))
            comparison = await self._compare_and_switch()
        for difference in comparison.shown:
            yield difference
        log.info("rebuild ends", build=self._build, differences=comparison.differing, switched=not self._dry_run)
        facts, ledger_facts = (each.fact for each in self._logs)
        yield Done(facts, ledger_facts, comparison.rows, comparison.differing, not self._dry_run)

    async def _look(self) -> None:
        for each in self._logs:
            await each.look()

    async def _compare_and_switch(self) -> builds.Comparison | None:
        """Keep the consumers waiting, catch up, compare, switch. None if there is too much to catch up with."""
        async with self._session.transaction():
            await self._session.execute(_LOCK, [each.consumer for each in self._logs])
            await self._look()
            if any(each.missing > _LAST_FACTS_MAX for each in self._logs):
                return None
            for each in self._logs:
                while each.missing:
                    await each.add_page(self._build)
                await each.add_unparked(self._build)
            await self._make_scores()
            comparison = await builds.compare(self._session, self._build)
            if not self._dry_run:
                await builds.switch(self._session, self._build)
            return comparison

    async def _make_scores(self) -> None:
        """Follow the closes of weeks: each one's standings decide about the classes of the next."""
        await self._session.execute(f"set local statement_timeout = '{scores.BULK_SECONDS}s'")
        await scores.make_friendly_and_daily(self._session, self._build)
        closed = [close.week for close in await closes(self._session)]
        for week in sorted({*closed, *await scores.weeks_with_prizes(self._session, self._build)}):
            await scores.make_league_week(self._session, self._build, week)
            if week in closed:
                await classes.close_classes(self._session, self._build, week, self._terms)
        await scores.make_blocks(self._session, self._build)


def _changed(message: str) -> Refused:
    return Refused("INCARNATION_CHANGED", grpc.StatusCode.FAILED_PRECONDITION, message)
