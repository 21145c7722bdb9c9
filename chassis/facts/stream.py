"""Facts as JetStream carries them, and the pull by which a consumer gets them.

A stream may lose messages, also the last ones and also all of them: nothing here is more than a fast copy.
"""

import asyncio
import contextlib
import json
from collections import deque
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, DiscardPolicy, StreamConfig
from nats.js.errors import BadRequestError

from chassis.facts.store import Fact

log = structlog.get_logger(__name__)

MESSAGE_ID: Final = "Nats-Msg-Id"
INCARNATION: Final = "Levata-Incarnation"
NUMBER: Final = "Levata-Fact"
AT_US: Final = "Levata-At"

# The server's answers to a pull, as opposed to messages.
_STATUS: Final = "Status"
_TIME_IS_OVER: Final = "408"

# Within it the server drops a second copy, as two relays send; consumers do not depend on that.
DUPLICATE_WINDOW_SECONDS: Final = 120
KEEP_SECONDS: Final = 7 * 86_400
KEEP_BYTES: Final = 1 << 30

PULL_MESSAGES: Final = 256
# The server ends a pull after so long; one of which nothing was heard for longer is dead.
PULL_SECONDS: Final = 3.0
PULL_DEAD_SECONDS: Final = 4.0
ACK_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class FactStream:
    """A JetStream stream and the subjects that it keeps."""

    name: str
    subjects: str
    replicas: int = 1

    async def ensure(self, nats: Client) -> None:
        """Make the stream, or bring it to this configuration."""
        jetstream = nats.jetstream()
        wanted = StreamConfig(
            name=self.name,
            subjects=[self.subjects],
            num_replicas=self.replicas,
            discard=DiscardPolicy.OLD,
            max_age=KEEP_SECONDS,
            max_bytes=KEEP_BYTES,
            duplicate_window=DUPLICATE_WINDOW_SECONDS,
        )
        try:
            await jetstream.add_stream(wanted)
        except BadRequestError:
            # It is there with another configuration.
            await jetstream.update_stream(wanted)


GAMES: Final = FactStream("GAMES", "levata.games.>")
ACCOUNTS: Final = FactStream("ACCOUNTS", "levata.accounts.>")
LEDGER: Final = FactStream("LEDGER", "levata.ledger.>")
LEAGUE: Final = FactStream("LEAGUE", "levata.league.>")
MATCHES: Final = FactStream("MATCHES", "levata.matches.>")


def headers_of(incarnation: UUID, fact: Fact) -> dict[str, str]:
    """A fact's message headers."""
    return {
        MESSAGE_ID: f"{incarnation}:{fact.number}",
        INCARNATION: str(incarnation),
        NUMBER: str(fact.number),
        AT_US: str(fact.at_us),
    }


def fact_of(message: Msg) -> tuple[UUID, Fact] | None:
    """The fact in a message and its log's incarnation; None for a message that no relay sent."""
    headers = message.headers or {}
    try:
        fact = Fact(int(headers[NUMBER]), message.subject, message.data, int(headers[AT_US]))
        return UUID(headers[INCARNATION]), fact
    except (KeyError, ValueError):
        log.error("not a fact", subject=message.subject, headers=headers)
        return None


class Pull:
    """Messages of a durable consumer, as they come.

    nats-py's own `fetch` waits for a whole batch once a first message has come, and a pull under way is lost without a
    word when the connection is. Here each message is handed out at once, and an overdue pull is asked for anew. What is
    broken, or silent though the owner has more, the consumer opens anew.
    """

    def __init__(self, nats: Client, stream: str, durable: str) -> None:
        self._nats = nats
        self._stream = stream
        self._durable = durable
        self._subscription: Subscription | None = None
        self._inbox = ""
        self._received: deque[Msg] = deque()
        self._arrived = asyncio.Event()
        # Messages that the pull under way may still bring, and when it counts as dead.
        self._due = 0
        self._dead_at = 0.0
        self._broken = False

    @property
    def is_open(self) -> bool:
        """Whether messages can come, as far as one knows."""
        return self._subscription is not None and not self._broken

    async def open(self) -> None:
        """Make the durable consumer if it is missing, and begin. Fails while NATS or the stream is away."""
        await self.close()
        await self._nats.jetstream().add_consumer(
            self._stream,
            ConsumerConfig(
                durable_name=self._durable,
                # What is older is read from the owner.
                deliver_policy=DeliverPolicy.NEW,
                # They are handled in order: one answer acknowledges all before it.
                ack_policy=AckPolicy.ALL,
                ack_wait=ACK_SECONDS,
                max_ack_pending=4 * PULL_MESSAGES,
            ),
        )
        self._inbox = self._nats.new_inbox()
        self._subscription = await self._nats.subscribe(self._inbox, cb=self._on_message)

    async def close(self) -> None:
        """Forget the pull and what it brought; unacknowledged messages come again."""
        subscription, self._subscription = self._subscription, None
        self._received.clear()
        self._due = 0
        self._broken = False
        if subscription is not None:
            with contextlib.suppress(NatsError):
                await subscription.unsubscribe()

    async def messages(self, seconds: float) -> list[Msg]:
        """What has come, at once; if nothing has, wait for the first message, but no longer than `seconds`."""
        if not self._received:
            self._arrived.clear()
            await self._ask()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._arrived.wait()
        messages = list(self._received)
        self._received.clear()
        return messages

    async def _ask(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self.is_open or (self._due > 0 and now < self._dead_at):
            return
        self._due = PULL_MESSAGES
        self._dead_at = now + PULL_DEAD_SECONDS
        request = {"batch": PULL_MESSAGES, "expires": int(PULL_SECONDS * 1e9)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._durable}"
        await self._nats.publish(subject, json.dumps(request).encode(), self._inbox)

    async def _on_message(self, message: Msg) -> None:
        status = message.headers and message.headers.get(_STATUS)
        if status and not message.data:
            self._due = 0
            # Anything else than the end of its time: the durable consumer is gone, or its server.
            self._broken = status != _TIME_IS_OVER
        else:
            self._due -= 1
            self._received.append(message)
        self._arrived.set()
