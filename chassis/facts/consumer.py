"""A consumer: gives each fact of another service's log its effect, once and in order.

The checkpoint moves by compare-and-set in the transaction of the effect. Messages of JetStream are only the quick way
to hear: what they do not bring, a hole, a lost tail or everything, is read from the owner of the log.
"""

import asyncio
import re
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias
from uuid import UUID

import structlog
from asyncpg import DeadlockDetectedError, QueryCanceledError, SerializationError
from nats.aio.client import Client
from nats.aio.msg import Msg

from chassis.database import Pool, Session, is_trouble
from chassis.errors import in_a_line
from chassis.facts.health import Pulse, Status
from chassis.facts.parked import ParkedFacts
from chassis.facts.service import FactsOwner
from chassis.facts.store import PAGE_FACTS, Fact, Head
from chassis.facts.stream import FactStream, Pull, fact_of
from chassis.lease import RENEW_SECONDS, Lease
from chassis.tasks import end

log = structlog.get_logger(__name__)

# How often the owner's head is compared with the checkpoint.
COMPARE_SECONDS: Final = 3.0
# When there is a reason to ask, but not for every message that gives one.
COMPARE_SOON_SECONDS: Final = 0.2
# Behind the head and not getting on for so long: messages were lost, or the pull is dead.
SILENT_SECONDS: Final = 1.0
RESTART_SECONDS: Final = 0.5
TRANSACTION_FACTS: Final = 100
ATTEMPTS: Final = 3
ATTEMPT_PAUSE_SECONDS: Final = 0.2
# More facts than this fail only when the program is wrong: it stops instead of parking everything.
FAILURES_MAX: Final = 100

Apply: TypeAlias = Callable[[Session, Fact], Awaitable[None]]
ApplyAll: TypeAlias = Callable[[Session, Sequence[Fact]], Awaitable[None]]
Clear: TypeAlias = Callable[[Session], Awaitable[None]]

_LOAD: Final = """
    with made as (
        insert into consumer_checkpoint (consumer, source) values ($1, $2) on conflict do nothing
        returning incarnation, last
    )
    select incarnation, last from made
    union all
    select incarnation, last from consumer_checkpoint where consumer = $1"""
_ADOPT: Final = "update consumer_checkpoint set incarnation = $2 where consumer = $1 and incarnation is null"
_MOVE: Final = """
    update consumer_checkpoint set last = $4, moved_at = levata_now()
    where consumer = $1 and incarnation = $2 and last = $3
    returning true"""
_LOCK: Final = "select from consumer_checkpoint where consumer = $1 for update"


class Overtaken(Exception):
    """The checkpoint is not where it was left: another replica or an operator moved it."""


class TooManyFailures(Exception):
    """More facts have failed than one parks."""


def last_token(fact: Fact) -> str:
    """The last part of the subject: the id of the game, account or week that the fact is about."""
    return fact.subject.rpartition(".")[2]


async def rebuild(session: Session, consumer: str, clear: Clear) -> None:
    """Throw a projection away and let its consumer, running or not, make it again from the first fact."""
    async with session.transaction():
        # The consumer's transactions wait for this one, and then find their checkpoint moved.
        await session.execute(_LOCK, consumer)
        await clear(session)
        await session.execute("delete from parked_fact where consumer = $1", consumer)
        await session.execute(
            "update consumer_checkpoint set last = 0, moved_at = levata_now() where consumer = $1", consumer
        )


