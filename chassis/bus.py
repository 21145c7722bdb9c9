"""NATS: a connection that gives up neither the server nor itself."""

from typing import Final
from urllib.parse import urlsplit

import nats
import structlog
from nats.aio.client import Client

log = structlog.get_logger(__name__)

# A server that has stopped, or that we cannot reach, is noticed in about two seconds.
PING_SECONDS: Final = 1
PINGS_UNANSWERED_MAX: Final = 2
RECONNECT_SECONDS: Final = 0.25
CONNECT_SECONDS: Final = 2


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
