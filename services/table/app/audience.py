"""The streams of one game on this replica, and all audiences of the replica together.

All streams of an audience are at one version. Each distinct message is encoded once (`CommitMessages`), whoever gets
it. An audience does not know whether its game is hosted here or followed from elsewhere.
"""

import asyncio
from collections.abc import Collection
from typing import Final
from uuid import UUID

from services.table.app.ports import CommitMessages, Messages
from services.table.app.subscription import Subscription
from services.table.domain import SPECTATOR, Commit, Table, Viewer

HEARTBEAT_SECONDS: Final = 3.0
LOOK_SECONDS: Final = 0.25


class Audience:
    """The streams of one game."""

    __slots__ = ("_all", "subscriptions", "version")

    def __init__(self, audiences: "Audiences", version: int) -> None:
        self._all = audiences
        self.version = version
        self.subscriptions: list[Subscription] = []

    def subscribe(self, viewer: Viewer, account: str) -> Subscription:
        """A stream of what comes after the version now."""
        subscription = Subscription(viewer, account, self.version, self._all.messages.closing("LAGGING", 0))
        subscription.pushed_at = asyncio.get_running_loop().time()
        self.subscriptions.append(subscription)
        self._all.open.add(self)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """The stream is gone."""
        if subscription in self.subscriptions:
            self.subscriptions.remove(subscription)
            if not self.subscriptions:
                self._all.open.discard(self)

    def publish(self, before: Table | None, commit: Commit, after: Table, key: UUID | None) -> None:
        """A commit to all; with its id to the stream that its command, whose key this is, came on."""
        self.version = commit.version
        if not self.subscriptions:
            return
        messages = self._all.messages.commit_messages(before, commit, after)
        now = asyncio.get_running_loop().time()
        if before is not None and after.occupants is not before.occupants:
            self._part(messages, after, now)
        for subscription in self.subscriptions:
            subscription.version = commit.version
            command_id = subscription.expected.pop(key, None) if key is not None and subscription.expected else None
            if command_id is None:
                message = messages.message(subscription.viewer)
            else:
                message = messages.answer(subscription.viewer, command_id)
            subscription.push(message, now)

    def _part(self, messages: CommitMessages, after: Table, now: float) -> None:
        """End the streams of who has left a seat or taken one: what they may see from now on is another view."""
        for subscription in [each for each in self.subscriptions if not each.is_still_of(after)]:
            # Nothing that only the seat may see, on neither side of the change.
            subscription.push(messages.message(SPECTATOR), now)
            self._send_elsewhere(subscription)

    def show(self, version: int, message: bytes) -> None:
        """What brings all streams to this version and is the same for each of them."""
        self.version = version
        now = asyncio.get_running_loop().time()
        for subscription in self.subscriptions:
            subscription.version = version
            subscription.push(message, now)

    def part_with(self, accounts: Collection[str]) -> None:
        """End the streams of people who are to see the game with other eyes from now on."""
        for subscription in [each for each in self.subscriptions if each.account in accounts]:
            self._send_elsewhere(subscription)

    def _send_elsewhere(self, subscription: Subscription) -> None:
        subscription.end(self._all.messages.closing("SEAT_CHANGED", 0))
        self.unsubscribe(subscription)

    def fill_silences(self, now: float) -> None:
        """A heartbeat to each stream that got nothing for a while."""
        heartbeat = None
        for subscription in self.subscriptions:
            if now - subscription.pushed_at >= HEARTBEAT_SECONDS:
                heartbeat = heartbeat or self._all.messages.heartbeat(self.version)
                subscription.push(heartbeat, now)

    def end(self) -> None:
        """The game is over."""
        self._end(None)

    def close_streams(self, reason: str) -> None:
        """End all streams and tell them where to resume."""
        self._end(self._all.messages.closing(reason, self.version))

    def _end(self, last: bytes | None) -> None:
        for subscription in self.subscriptions:
            subscription.end(last)
        self.subscriptions.clear()
        self._all.open.discard(self)


class Audiences:
    """The audiences of this replica that have streams."""

    def __init__(self, messages: Messages) -> None:
        self.messages = messages
        self.open: set[Audience] = set()

    def begin(self, version: int) -> Audience:
        """An audience without streams, of a game at this version."""
        return Audience(self, version)

    async def fill_silences(self) -> None:
        """Heartbeats to all streams that got nothing for a while, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = loop.time()
            for audience in list(self.open):
                audience.fill_silences(now)

    def close_streams(self, reason: str) -> None:
        """End all streams of the replica."""
        for audience in list(self.open):
            audience.close_streams(reason)
