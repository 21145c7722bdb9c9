"""The people around friendly tables, as far as their streams are on this replica: chat, and how many watch.

All of this comes between a game's commits and belongs to none of them: neither the game nor its host knows of it. Lines
and mutes are in the store; what a replica was not told, because a message was lost, it reads there. Who watches is
nowhere but in the replicas themselves, which tell each other.
"""

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from chassis.tasks import Background
from rules.chat import LINE_CHARACTERS_MAX, cleaned_line
from rules.game import Rejection
from services.table.app import errors
from services.table.app.chat import MUTES_MAX, RECENT_LINES, Chat, Heard
from services.table.app.ports import ChatCounters, ChatLine, ChatStore, Messages, OtherReplicas, SayResult, Side
from services.table.app.spectators import Spectators
from services.table.app.subscription import Subscription
from services.table.domain import Mode, Table

log = structlog.get_logger(__name__)

# Changes of a count within this time are told together, and within a longer one where there are many to tell.
COUNT_SECONDS: Final = 0.5
STREAMS_TOLD_A_SECOND: Final = 500
# How often all replicas tell each other whom they have, and compare their chats with the store.
COMPARE_SECONDS: Final = 3.0
HOUSEKEEPING_SECONDS: Final = 3600.0


class Listener(NamedTuple):
    """Whose stream it is."""

    side: Side
    account: str


class Gathering:
    """Those whose streams of one game are on this replica."""

    __slots__ = ("chat", "counted_at", "game_id", "listeners", "reading", "spectators")

    def __init__(self, game_id: UUID, delay: float) -> None:
        self.game_id = game_id
        self.listeners: dict[Subscription, Listener] = {}
        self.chat = Chat()
        self.spectators = Spectators(delay)
        # Loop time at which the streams were told last how many watch.
        self.counted_at = 0.0
        # Held while the chat is read from the store.
        self.reading = asyncio.Lock()

    def tell(self, side: Side, message: bytes) -> None:
        """To all streams of a side. It fills no silence: heartbeats come all the same."""
        for subscription, listener in self.listeners.items():
            if listener.side is side:
                subscription.push(message, subscription.pushed_at)

    def tell_line(self, side: Side, line: Heard) -> None:
        """To all of a side who want it."""
        for subscription, listener in self.listeners.items():
            if listener.side is side and self.chat.wants(listener.account, line):
                subscription.push(line.message, subscription.pushed_at)


