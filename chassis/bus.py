"""NATS: a connection that gives up neither the server nor itself, and a way to send without waiting."""

import asyncio
from collections import deque
from typing import Final
from urllib.parse import urlsplit

import nats
import structlog
from nats.aio.client import Client

from chassis.tasks import end

log = structlog.get_logger(__name__)

# A server that has stopped, or that we cannot reach, is noticed in about two seconds.
PING_SECONDS: Final = 1
PINGS_UNANSWERED_MAX: Final = 2
RECONNECT_SECONDS: Final = 0.25
CONNECT_SECONDS: Final = 2
# Messages that wait while the server takes none; more are dropped, the newest first.
OUTBOX_MAX: Final = 20_000


async def connect(url: str, name: str) -> Client:
    """Connect as the user in `url`; replies come to that user's own inboxes, as the server demands."""
    user = urlsplit(url).username

    async def on_error(error: Exception) -> None:
        log.warning("nats", error=repr(error))

    async def on_disconnected() -> None:
        log.warning("nats is away")

    async def on_reconnected() -> None:
        log.info("nats is back")

    return await nats.connect(
        url,
        name=name,
        inbox_prefix=f"_INBOX.{user}" if user else "_INBOX",
        ping_interval=PING_SECONDS,
        max_outstanding_pings=PINGS_UNANSWERED_MAX,
        # For ever: without NATS the service goes on, slower.
        max_reconnect_attempts=-1,
        reconnect_time_wait=RECONNECT_SECONDS,
        connect_timeout=CONNECT_SECONDS,
        error_cb=on_error,
        disconnected_cb=on_disconnected,
        reconnected_cb=on_reconnected,
    )


async def close(client: Client) -> None:
    """Close a connection, whatever state it is in: with its server gone meanwhile, the library fails at this."""
    try:
        await client.close()
    except Exception as error:
        log.warning("nats is not closed in order", error=repr(error))


class Outbox:
    """Messages on their way out, for who must not wait. Only for what may be lost: nothing is kept for later while the
    server is away, and nothing grows."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: deque[tuple[str, bytes, str]] = deque()
        self._woken: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to send."""
        assert self._task is None, "started twice"
        self._task = asyncio.create_task(self._send_all(), name="outbox")

    async def stop(self) -> None:
        """Send nothing more."""
        if self._task is not None:
            await end(self._task)
            self._task = None

    def send(self, subject: str, payload: bytes, reply: str = "") -> None:
        """Send a message soon, or drop it."""
        if self._client.is_connected and len(self._waiting) < OUTBOX_MAX:
            self._waiting.append((subject, payload, reply))
            if self._woken is not None and not self._woken.done():
                self._woken.set_result(None)

    async def _send_all(self) -> None:
        waiting = self._waiting
        while True:
            while waiting:
                subject, payload, reply = waiting.popleft()
                try:
                    await self._client.publish(subject, payload, reply)
                except Exception as error:
                    log.warning("a message is dropped", subject=subject, error=repr(error))
            self._woken = asyncio.get_running_loop().create_future()
            await self._woken
