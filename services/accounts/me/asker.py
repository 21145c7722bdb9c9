"""Asks one source for snapshots, for all feeds of this replica: so many at once, in the order of their wishes."""

import asyncio
from typing import Final

import grpc
import structlog

from chassis.errors import Refused, in_a_line
from chassis.tasks import Background
from services.accounts.me.feed import Feed
from services.accounts.me.sources import Source

log = structlog.get_logger(__name__)

AT_ONCE: Final = 16
RETRY_SECONDS: Final = 1.0


class Asker:
    """The questions to one source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._name = source.topic.source
        # Open feeds, with the loop time of the last question.
        self._asked_at: dict[Feed, float] = {}
        # Feeds to ask for, in order, and those that are being asked for.
        self._wanted: dict[Feed, None] = {}
        self._under_way: set[Feed] = set()
        self._news = asyncio.Event()
        self._workers = Background()

    def start(self) -> None:
        """Begin to ask."""
        for _ in range(AT_ONCE):
            self._workers.spawn(f"ask {self._name}", self._work())

    async def stop(self) -> None:
        """Ask no more."""
        await self._workers.stop()

    def want(self, feed: Feed) -> None:
        """Ask for this feed with a question that is not put yet."""
        self._asked_at.setdefault(feed, 0.0)
        self._wanted[feed] = None
        self._news.set()

    def want_those_before(self, time: float) -> None:
        """Ask again for feeds for which nothing was asked since this loop time."""
        for feed, asked_at in self._asked_at.items():
            if asked_at < time and feed not in self._under_way:
                self.want(feed)

    def forget(self, feed: Feed) -> None:
        """The feed is closed."""
        self._asked_at.pop(feed, None)
        self._wanted.pop(feed, None)

    async def _work(self) -> None:
        while True:
            feed = self._next()
            if feed is None:
                self._news.clear()
                await self._news.wait()
                continue
            self._under_way.add(feed)
            try:
                await self._ask(feed)
            finally:
                self._under_way.discard(feed)
                # It may be wanted again already, and was passed over meanwhile.
                self._news.set()

    def _next(self) -> Feed | None:
        # One question at a time for each feed: what was heard since a question belongs to that one.
        feed = next((feed for feed in self._wanted if feed not in self._under_way), None)
        if feed is not None:
            del self._wanted[feed]
        return feed

    async def _ask(self, feed: Feed) -> None:
        loop = asyncio.get_running_loop()
        began_at = self._asked_at[feed] = loop.time()
        feed.begin(self._name)
        try:
            snapshot = await self._source.snapshot(feed.account_id)
        except Exception as error:
            if isinstance(error, Refused) and error.code is grpc.StatusCode.NOT_FOUND:
                feed.refuse(error)
                return
            log.warning("a source does not answer", source=self._name, error=in_a_line(error))
            feed.miss(self._name, began_at)
            loop.call_later(RETRY_SECONDS, self._want_if_open, feed)
        else:
            feed.take(self._name, snapshot, began_at)

    def _want_if_open(self, feed: Feed) -> None:
        if feed in self._asked_at:
            self.want(feed)
