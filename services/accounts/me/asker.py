"""Asks one source for snapshots, for all feeds of this replica: for many feeds in one question, and so many at once.

There is no timer. A lone feed is asked for at once; feeds that are wanted while questions are under way go together
into the next one.
"""

import asyncio
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Final

import grpc
import structlog

from chassis.errors import Refused, in_a_line
from chassis.tasks import Background
from services.accounts.me.feed import Feed
from services.accounts.me.sources import ACCOUNTS_MAX, Source

log = structlog.get_logger(__name__)

# Questions at once: so many full ones, and of others so few that they fill up where many feeds are wanted. While one
# waits for a replica that stalls, another goes on; one is kept for feeds for which somebody waits.
AT_ONCE: Final = 8
NOT_FULL_AT_ONCE: Final = 2
RETRY_SECONDS: Final = 1.0


class Asker:
    """The questions to one source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._name = source.topic.source
        # Open feeds; those for which nothing was asked for the longest come first.
        self._feeds: dict[Feed, None] = {}
        # Feeds to ask for, in order: those for which somebody waits, and after them all others.
        self._wanted: dict[Feed, None] = {}
        self._due: dict[Feed, None] = {}
        # Feeds that are being asked for, and in how many questions.
        self._under_way: set[Feed] = set()
        self._questions = 0
        # What is left of the shares so far: less than one feed.
        self._left_over = 0.0
        self._asking = Background()
        self._is_awake = False
        self._stopping = False

    async def stop(self) -> None:
        """Ask no more."""
        self._stopping = True
        await self._asking.stop()

    def want(self, feed: Feed) -> None:
        """Ask for this feed with a question that is not put yet, before all that is only refreshed."""
        self._feeds.setdefault(feed)
        self._due.pop(feed, None)
        self._wanted[feed] = None
        self._wake()

    def refresh(self, share: float) -> None:
        """Ask again for such a share of the feeds, from none, 0, to all, 1: those for which nothing was asked for the
        longest."""
        count = min(self._left_over + share * len(self._feeds), len(self._feeds))
        self._left_over = count % 1
        self._ask_later(list(islice(self._feeds, int(count))))

    def forget(self, feed: Feed) -> None:
        """The feed is closed."""
        for feeds in (self._feeds, self._wanted, self._due):
            feeds.pop(feed, None)

    def _ask_later(self, feeds: Collection[Feed]) -> None:
        for feed in feeds:
            # Some may have been closed since.
            if feed in self._feeds and feed not in self._wanted:
                self._due[feed] = None
        self._wake()

    def _wake(self) -> None:
        """Put questions once all that happens at this moment has happened."""
        if not self._is_awake:
            self._is_awake = True
            asyncio.get_running_loop().call_soon(self._put_questions)

    def _put_questions(self) -> None:
        self._is_awake = False
        while not self._stopping and (feeds := self._next()):
            self._questions += 1
            self._under_way.update(feeds)
            for feed in feeds:
                # Behind all others.
                del self._feeds[feed]
                self._feeds[feed] = None
            self._asking.spawn(f"ask {self._name}", self._question(feeds))

    def _next(self) -> Sequence[Feed]:
        """The feeds of the next question, if it is time for one."""
        for wanted, kept in ((self._wanted, 0), (self._due, 1)):
            # One question at a time for each feed: what was heard since a question belongs to that one.
            feeds = list(islice((feed for feed in wanted if feed not in self._under_way), ACCOUNTS_MAX))
            if not feeds:
                continue
            if self._questions + kept >= (AT_ONCE if len(feeds) == ACCOUNTS_MAX else NOT_FULL_AT_ONCE):
                return ()
            # Not together with others: those for which somebody waits do not wait for the others' answers too.
            for feed in feeds:
                del wanted[feed]
            return feeds
        return ()

    async def _question(self, feeds: Sequence[Feed]) -> None:
        try:
            await self._ask(feeds)
        finally:
            self._questions -= 1
            self._under_way.difference_update(feeds)
            # Some may have waited for this, or are wanted again already and were passed over meanwhile.
            self._wake()

    async def _ask(self, feeds: Sequence[Feed]) -> None:
        began_at = asyncio.get_running_loop().time()
        for feed in feeds:
            feed.begin(self._name)
        try:
            snapshots = await self._source.snapshots([feed.account_id for feed in feeds])
            answers = list(zip(feeds, snapshots, strict=True))
        except Exception as error:
            self._miss(feeds, began_at, error)
            return
        for feed, answer in answers:
            if not isinstance(answer, Refused):
                feed.take(self._name, answer, began_at)
            elif answer.code is grpc.StatusCode.NOT_FOUND:
                feed.refuse(answer)
            else:
                self._miss([feed], began_at, answer)

    def _miss(self, feeds: Sequence[Feed], began_at: float, error: Exception) -> None:
        log.warning("a source does not answer", source=self._name, accounts=len(feeds), error=in_a_line(error))
        for feed in feeds:
            feed.miss(self._name, began_at)
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self._ask_later, feeds)
