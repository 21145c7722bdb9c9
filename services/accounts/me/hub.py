"""All feeds of this replica: what they hear, and when they ask.

Live updates come over core NATS, which may lose them. So every source is asked when a stream opens, when the way was
lost for a while, and now and then in any case, since a service may die between its commit and what it publishes.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID, uuid4

import grpc
import structlog
from google.protobuf.message import DecodeError
from levata.me.v1 import me_pb2, updates_pb2
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chassis.errors import Refused
from chassis.tasks import Background
from services.accounts.me.asker import Asker
from services.accounts.me.feed import ACCOUNT, Feed
from services.accounts.me.sources import Source
from services.accounts.me.stream import Heartbeats, Stream

log = structlog.get_logger(__name__)

# An account's updates, from whichever service.
SUBJECT: Final = "levata.me.{account}"
# This service's own facts, as its relay sends them after the commit; and those that tell of another state.
OWN_FACTS: Final = "levata.accounts.*.*"
_CHANGES: Final = frozenset({"registered", "renamed", "deleted"})

_HEARTBEAT: Final = me_pb2.WatchResponse(heartbeat=me_pb2.Heartbeat())

ROUND_TRIP_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 0.5
# How often every source is asked in any case: while updates can be heard, and while they cannot.
REFRESH_SECONDS: Final = 60.0
REFRESH_DEAF_SECONDS: Final = 3.0


class Hub(Collector):
    """The feeds by account. Without NATS they are refreshed often, and hear nothing."""

    def __init__(self, nats: Client | None, sources: Sequence[Source]) -> None:
        self._nats = nats
        self._topics = [source.topic for source in sources]
        self._askers = {source.topic.source: Asker(source) for source in sources}
        self._feeds: dict[UUID, Feed] = {}
        # Of feeds that hear already.
        self._subscriptions: dict[Feed, Subscription | None] = {}
        # Marks on their way through the server and back, on a subject of this replica's own.
        self._marks: dict[bytes, asyncio.Event] = {}
        self._marks_subject = SUBJECT.format(account=uuid4())
        self._heartbeats = Heartbeats(me_pb2.WatchResponse.HEARTBEAT_FIELD_NUMBER, _HEARTBEAT.SerializeToString())
        self._background = Background()
        self._stopping = False

    async def start(self) -> None:
        """Begin to hear and to ask."""
        if self._nats is not None:
            await self._nats.subscribe(self._marks_subject, cb=self._on_mark)
            await self._nats.subscribe(OWN_FACTS, cb=self._on_own_fact)
        self._background.spawn("refresh the feeds", self._refresh())
        self._background.spawn("heartbeats", self._heartbeats.run())

    async def stop(self) -> None:
        """End all streams in order; their clients watch again, elsewhere."""
        self._stopping = True
        for feed in self._feeds.values():
            feed.close("DRAINING")
        for asker in self._askers.values():
            await asker.stop()
        await self._background.stop()

    async def watch(self, account_id: UUID, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Write all that is told of an account, until that ends."""
        async with self._stream(account_id) as stream:
            await stream.pump(write, self._heartbeats)

    @asynccontextmanager
    async def _stream(self, account_id: UUID) -> AsyncIterator[Stream]:
        if self._stopping:
            raise Refused("TEMPORARILY_UNAVAILABLE", grpc.StatusCode.UNAVAILABLE, "This replica stops; call again.")
        feed = self._feeds.get(account_id)
        if feed is None:
            feed = self._feeds[account_id] = Feed(account_id, self._topics)
            self._background.spawn("begin a feed", self._begin(feed))
        stream = feed.join(asyncio.get_running_loop().time())
        if feed in self._subscriptions:
            self._ask_all(feed)
        try:
            yield stream
        finally:
            feed.streams.discard(stream)
            if not feed.streams:
                self._close(feed)

    def _close(self, feed: Feed) -> None:
        del self._feeds[feed.account_id]
        for asker in self._askers.values():
            asker.forget(feed)
        if not self._stopping:
            self._background.spawn("end a feed", self._unsubscribe(feed))

    # Hearing

    async def _begin(self, feed: Feed) -> None:
        """First hear, then ask: so that nothing falls between."""

        async def on_update(message: Msg) -> None:
            try:
                update = updates_pb2.Update.FromString(message.data)
            except DecodeError:
                log.warning("an update cannot be decoded")
            else:
                feed.hear(update)

        subscription = None
        if self._nats is not None:
            subscription = await self._nats.subscribe(SUBJECT.format(account=feed.account_id), cb=on_update)
            await self._round_trip()
        self._subscriptions[feed] = subscription
        if feed.streams:
            self._ask_all(feed)
        else:
            await self._unsubscribe(feed)

    async def _unsubscribe(self, feed: Feed) -> None:
        subscription = self._subscriptions.pop(feed, None)
        if subscription is not None and self._nats is not None and not self._nats.is_closed:
            await subscription.unsubscribe()

    async def _round_trip(self) -> None:
        """Wait until the server has all that was sent to it before; it gives up while the server is away. A mark that
        comes back shows it: nats-py's own flush does not."""
        if self._deaf:
            return
        assert self._nats is not None
        mark = os.urandom(8)
        came = self._marks[mark] = asyncio.Event()
        try:
            async with asyncio.timeout(ROUND_TRIP_SECONDS):
                await self._nats.publish(self._marks_subject, mark)
                await came.wait()
        except TimeoutError:
            log.warning("nats does not answer; feeds may hear late")
        finally:
            del self._marks[mark]

    async def _on_mark(self, message: Msg) -> None:
        came = self._marks.get(message.data)
        if came is not None:
            came.set()

    async def _on_own_fact(self, message: Msg) -> None:
        kind, account = message.subject.rsplit(".", 2)[1:]
        feed = self._feeds.get(UUID(account)) if kind in _CHANGES else None
        if feed is not None:
            self._askers[ACCOUNT.source].want(feed)

    @property
    def _deaf(self) -> bool:
        return self._nats is None or not self._nats.is_connected

    # Asking

    def _ask_all(self, feed: Feed) -> None:
        for asker in self._askers.values():
            asker.want(feed)

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        reconnects, looked_at = self._reconnects, loop.time()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before, looked_at = looked_at, loop.time()
            # In so many seconds everybody has a turn, and in each of them as many as in any other, also of those who
            # came all at once.
            share = (looked_at - before) / (REFRESH_DEAF_SECONDS if self._deaf else REFRESH_SECONDS)
            if reconnects != self._reconnects and not self._deaf:
                reconnects = self._reconnects
                await self._round_trip()
                share = 1.0
            for asker in self._askers.values():
                asker.refresh(share)

    @property
    def _reconnects(self) -> int:
        """How often the way was lost and found again: what was published meanwhile was not heard."""
        return 0 if self._nats is None else self._nats.stats["reconnects"]

    def collect(self) -> Iterable[Metric]:
        """Called by Prometheus' own thread."""
        feeds = list(self._feeds.values())
        yield GaugeMetricFamily("levata_me_accounts", "Accounts with a stream of Me.Watch here.", value=len(feeds))
        streams = sum(len(feed.streams) for feed in feeds)
        yield GaugeMetricFamily("levata_me_streams", "Streams of Me.Watch here.", value=streams)
