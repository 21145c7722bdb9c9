"""What a server knows of sessions that were ended before their tokens have run out.

They are facts of the accounts service. Each replica hears them from NATS as they are relayed, and every few seconds
reads what it has not read yet from the accounts' log, which is the truth: the first is quick, the second is sure. What
was revoked while the replica did not run is read from as far back as a token lives. While accounts is away a replica
goes on with what it knows; nobody can be signed out meanwhile either, except by another replica of accounts.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, Protocol
from uuid import UUID

import structlog
from google.protobuf.message import DecodeError
from levata.accounts.v1 import facts_pb2
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from chassis.clock import Clock
from chassis.errors import in_a_line
from chassis.facts import RemoteFacts, Report, Status
from chassis.facts.health import Pulse
from chassis.facts.store import Head, Page
from chassis.rpc import Server
from chassis.settings import Settings
from chassis.tasks import end

log = structlog.get_logger(__name__)

# What it is called in health and figures.
NAME: Final = "levata.facts.revocations"

_SUBJECT: Final = "levata.accounts.session_revoked."
READ_SECONDS: Final = 3.0
# Log time and the clock that signs tokens are the same database's; what is relayed and committed late is behind it.
LOOK_BACK_MORE_SECONDS: Final = 60


@asynccontextmanager
async def heard(
    server: Server, settings: Settings, nats: Client | None, clock: Clock, accounts: "AccountsFacts | None" = None
) -> AsyncIterator[list[Report]]:
    """Have `server` know of revoked sessions, and tell in health and figures how it stands with that.

    The log is read from the replicas of accounts, or is `accounts`, in that service itself. Where neither is there, as
    in a bench of one service alone, nothing is heard.
    """
    async with AsyncExitStack() as stack:
        if accounts is None and "accounts" in settings.peers:
            addresses = settings.peers["accounts"]
            accounts = await stack.enter_async_context(RemoteFacts.at(addresses, settings.service_token))
        if accounts is None:
            yield []
            return
        revocations = Revocations(server, accounts, nats, clock, settings.access_token_seconds)
        await revocations.start()
        stack.push_async_callback(revocations.stop)
        report = Report(NAME, lambda: revocations.status)
        health = asyncio.create_task(report.keep_health(server), name="health of revocations")
        stack.push_async_callback(end, health)
        yield [report]


class AccountsFacts(Protocol):
    """The accounts' log: `RemoteFacts`, or in accounts itself a `FactLog`."""

    async def before(self, at_us: int) -> Head:
        """The last number with a time before this one."""
        ...

    async def read(self, after: int) -> Page:
        """Facts after a number, in order."""
        ...


class Revocations:
    """Tells a server which sessions were revoked."""

    def __init__(
        self, server: Server, accounts: AccountsFacts, nats: Client | None, clock: Clock, token_seconds: int
    ) -> None:
        """`token_seconds` is how long an access token lives at most. Without NATS it only reads."""
        self._server = server
        self._accounts = accounts
        self._nats = nats
        self._clock = clock
        self._look_back_us = (token_seconds + LOOK_BACK_MORE_SECONDS) * 1_000_000
        self._pulse = Pulse()
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None
        # Which log it has read, and up to where; None before the first time.
        self._incarnation: UUID | None = None
        self._last = 0

    @property
    def status(self) -> Status:
        """How far it has read."""
        return self._pulse.status(self._last)

    async def start(self) -> None:
        """Begin to listen and to read; accounts may be away."""
        assert self._task is None, "started twice"
        if self._nats is not None:
            self._subscription = await self._nats.subscribe(f"{_SUBJECT}*", cb=self._on_message)
        self._task = asyncio.create_task(self._keep_reading(), name="revoked sessions")

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            await end(self._task)
            self._task = None
        if self._subscription is not None:
            with contextlib.suppress(NatsError):
                await self._subscription.unsubscribe()
            self._subscription = None

    async def _on_message(self, message: Msg) -> None:
        self._take(message.subject, message.data)

    async def _keep_reading(self) -> None:
        troubled = False
        while True:
            try:
                await self._read()
                troubled = False
            except Exception as error:
                self._pulse.troubled(error)
                if not troubled:
                    log.warning("cannot read which sessions were revoked", error=in_a_line(error))
                troubled = True
            self._server.forget_expired_revocations()
            await asyncio.sleep(READ_SECONDS)

    async def _read(self) -> None:
        """Read up to the head."""
        if self._incarnation is None:
            begin = await self._accounts.before(self._clock.now_us() - self._look_back_us)
            self._incarnation, self._last = begin.incarnation, begin.last
        while True:
            page = await self._accounts.read(self._last)
            if page.head.incarnation != self._incarnation:
                # The log was restored from a backup. What is known stays; the new one is read from as far back as any.
                log.warning("the log of accounts is another", incarnation=str(page.head.incarnation))
                self._incarnation = None
                return await self._read()
            for fact in page.facts:
                self._take(fact.subject, fact.payload)
                self._last = fact.number
            self._pulse.compared(page.head.last)
            self._pulse.alive()
            if self._last >= page.head.last or not page.facts:
                return None

    def _take(self, subject: str, payload: bytes) -> None:
        """Revoke a session, if the fact says so. One that cannot be read does not keep the others from being heard."""
        if not subject.startswith(_SUBJECT):
            return
        try:
            revoked = facts_pb2.AccountFact.FromString(payload).session_revoked
            session = str(UUID(revoked.session_id))
        except (DecodeError, ValueError):
            log.error("not the fact of a revoked session", subject=subject)
            return
        self._server.revoke(session, revoked.tokens_expire_at_s)
