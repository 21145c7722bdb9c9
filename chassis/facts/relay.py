"""The relay: sends a service's facts to JetStream, in order, after they are committed."""

import asyncio
import contextlib
from typing import Final
from uuid import UUID

import structlog
from nats.aio.client import Client
from nats.js.errors import NoStreamResponseError

from chassis.database import Pool, Session
from chassis.facts.health import Pulse, Status
from chassis.facts.store import Fact, FactLog
from chassis.facts.stream import FactStream, headers_of
from chassis.lease import RENEW_SECONDS, Lease
from chassis.tasks import end

log = structlog.get_logger(__name__)

# Facts that other replicas commit are found by looking.
LOOK_SECONDS: Final = 0.1
PUBLISH_FACTS: Final = 256
PUBLISH_SECONDS: Final = 2.0
RESTART_SECONDS: Final = 0.5

# A log that was restored begins a new incarnation; the checkpoint was restored with it.
_LOAD: Final = """
    insert into relay_checkpoint (stream, incarnation, last)
    select $1, incarnation, 0 from fact_head
    on conflict (stream) do update
    set incarnation = excluded.incarnation, last = least(relay_checkpoint.last, (select last from fact_head))
    returning incarnation, last"""
_ADVANCE: Final = "update relay_checkpoint set last = greatest(last, $3) where stream = $1 and incarnation = $2"


class Relay:
    """One of a service's relays: the one that holds the lease sends. Two that send at once do no harm."""

    def __init__(self, pool: Pool, nats: Client, stream: FactStream) -> None:
        self._pool = pool
        self._nats = nats
        self._jetstream = nats.jetstream(timeout=PUBLISH_SECONDS)
        self._stream = stream
        self._lease = Lease(f"relay {stream.name}")
        self._pulse = Pulse()
        self._facts = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._incarnation: UUID | None = None
        self._last = 0

    @property
    def status(self) -> Status:
        """How far it is."""
        return self._pulse.status(self._last)

    def wake(self) -> None:
        """There are facts: `GroupWriter`'s `on_facts`."""
        self._facts.set()

    async def start(self) -> None:
        """Begin to relay; what is needed may be away."""
        assert self._task is None, "started twice"
        self._task = asyncio.create_task(self._run(), name=f"relay {self._stream.name}")

    async def stop(self) -> None:
        """End; what was not relayed yet is relayed by the next one."""
        if self._task is not None:
            await end(self._task)
            self._task = None

    async def _run(self) -> None:
        while True:
            try:
                async with self._pool.acquire() as session:
                    await self._work(session)
            except Exception as error:
                self._pulse.troubled(error)
                log.warning("relay stumbled", stream=self._stream.name, error=repr(error))
            await asyncio.sleep(RESTART_SECONDS)

    async def _work(self, session: Session) -> None:
        """Relay for as long as the lease is ours."""
        if not await self._lease.hold(session):
            await self._stand_by(session)
            return
        try:
            await self._load(session)
            # Consumers look for it, also where there are no facts yet.
            await self._stream.ensure(self._nats)
            loop = asyncio.get_running_loop()
            renew_at = loop.time() + RENEW_SECONDS
            while True:
                self._facts.clear()
                await self._relay_page(session)
                if loop.time() >= renew_at:
                    if not await self._lease.hold(session):
                        return
                    renew_at = loop.time() + RENEW_SECONDS
        finally:
            if not session.is_closed():
                await self._lease.release(session)

    async def _load(self, session: Session) -> None:
        record = await session.fetchrow(_LOAD, self._stream.name)
        assert record is not None
        self._incarnation, self._last = record

    async def _stand_by(self, session: Session) -> None:
        """Another replica relays; tell the truth about it all the same."""
        await self._load(session)
        self._pulse.compared((await FactLog(session).head()).last)
        self._pulse.alive()

    async def _relay_page(self, session: Session) -> None:
        page = await FactLog(session).read(self._last, PUBLISH_FACTS)
        if page.head.incarnation != self._incarnation:
            await self._load(session)
            return
        self._pulse.compared(page.head.last)
        if page.facts:
            await self._send(session, page.facts)
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._facts.wait()
        self._pulse.alive()

    async def _send(self, session: Session, facts: list[Fact]) -> None:
        """Send facts and move the checkpoint behind those that JetStream has; fails where it has not all."""
        answers = await asyncio.gather(*map(self._publish, facts), return_exceptions=True)
        failures = [(fact, answer) for fact, answer in zip(facts, answers, strict=True) if answer is not None]
        last = failures[0][0].number - 1 if failures else facts[-1].number
        if last > self._last:
            await session.execute(_ADVANCE, self._stream.name, self._incarnation, last)
            self._last = last
        if not failures:
            return
        error = failures[0][1]
        if not isinstance(error, NoStreamResponseError):
            raise error
        # The stream is gone, or was never there. What it had is not sent again: consumers read it from us.
        await self._stream.ensure(self._nats)

    async def _publish(self, fact: Fact) -> None:
        assert self._incarnation is not None
        headers = headers_of(self._incarnation, fact)
        await self._jetstream.publish(fact.subject, fact.payload, headers=headers)