class Gatherings:
    """The gatherings of this replica."""

    def __init__(self, store: ChatStore, messages: Messages, others: OtherReplicas | None) -> None:
        """`others` is None for a replica that is alone."""
        self._store = store
        self._messages = messages
        self._others = others
        self._open: dict[UUID, Gathering] = {}
        # Whose chat is to be compared with the store.
        self._unsure: set[UUID] = set()
        self._wake = asyncio.Event()
        # Where somebody came or went here, and where the count may have changed for another reason.
        self._moved: set[UUID] = set()
        self._uncounted: set[UUID] = set()
        self._background = Background()

    async def start(self) -> None:
        """Begin to compare and to count."""
        for name, work in (
            ("compare chats", self._compare()),
            ("compare all chats", self._compare_regularly()),
            ("count spectators", self._count()),
            ("delete old chats", self._keep_house()),
        ):
            self._background.spawn(name, work)

    async def stop(self) -> None:
        """End all of it."""
        await self._background.stop()

    # Coming and going

    @contextmanager
    def joined(self, table: Table, side: Side, account: str, subscription: Subscription) -> Iterator[None]:
        """While this runs, the stream is told what concerns its side. Only friendly tables have gatherings."""
        if table.created.mode is not Mode.FRIENDLY:
            yield
            return
        game_id = UUID(bytes=table.created.game_id)
        gathering = self._open.get(game_id)
        if gathering is None:
            gathering = self._open[game_id] = Gathering(game_id, table.created.spectator_delay_seconds)
            self._look_at([game_id])
        self._enter(gathering, subscription, Listener(side, account))
        try:
            yield
        finally:
            self._leave(gathering, subscription)

    def _enter(self, gathering: Gathering, subscription: Subscription, listener: Listener) -> None:
        side, account = listener
        gathering.listeners[subscription] = listener
        shown = gathering.spectators.shown[side]
        if shown:
            subscription.push(self._messages.watching(shown), subscription.pushed_at)
        for line in gathering.chat.recent(side):
            if gathering.chat.wants(account, line):
                subscription.push(line.message, subscription.pushed_at)
        if side is Side.SPECTATORS:
            gathering.spectators.enter(account)
            self._moved.add(gathering.game_id)

    def _leave(self, gathering: Gathering, subscription: Subscription) -> None:
        side, account = gathering.listeners.pop(subscription)
        if side is Side.SPECTATORS:
            gathering.spectators.leave(account)
            self._moved.add(gathering.game_id)
        if not gathering.listeners:
            del self._open[gathering.game_id]

    # What people do

    async def say(self, table: Table, account: str, request_id: UUID, text: str) -> int:
        """Say a line to one's own side; answers with its number."""
        game_id = _game_with_chat(table)
        side = Side.SPECTATORS if table.seat_of(account) is None else Side.PLAYERS
        cleaned = cleaned_line(text)
        if not cleaned:
            raise errors.line_empty()
        if len(cleaned) > LINE_CHARACTERS_MAX:
            raise errors.line_too_long()
        line = await self._store.say(game_id, side, UUID(account), request_id, cleaned)
        match line:
            case SayResult.OTHER_TEXT:
                raise errors.line_id_reused()
            case SayResult.TOO_MANY:
                raise errors.too_many_lines()
            case SayResult.CROWDED:
                raise errors.too_many_speakers()
            case SayResult.GAME_OVER:
                raise errors.rejected(Rejection.GAME_FINISHED)
        self.hear_line(game_id, side, line)
        if self._others is not None:
            await self._others.said(game_id, side, line)
        return line.line_no

    async def mute(self, table: Table, account: str, other: UUID, muted: bool) -> None:
        """Want no lines of somebody's in this game, or want them again; it holds here when this answers."""
        game_id = _game_with_chat(table)
        if not await self._store.mute(game_id, UUID(account), other, muted, MUTES_MAX):
            raise errors.too_many_mutes()
        if self._others is not None:
            await self._others.muted(game_id)
        gathering = self._open.get(game_id)
        if gathering is not None:
            counters = await self._store.counters([game_id])
            await self._catch_up(gathering, counters.get(game_id, ChatCounters()))

    # What other replicas tell

    def has(self, game_id: UUID) -> bool:
        """Whether anybody of this game is here."""
        return game_id in self._open

    def hear_line(self, game_id: UUID, side: Side, line: ChatLine) -> None:
        """A line was said here or elsewhere. It may be heard twice, and too early."""
        gathering = self._open.get(game_id)
        if gathering is None:
            return
        if gathering.chat.is_next(side, line.line_no):
            self._take_line(gathering, side, line)
        elif not gathering.chat.is_known or line.line_no > gathering.chat.last_line[side]:
            self._look_at([game_id])

    def hear_of_mutes(self, game_id: UUID) -> None:
        """Somebody's mutes have changed elsewhere."""
        if game_id in self._open:
            self._look_at([game_id])

    def hear_of_spectators(self, replica: str, game_id: UUID, accounts: Collection[str]) -> None:
        """Whom another replica has as spectators of a game."""
        gathering = self._open.get(game_id)
        if gathering is not None:
            gathering.spectators.heard(replica, accounts, asyncio.get_running_loop().time())
            self._uncounted.add(game_id)

    def look_again(self) -> None:
        """Messages may have been lost: compare all chats with the store."""
        self._look_at(self._open)

    # Chats

    def _take_line(self, gathering: Gathering, side: Side, line: ChatLine) -> None:
        heard = Heard(line.line_no, line.account, self._messages.chat_line(line))
        gathering.chat.add(side, heard)
        gathering.tell_line(side, heard)

    def _look_at(self, games: Collection[UUID]) -> None:
        self._unsure.update(games)
        self._wake.set()

    async def _compare(self) -> None:
        """Compare chats with the store, all that are waiting in one query, and read what is missing."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            games, self._unsure = self._unsure, set()
            try:
                counters = await self._store.counters(games)
                for game_id in games:
                    gathering = self._open.get(game_id)
                    if gathering is not None:
                        await self._catch_up(gathering, counters.get(game_id, ChatCounters()))
            except Exception as error:
                # They are compared again with all others, in a few seconds.
                log.warning("cannot read chats", error=repr(error))

    async def _catch_up(self, gathering: Gathering, counters: ChatCounters) -> None:
        """Read what the store has more, mutes first; lines may be heard while this waits."""
        chat, game_id = gathering.chat, gathering.game_id
        async with gathering.reading:
            if chat.mute_changes < counters.mute_changes:
                chat.set_mutes(await self._store.mutes(game_id), counters.mute_changes)
            for side in Side:
                known = chat.last_line[side]
                if known < counters.lines(side):
                    for line in await self._store.lines(game_id, side, known, RECENT_LINES):
                        if line.line_no > chat.last_line[side]:
                            self._take_line(gathering, side, line)
            chat.is_known = True

    async def _compare_regularly(self) -> None:
        """What was not told, or got lost, is made good for."""
        while True:
            await asyncio.sleep(COMPARE_SECONDS)
            self.look_again()
            await self._tell_others(
                [gathering.game_id for gathering in self._open.values() if gathering.spectators.here]
            )

    # Spectators

    async def _count(self) -> None:
        """Tell who came and who went: the own streams the new count, the other replicas whom we have."""
        while True:
            await asyncio.sleep(COUNT_SECONDS)
            moved, self._moved = self._moved, set()
            uncounted, self._uncounted = self._uncounted | moved, set()
            now = asyncio.get_running_loop().time()
            for game_id in uncounted:
                gathering = self._open.get(game_id)
                if gathering is not None:
                    self._count_at(gathering, now)
            await self._tell_others(moved)

    def _count_at(self, gathering: Gathering, now: float) -> None:
        if now - gathering.counted_at < len(gathering.listeners) / STREAMS_TOLD_A_SECOND:
            self._uncounted.add(gathering.game_id)
            return
        for side, count in gathering.spectators.changes(now).items():
            gathering.tell(side, self._messages.watching(count))
            gathering.counted_at = now
        if not gathering.spectators.is_settled:
            self._uncounted.add(gathering.game_id)

    async def _tell_others(self, games: Collection[UUID]) -> None:
        """Whom we have as spectators of these games, nobody included."""
        if self._others is not None and games:
            here = {game_id: self._open[game_id].spectators.here if game_id in self._open else () for game_id in games}
            await self._others.watching(here)

    async def _keep_house(self) -> None:
        while True:
            try:
                await self._store.keep_house()
            except Exception as error:
                log.warning("cannot delete old chats", error=repr(error))
            await asyncio.sleep(HOUSEKEEPING_SECONDS)


def _game_with_chat(table: Table) -> UUID:
    if table.created.mode is not Mode.FRIENDLY:
        raise errors.no_chat_here()
    if table.over:
        raise errors.rejected(Rejection.GAME_FINISHED)
    return UUID(bytes=table.created.game_id)