class Consumer:
    """One service's consumer of one log. Of several replicas the one that holds the lease works."""

    def __init__(
        self,
        name: str,
        source: FactStream,
        owner: FactsOwner,
        pool: Pool,
        nats: Client,
        apply: Apply,
        *,
        apply_all: ApplyAll | None = None,
        key_of: Callable[[Fact], str] = last_token,
        facts_at_once: int = TRANSACTION_FACTS,
        committed: Callable[[], None] = lambda: None,
    ) -> None:
        """`apply` gives a fact its effect on the session that it is handed, in whose transaction the checkpoint moves.

        It must ignore facts that it does not care for. `apply_all`, if there is one, does the same for all facts that
        share a transaction, with fewer statements. Facts of one key (`key_of`) have their effects in order. Up to
        `facts_at_once` share a transaction: 1 where effects take locks in another order than that of the facts.
        `committed` is called after each transaction with effects. `name` is also that of the durable JetStream
        consumer: letters, digits, `-` and `_`.
        """
        if not re.fullmatch(r"[\w-]+", name):
            raise ValueError(f"not a consumer's name: {name!r}")
        self.name = name
        self._source = source
        self._owner = owner
        self._pool = pool
        self._apply_effect = apply
        self._apply_effects = apply_all or self._apply_one_by_one
        self._key_of = key_of
        self._facts_at_once = facts_at_once
        self._committed = committed
        self._pull = Pull(nats, source.name, name)
        self._parked = ParkedFacts(name)
        self._lease = Lease(f"consumer {name}")
        self._pulse = Pulse()
        self._task: asyncio.Task[None] | None = None
        self._incarnation: UUID | None = None
        self._checkpoint = 0
        self._moved_at = 0.0
        self._compare_at = 0.0
        self.parked_failures = 0

    @property
    def status(self) -> Status:
        """How far it is, and whether it gets on."""
        return self._pulse.status(self._checkpoint)

    async def start(self) -> None:
        """Begin to consume; what is needed may be away."""
        assert self._task is None, "started twice"
        self._task = asyncio.create_task(self._run(), name=f"consumer {self.name}")

    async def stop(self) -> None:
        """End; a transaction under way is rolled back."""
        if self._task is not None:
            await end(self._task)
            self._task = None

    async def _run(self) -> None:
        while True:
            try:
                async with self._pool.acquire() as session:
                    await self._work(session)
            except Overtaken:
                log.info("consumer was overtaken", consumer=self.name, checkpoint=self._checkpoint)
            except Exception as error:
                self._pulse.troubled(error)
                log.warning("consumer stumbled", consumer=self.name, error=in_a_line(error))
            finally:
                await self._pull.close()
            await asyncio.sleep(RESTART_SECONDS)

    async def _work(self, session: Session) -> None:
        """Consume for as long as the lease is ours."""
        await self._load(session)
        if not await self._lease.hold(session):
            # Another replica consumes; tell the truth about it all the same.
            if self._accepts(await self._owner.head()):
                self._pulse.alive()
            return
        try:
            self._compare_at = 0.0
            loop = asyncio.get_running_loop()
            while await self._lease.hold(session):
                renew_at = loop.time() + RENEW_SECONDS
                while (now := loop.time()) < renew_at:
                    if now >= self._compare_at:
                        await self._compare(session)
                    if self._pulse.refusal is not None:
                        return
                    await self._take(session, await self._pull.messages(renew_at - now))
        finally:
            if not session.is_closed():
                await self._lease.release(session)

    async def _load(self, session: Session) -> None:
        record = await session.fetchrow(_LOAD, self.name, self._source.name)
        assert record is not None
        self._incarnation, self._checkpoint = record

    # What the owner says

    async def _compare(self, session: Session) -> None:
        """Compare with the owner's head, and read from the owner what did not come."""
        now = asyncio.get_running_loop().time()
        self._compare_at = now + COMPARE_SECONDS
        if not self._pull.is_open:
            await self._open_pull()
        await self._retry_parked(session)
        try:
            head = await self._owner.head()
        except Exception as error:
            # What JetStream brings goes on having its effects.
            self._pulse.troubled(error)
            log.warning("the owner of the log does not answer", consumer=self.name, error=in_a_line(error))
            return
        if self._incarnation is None:
            await session.execute(_ADOPT, self.name, head.incarnation)
            await self._load(session)
        if not self._accepts(head):
            return
        if self._checkpoint < head.last and now - self._moved_at > SILENT_SECONDS:
            await self._read_from_owner(session, head.last)
            await self._open_pull()
        self._pulse.alive()

    def _accepts(self, head: Head) -> bool:
        """Whether this is the log that was consumed so far, and consuming it makes sense."""
        refusal = None
        if self._incarnation is not None and head.incarnation != self._incarnation:
            refusal = f"the log is {head.incarnation} now, what was consumed is {self._incarnation}"
        elif head.last < self._checkpoint:
            refusal = f"the log ends at {head.last}, before {self._checkpoint}, which was consumed"
        elif self.parked_failures >= FAILURES_MAX:
            refusal = f"{self.parked_failures} facts have failed"
        if refusal is None:
            self._pulse.compared(head.last)
            return True
        if refusal != self._pulse.refusal:
            log.error("consumer waits for an operator", consumer=self.name, reason=refusal)
        self._pulse.refusal = refusal
        return False

    async def _open_pull(self) -> None:
        try:
            await self._pull.open()
        except Exception as error:
            # NATS or the stream is away. Without them everything comes from the owner, every few seconds.
            log.warning("consumer has no stream", consumer=self.name, stream=self._source.name, error=repr(error))

    async def _read_from_owner(self, session: Session, up_to: int) -> None:
        while self._checkpoint < up_to:
            page = await self._owner.read(self._checkpoint, PAGE_FACTS)
            if page.head.incarnation != self._incarnation or not page.facts:
                # A restore came in between.
                self._compare_soon()
                return
            numbers = [fact.number for fact in page.facts]
            wanted = range(self._checkpoint + 1, self._checkpoint + 1 + len(numbers))
            assert numbers == list(wanted), f"the owner's log has a hole after {self._checkpoint}"
            await self._apply(session, page.facts)
            if not await self._lease.hold(session):
                raise Overtaken

    def _compare_soon(self) -> None:
        self._compare_at = min(self._compare_at, asyncio.get_running_loop().time() + COMPARE_SOON_SECONDS)

    # Messages

    async def _take(self, session: Session, messages: Sequence[Msg]) -> None:
        if not messages:
            return
        run: list[Fact] = []
        for message in messages:
            known = fact_of(message)
            if known is None:
                continue
            incarnation, fact = known
            if incarnation != self._incarnation:
                # Left from before a restore, or sent after one of which we have not been told: the owner knows.
                self._compare_soon()
                continue
            expected = self._checkpoint + len(run) + 1
            if fact.number > expected:
                await self._apply(session, run)
                run = []
                await self._read_from_owner(session, fact.number - 1)
                expected = self._checkpoint + 1
            # Lower numbers have had their effect.
            if fact.number == expected:
                run.append(fact)
        await self._apply(session, run)
        await messages[-1].ack()

    # Effects

    async def _apply(self, session: Session, facts: Sequence[Fact]) -> None:
        """Give facts their effects and move the checkpoint behind them; what fails for good is parked."""
        for start in range(0, len(facts), self._facts_at_once):
            together = facts[start : start + self._facts_at_once]
            try:
                await self._apply_together(session, together)
            except Exception as error:
                self._check_fault(error, session)
                for fact in together:
                    await self._apply_alone(session, fact)

    async def _apply_together(self, session: Session, facts: Sequence[Fact]) -> None:
        async with session.transaction():
            # First, so that whoever else works for this consumer waits here.
            await self._move(session, facts[-1].number)
            keys = [self._key_of(fact) for fact in facts]
            blocked = await self._parked.blocked(session, keys)
            for key, fact in zip(keys, facts, strict=True):
                if key in blocked:
                    await self._parked.park(session, key, fact, None, 0)
            await self._apply_effects(
                session, [fact for key, fact in zip(keys, facts, strict=True) if key not in blocked]
            )
        self._moved(facts[-1].number)
        self._committed()

    async def _apply_one_by_one(self, session: Session, facts: Sequence[Fact]) -> None:
        for fact in facts:
            await self._apply_effect(session, fact)

    async def _apply_alone(self, session: Session, fact: Fact) -> None:
        attempt = 1
        while True:
            try:
                await self._apply_together(session, [fact])
                return
            except Exception as error:
                self._check_fault(error, session)
                if attempt == ATTEMPTS:
                    await self._park(session, fact, error)
                    return
            await asyncio.sleep(ATTEMPT_PAUSE_SECONDS * attempt)
            attempt += 1

    async def _park(self, session: Session, fact: Fact, error: Exception) -> None:
        if self.parked_failures >= FAILURES_MAX:
            raise TooManyFailures(f"{self.parked_failures} facts have failed") from error
        try:
            key = self._key_of(fact)
        except Exception:
            key = fact.subject
        log.error("fact parked", consumer=self.name, fact=fact.number, subject=fact.subject, error=repr(error))
        async with session.transaction():
            await self._move(session, fact.number)
            await self._parked.park(session, key, fact, _text(error), ATTEMPTS)
        self.parked_failures += 1
        self._moved(fact.number)

    async def _move(self, session: Session, to: int) -> None:
        try:
            moved = await session.fetchval(_MOVE, self.name, self._incarnation, self._checkpoint, to)
        except QueryCanceledError:
            # Somebody works for this consumer for long, and no fact is at fault.
            moved = None
        if moved is None:
            raise Overtaken

    def _moved(self, to: int) -> None:
        self._checkpoint = to
        self._moved_at = asyncio.get_running_loop().time()
        self._pulse.alive()

    async def _retry_parked(self, session: Session) -> None:
        for key in await self._parked.to_retry(session):
            while await self._retry_first(session, key):
                pass
        self.parked_failures = await self._parked.failures(session)

    async def _retry_first(self, session: Session, key: str) -> bool:
        """Give the head of a key's queue its effect; answers whether to go on."""
        async with session.transaction():
            await session.execute(_LOCK, self.name)
            fact = await self._parked.first(session, key)
            if fact is None:
                return False
            try:
                async with session.transaction():
                    await self._apply_effect(session, fact)
            except Exception as error:
                self._check_fault(error, session)
                log.error("parked fact failed again", consumer=self.name, fact=fact.number, error=repr(error))
                await self._parked.failed_again(session, key, fact, _text(error))
                return False
            await self._parked.remove(session, fact)
        self._committed()
        return True

    @staticmethod
    def _check_fault(error: Exception, session: Session) -> None:
        """Pass on what is not the fact's fault: it will be tried again for as long as it takes."""
        if isinstance(error, QueryCanceledError):
            # A fact whose effect always takes too long is at fault.
            return
        temporary = isinstance(error, Overtaken | DeadlockDetectedError | SerializationError)
        if temporary or is_trouble(error, session):
            raise error


def _text(error: Exception) -> str:
    return "".join(traceback.format_exception(error))
