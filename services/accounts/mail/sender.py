"""Sends what is in the outbox, over any number of replicas together.

A mail that is taken is either sent, put back for later, or given up with a reason; if the process dies in between, the
lease on it ends and another one takes it. So it may be sent twice, and it is never lost in silence.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from email.headerregistry import Address
from typing import Final
from uuid import UUID

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chassis.clock import Clock
from chassis.rpc import Server
from chassis.tasks import end
from services.accounts.mail.delivery import Deferred, MailAway, Message, Session, Transport, Undeliverable
from services.accounts.mail.letters import code_letter
from services.accounts.mail.message import compose
from services.accounts.mail.outbox import Backlog, Mail, Outbox

log = structlog.get_logger(__name__)

# Mails under way at once, each over a session of its own.
WORKERS: Final = 4
# What other replicas left, and what was put back, is found by looking.
LOOK_SECONDS: Final = 2.0
RETRY_SECONDS_MAX: Final = 60.0
# The pause of a worker that cannot send at all.
AWAY_SECONDS_MAX: Final = 15.0
WATCH_SECONDS: Final = 1.0
FORGET_SECONDS: Final = 3600.0
# A mail that waits for so long is delayed: people begin to ask for another one.
DELAYED_SECONDS: Final = 30.0
# What is told of the mails in health.
HEALTH: Final = "levata.accounts.mail"


class Sender(Collector):
    """The workers of one replica, and what they tell about themselves."""

    def __init__(
        self,
        outbox: Outbox,
        transport: Transport,
        sender: Address,
        code_of: Callable[[UUID], str],
        clock: Clock,
        *,
        timeout_seconds: float,
        retry_seconds: float,
    ) -> None:
        self._outbox = outbox
        self._transport = transport
        self._sender = sender
        self._code_of = code_of
        self._clock = clock
        # Connecting and sending may take a time-out each; who takes longer is dead.
        self._lease_seconds = 2 * timeout_seconds + 10
        self._retry_seconds = retry_seconds
        # One for each worker that has to look: all at once would look in vain, but for one.
        self._news: asyncio.Queue[None] = asyncio.Queue(WORKERS)
        self._tasks: list[asyncio.Task[None]] = []
        self._backlog = Backlog(0, 0)
        self._outcomes = Counter(dict.fromkeys(("sent", "deferred", "undeliverable", "expired"), 0))

    @property
    def delayed(self) -> bool:
        """Whether mails wait for longer than anybody should."""
        return self._backlog.oldest_seconds > DELAYED_SECONDS

    def wake(self) -> None:
        """There is one more in the outbox."""
        with contextlib.suppress(asyncio.QueueFull):
            self._news.put_nowait(None)

    async def start(self, server: Server) -> None:
        """Begin to send, and to tell in the server's health whether mail is delayed."""
        work = [self._work() for _ in range(WORKERS)]
        self._tasks = [asyncio.create_task(coroutine, name="mail") for coroutine in (*work, self._watch(server))]

    async def stop(self) -> None:
        """Send no more; a mail that is under way is taken by another replica once its lease ends."""
        await asyncio.gather(*map(end, self._tasks))

    # Sending

    async def _work(self) -> None:
        pause = self._retry_seconds
        while True:
            try:
                mail = await self._outbox.claim(self._lease_seconds)
                if mail is not None:
                    await self._send_all_from(mail)
                    pause = self._retry_seconds
                    continue
            except Exception as error:
                # Of the database too; what became of a mail then is told by its lease.
                log.warning("mails cannot be sent now", error=_in_a_line(error), pause=pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, AWAY_SECONDS_MAX)
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._news.get()

    async def _send_all_from(self, mail: Mail | None) -> None:
        """Send this mail and all that are due after it, over one session."""
        try:
            async with self._transport.session() as session:
                while mail is not None:
                    mail = await self._send(session, mail)
        except MailAway:
            if mail is not None:
                await self._put_back(mail)
            raise

    async def _send(self, session: Session, mail: Mail) -> Mail | None:
        """Send a mail, and take the next one."""
        try:
            await session.send(self._composed(mail))
        except Deferred as deferred:
            log.info("a mail is put off", mail=str(mail.mail_id), reason=str(deferred), attempts=mail.attempts)
            self._outcomes["deferred"] += 1
            await self._put_back(mail)
        except Undeliverable as undeliverable:
            log.warning("a mail is given up", mail=str(mail.mail_id), reason=str(undeliverable))
            self._outcomes["undeliverable"] += 1
            await self._outbox.give_up(mail, str(undeliverable))
        else:
            self._outcomes["sent"] += 1
            return await self._outbox.sent(mail, self._lease_seconds)
        return await self._outbox.claim(self._lease_seconds)

    def _composed(self, mail: Mail) -> Message:
        letter = code_letter(self._code_of(mail.code_id), mail.seconds_left, mail.language)
        at = datetime.fromtimestamp(self._clock.now_s(), UTC)
        return compose(letter, self._sender, mail.address, mail.mail_id, at)

    async def _put_back(self, mail: Mail) -> None:
        pause = min(self._retry_seconds * 2 ** (mail.attempts - 1), RETRY_SECONDS_MAX)
        await self._outbox.put_back(mail, pause)

    # Telling

    async def _watch(self, server: Server) -> None:
        """Give up what has expired, measure what waits, and say when mail begins or ceases to be delayed."""
        loop = asyncio.get_running_loop()
        told: bool | None = None
        forget_at = 0.0
        while True:
            try:
                for expired in await self._outbox.give_up_expired():
                    log.error("a mail has expired unsent", mail=str(expired.mail_id), attempts=expired.attempts)
                    self._outcomes["expired"] += 1
                await self._outbox.drop_unwanted()
                self._backlog = await self._outbox.backlog()
                if loop.time() >= forget_at:
                    await self._outbox.forget()
                    forget_at = loop.time() + FORGET_SECONDS
            except Exception as error:
                log.warning("the outbox cannot be looked at", error=_in_a_line(error))
            if self.delayed is not told:
                told = self.delayed
                await server.set_health(HEALTH, not told)
                say = log.error if told else log.info
                say("mail is delayed" if told else "mail is in time", waiting=self._backlog.waiting)
            await asyncio.sleep(WATCH_SECONDS)

    def collect(self) -> Iterable[Metric]:
        """Called by Prometheus' own thread."""
        mails = CounterMetricFamily("levata_mails", "What became of mails, each attempt once.", labels=["outcome"])
        for outcome, count in self._outcomes.items():
            mails.add_metric([outcome], count)
        yield mails
        yield GaugeMetricFamily("levata_mails_waiting", "Mails in the outbox.", value=self._backlog.waiting)
        oldest = self._backlog.oldest_seconds
        yield GaugeMetricFamily("levata_mails_oldest_seconds", "How long the oldest of them waits.", value=oldest)


def _in_a_line(error: Exception) -> str:
    """Without what Postgres would tell of a row's values in its detail."""
    return str(error) if isinstance(error, MailAway) else type(error).__name__
