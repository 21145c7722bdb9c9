"""Facts of games coming in: by the consumer as they happen, and from the first one when the projection is made anew."""

from collections.abc import AsyncGenerator, Iterable
from typing import Final
from uuid import UUID

import grpc
import structlog
from levata.table.v1 import facts_pb2
from nats.aio.client import Client

from chassis.database import Pool, Session
from chassis.errors import Refused
from chassis.facts import GAMES, Consumer, Fact, FactsOwner
from services.league import projections
from services.league.app import Done, Progress, Step
from services.league.domain import FinishedGame, SeatResult
from services.league.store import CONSUMER

log = structlog.get_logger(__name__)

_FINISHED: Final = "levata.games.finished."

# Any number, the same for all replicas.
_REBUILD_LOCK: Final = 0x6C65_6167
# While the consumer waits for the switch it hears nothing: what is still missing then must be little.
_LAST_FACTS_MAX: Final = 500

_CHECKPOINT: Final = "select incarnation, last from consumer_checkpoint where consumer = $1"
_PARKED: Final = "select fact_no from parked_fact where consumer = $1"


def consumer(owner: FactsOwner, pool: Pool, nats: Client) -> Consumer:
    """The league's consumer of the games' facts."""
    return Consumer(CONSUMER, GAMES, owner, pool, nats, apply)


async def apply(session: Session, fact: Fact) -> None:
    """Give a fact its effect on the live projection."""
    game = finished_game(fact)
    if game is not None:
        await projections.add(session, [game])


def finished_game(fact: Fact) -> FinishedGame | None:
    """The finished game that a fact tells of; None for facts of other kinds."""
    if not fact.subject.startswith(_FINISHED):
        return None
    message = facts_pb2.GameFact.FromString(fact.payload)
    finished = message.finished
    results = [
        SeatResult(seat, UUID(result.holder.account_id), result.place)
        for seat, result in enumerate(finished.seats)
        if result.holder.account_id
    ]
    return FinishedGame(UUID(message.game_id), finished.game_type, tuple(results))


class Rebuilding:
    """Makes the projection anew, beside the live one. Implements `app.Rebuilder`."""

    def __init__(self, owner: FactsOwner, pool: Pool) -> None:
        self._owner = owner
        self._pool = pool

    async def rebuild(self, *, dry_run: bool) -> AsyncGenerator[Step, None]:
        """Read all facts into a new build until it stands where the consumer does; then compare, and switch."""
        async with self._pool.acquire() as session:
            if not await session.fetchval("select pg_try_advisory_lock($1)", _REBUILD_LOCK):
                raise Refused(
                    "REBUILD_RUNNING", grpc.StatusCode.FAILED_PRECONDITION, "The projection is being made anew already."
                )
            try:
                # What an earlier rebuild left when it was broken off.
                await projections.drop_dead_builds(session)
                async for step in _Rebuild(self._owner, session, dry_run).run():
                    yield step
                await projections.drop_dead_builds(session)
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


class _Rebuild:
    """One rebuild."""

    def __init__(self, owner: FactsOwner, session: Session, dry_run: bool) -> None:
        self._owner = owner
        self._session = session
        self._dry_run = dry_run
        self._build = 0
        self._incarnation: UUID | None = None
        # The last fact in the new build.
        self._fact = 0
        # Facts that are parked have no effect yet, or never; they have none here either, as long as they are.
        self._parked: dict[int, Fact] = {}

    async def run(self) -> AsyncGenerator[Step, None]:
        """All of it; broken off anywhere it leaves the live build as it was."""
        self._build = await projections.begin_build(self._session)
        log.info("rebuild begins", build=self._build)
        while True:
            head = await self._checkpoint()
            while self._fact < head:
                async with self._session.transaction():
                    await self._add_page(head)
                yield Progress(self._fact, head)
            comparison = await self._compare_and_switch()
            if comparison is not None:
                break
        for difference in comparison.shown:
            yield difference
        log.info("rebuild ends", build=self._build, differences=comparison.differing, switched=not self._dry_run)
        yield Done(self._fact, comparison.rows, comparison.differing, not self._dry_run)

    async def _compare_and_switch(self) -> projections.Comparison | None:
        """Keep the consumer waiting, catch up with it, compare, switch. None if there is too much to catch up with."""
        async with self._session.transaction():
            head = await self._checkpoint(" for update")
            if head - self._fact > _LAST_FACTS_MAX:
                return None
            while self._fact < head:
                await self._add_page(head)
            await self._add_unparked()
            comparison = await projections.compare(self._session, self._build)
            if not self._dry_run:
                await projections.switch(self._session, self._build)
            return comparison

    async def _checkpoint(self, lock: str = "") -> int:
        """Where the consumer stands."""
        row = await self._session.fetchrow(_CHECKPOINT + lock, CONSUMER)
        if row is None or row["incarnation"] is None:
            raise Refused(
                "NOTHING_HEARD",
                grpc.StatusCode.FAILED_PRECONDITION,
                "No fact was ever heard: there is nothing to make anew.",
            )
        if self._incarnation not in (None, row["incarnation"]):
            raise Refused(
                "INCARNATION_CHANGED",
                grpc.StatusCode.FAILED_PRECONDITION,
                "The games' log was restored meanwhile; begin again.",
            )
        self._incarnation = row["incarnation"]
        last: int = row["last"]
        return last

    async def _add_page(self, head: int) -> None:
        """Add facts up to `head` at most, in the caller's transaction."""
        page = await self._owner.read(self._fact)
        if page.head.incarnation != self._incarnation or not page.facts:
            raise Refused(
                "INCARNATION_CHANGED",
                grpc.StatusCode.FAILED_PRECONDITION,
                "The games' log is another one than the consumer has heard.",
            )
        facts = [fact for fact in page.facts if fact.number <= head]
        assert facts[0].number == self._fact + 1, "the owner's log has a hole"
        parked = await self._parked_numbers()
        self._parked |= {fact.number: fact for fact in facts if fact.number in parked}
        await self._add(fact for fact in facts if fact.number not in parked)
        self._fact = facts[-1].number

    async def _add_unparked(self) -> None:
        """Add what was parked when it was read and has had its effect since."""
        still = await self._parked_numbers()
        await self._add(self._parked.pop(number) for number in sorted(self._parked.keys() - still))

    async def _parked_numbers(self) -> set[int]:
        return {record["fact_no"] for record in await self._session.fetch(_PARKED, CONSUMER)}

    async def _add(self, facts: Iterable[Fact]) -> None:
        games = [game for game in map(_readable, facts) if game is not None]
        await projections.add(self._session, games, self._build)


def _readable(fact: Fact) -> FinishedGame | None:
    try:
        return finished_game(fact)
    except Exception as error:
        log.exception("rebuild cannot read a fact", fact=fact.number, subject=fact.subject)
        raise Refused(
            "FACT_UNREADABLE", grpc.StatusCode.FAILED_PRECONDITION, f"Fact {fact.number} cannot be read: {error!r}."
        ) from error
