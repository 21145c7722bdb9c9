"""A running game: one object in one replica, its commands handled one after another.

Every change goes the same way: decide on the table as committed, append the commit, and only when the log has it take
the new table over, answer, and tell the watchers. While an append is in flight the other commands wait. What becomes
of an append that did not come back plainly committed is decided by the log alone (`_recover`).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from hashlib import sha256
from itertools import chain as chained
from itertools import repeat
from struct import Struct
from typing import Final, NamedTuple, Protocol
from uuid import UUID

import structlog

from chassis.clock import Clock
from chassis.errors import Refused
from chassis.log import AppendResult
from rules.game import NO_SEAT, Rejection
from rules.moves import Move
from services.table import domain
from services.table.app import errors
from services.table.app.ports import Applied, CommandName, CommitMessages, GameLog, Loaded, Messages
from services.table.app.subscription import Subscription
from services.table.app.thinking import Thinkers
from services.table.domain import SLOW_BOTS, BotQuestion, Decider, Step, Table, Viewer

log = structlog.get_logger(__name__)

# What a command says, in so few bytes that they are their own hash.
_CONTENT: Final = Struct(">II")
COMMANDS_WAITING_MAX: Final = 64
HEARTBEAT_SECONDS: Final = 3.0
RECOVERY_PAUSES: Final = (0.05, 0.1, 0.2, 0.5, 1.0)


class PlayerCommand(NamedTuple):
    """A person's move as it came in."""

    account: str
    # As the client made it, canonical.
    command_id: str
    at_version: int
    move: Move

    def name(self) -> CommandName:
        """What the log knows the command by. Ids are per player, so that no player can use up another's."""
        key = sha256(f"{self.account}/{self.command_id}".encode()).digest()[:16]
        return CommandName(UUID(bytes=key), _CONTENT.pack(self.at_version, self.move))


Outcome = int | Refused
# Told the commit's version, or why not.
Done = Callable[[Outcome, bool], None]


class Surroundings(Protocol):
    """What a running game needs of its host."""

    host_id: str
    log: GameLog
    messages: Messages
    clock: Clock
    thinkers: Thinkers

    async def load(self, game_id: UUID) -> Loaded | None:
        """The game as the log has it now."""
        ...

    async def still_owns(self, game_id: UUID, epoch: int) -> bool:
        """Whether this replica is still the game's host at this epoch."""
        ...

    def drop(self, game: "RunningGame") -> None:
        """The game is over, or somebody else's."""
        ...

    def spawn(self, name: str, work: Coroutine[None, None, None]) -> None:
        """Run something beside the game, to its end."""
        ...


def late_answer(table: Table, command: PlayerCommand, applied: Applied | None) -> tuple[Outcome, bool]:
    """What a command gets whose decision is closed: its first answer again, or why it was not taken."""
    if applied is None:
        return (errors.rejected(Rejection.GAME_FINISHED) if table.over else errors.stale(table.version)), False
    if applied.content_hash != command.name().content_hash:
        return errors.command_id_reused(), False
    return applied.version, True


class _Waiting(NamedTuple):
    command: PlayerCommand
    done: Done
    origin: Subscription | None


class _InFlight(NamedTuple):
    step: Step
    chain: bytes
    waiting: _Waiting | None


class RunningGame:
    """The mailbox, the state and the watchers of one game."""

    __slots__ = (
        "_around",
        "_chain",
        "_in_flight",
        "_looking_up",
        "_queue",
        "_recovering",
        "_thinking",
        "dropped",
        "epoch",
        "game_id",
        "subscriptions",
        "table",
    )

    def __init__(self, around: Surroundings, game_id: UUID, loaded: Loaded, epoch: int) -> None:
        self._around = around
        self.game_id = game_id
        self.epoch = epoch
        # As committed; what is in flight is not in it.
        self.table = loaded.table
        self._chain = loaded.chain
        self._queue: deque[_Waiting] = deque()
        self._in_flight: _InFlight | None = None
        self._recovering = False
        # A slow bot decides now, in another process; meanwhile commands are taken, though few can do anything.
        self._thinking = False
        # Commands that are looked up in the log now.
        self._looking_up = 0
        self.dropped = False
        self.subscriptions: list[Subscription] = []

    # Commands

    def act(self, command: PlayerCommand, done: Done, origin: Subscription | None = None) -> None:
        """A person's move. `done` is called once: with the commit's version and whether it was applied before, or
        with a refusal. `origin` is the stream that it came on, which gets the command's id with the commit."""
        waiting = _Waiting(command, done, origin)
        if self.dropped:
            done(errors.unavailable(), False)
        elif self._in_flight is None and not self._recovering:
            self._handle(waiting)
            self._go_on()
        elif len(self._queue) < COMMANDS_WAITING_MAX:
            self._queue.append(waiting)
        else:
            done(errors.busy(), False)

    def take_over(self) -> None:
        """The first act of a new host: a logged event that fences the old one."""
        self._server_step(domain.resume_clock(self.table, self.epoch, self._around.host_id, self._now_us()))

    def go_on(self) -> None:
        """Let bots decide, if it is their turn."""
        self._go_on()

    def expire(self, trustworthy: bool) -> None:
        """The open decision's clock has run out; where our own clocks were not `trustworthy` it starts afresh."""
        if self._in_flight is not None or self._recovering or self.dropped or self.table.turn == NO_SEAT:
            return
        table = self.table
        if table.server_decides:
            # A bot may think for longer than people may. Nobody plays for it: its move comes, or it begins anew.
            self._go_on()
        elif trustworthy:
            self._server_step(domain.move(table, table.turn, table.bot_move(), Decider.CLOCK, self._now_us()))
        else:
            self.take_over()

    def leave_to_bot(self) -> None:
        """Whose turn it is has left a game without a clock for too long: a bot plays it out."""
        if self.table.turn != NO_SEAT:
            self._server_step(domain.go_away(self.table, [self.table.turn], self._now_us()))

    def _handle(self, waiting: _Waiting) -> None:
        command = waiting.command
        table = self.table
        now_us = self._now_us()
        is_closed = table.is_closed_to_people(now_us)
        seat = table.seat_of(command.account)
        if seat is None:
            waiting.done(errors.not_seated(), False)
        elif command.at_version > table.version:
            waiting.done(errors.future_version(table.version), False)
        elif table.over or command.at_version < table.opened_version:
            # A repetition always comes here: its first application closed the decision that it answers.
            self._look_up(waiting)
        elif is_closed:
            waiting.done(errors.day_over(), False)
        else:
            step = domain.move(table, seat, command.move, Decider.PERSON, now_us)
            if not isinstance(step, Rejection):
                self._append(step, waiting)
                return
            waiting.done(errors.rejected(step), False)
        if seat is not None and table.away[seat] and not is_closed:
            # Whoever acts is back, whatever became of the act: the bot that answers at once leaves no time for more.
            self._server_step(domain.return_to_seat(table, seat, now_us))

    def _look_up(self, waiting: _Waiting) -> None:
        if self._looking_up < COMMANDS_WAITING_MAX:
            self._looking_up += 1
            self._around.spawn("look up a command", self._answer_late(waiting))
        else:
            waiting.done(errors.busy(), False)

    async def _answer_late(self, waiting: _Waiting) -> None:
        """Answer a command whose decision is closed: applied before, its id used otherwise, or too late."""
        answer: tuple[Outcome, bool] = errors.unavailable(), False
        try:
            applied = await self._around.log.applied(self.game_id, waiting.command.name().key)
            answer = late_answer(self.table, waiting.command, applied)
        except Refused as refused:
            answer = refused, False
        finally:
            # Also when this is cancelled, because the replica stops.
            self._looking_up -= 1
            waiting.done(*answer)

    def _server_step(self, step: Step | Rejection) -> None:
        if self._in_flight is None and not self._recovering and not self.dropped and not isinstance(step, Rejection):
            self._append(step, None)

    # Appending

    def _append(self, step: Step, waiting: _Waiting | None) -> None:
        name = None if waiting is None else waiting.command.name()
        chain = self._around.log.submit(
            self.game_id, self._chain, self.table, step.commit, step.table, name, self._appended
        )
        self._in_flight = _InFlight(step, chain, waiting)

    def _appended(self, result: AppendResult) -> None:
        flight = self._in_flight
        assert flight is not None
        if result is AppendResult.COMMITTED:
            self._in_flight = None
            try:
                self._committed(flight)
                self._go_on()
            except Exception:
                # A fault of ours: this table stops.
                self.let_go()
                raise
        elif self.dropped:
            # Nothing hangs on the outcome any more: the next host reads the log.
            self._in_flight = None
            if flight.waiting is not None:
                flight.waiting.done(errors.unavailable(), False)
        else:
            self._recovering = True
            self._around.spawn("recover a game", self._recover(flight, result))

    def _committed(self, flight: _InFlight) -> None:
        before = self.table
        step, chain, waiting = flight
        self.table = step.table
        self._chain = chain
        if waiting is not None:
            waiting.done(step.commit.version, False)
        if self.subscriptions:
            self._publish(self._around.messages.commit_messages(before, step.commit, step.table), waiting)
        if step.table.over:
            self._end()

    def _publish(self, messages: CommitMessages, waiting: _Waiting | None) -> None:
        now = asyncio.get_running_loop().time()
        version = self.table.version
        origin = None if waiting is None else waiting.origin
        for subscription in self.subscriptions:
            if subscription is origin and waiting is not None:
                message = messages.answer(subscription.viewer, waiting.command.command_id)
            else:
                message = messages.message(subscription.viewer)
            subscription.version = version
            subscription.push(message, now)

    def _go_on(self) -> None:
        while self._in_flight is None and not self._recovering and not self.dropped:
            if self._queue:
                self._handle(self._queue.popleft())
            elif self.table.server_decides and not self._thinking:
                question = self.table.bot_question()
                if question.level in SLOW_BOTS:
                    self._thinking = True
                    self._around.spawn("a bot thinks", self._think(question, self.table.opened_version))
                else:
                    self._append_bots_move(question.answer())
            else:
                return

    async def _think(self, question: BotQuestion, opened_version: int) -> None:
        try:
            move = await self._around.thinkers.decide(question)
        except Exception:
            # Nobody else would go on with this game here; its log stays for the next host.
            self.let_go()
            raise
        finally:
            self._thinking = False
        idle = self._in_flight is None and not self._recovering and not self.dropped
        # Meanwhile the decision may have been taken over by a person, or by another host.
        if idle and self.table.opened_version == opened_version and self.table.server_decides:
            self._append_bots_move(move)
        self._go_on()

    def _append_bots_move(self, move: Move) -> None:
        step = domain.move(self.table, self.table.turn, move, Decider.BOT, self._now_us())
        assert not isinstance(step, Rejection), f"a bot's illegal move: {step}"
        self._append(step, None)

    async def _recover(self, flight: _InFlight, result: AppendResult) -> None:
        """An append was beaten, or its outcome is unknown: only the log knows. Until it is read, nothing is decided."""
        waiting = flight.waiting
        try:
            loaded, owned = await self._read_back()
        except asyncio.CancelledError:
            # This replica stops before the log can be read.
            if waiting is not None:
                waiting.done(errors.unavailable(), False)
            raise
        self._in_flight = None
        self._recovering = False
        if loaded.chain == flight.chain:
            self._committed(flight)
        elif loaded.chain == self._chain:
            # Neither this commit nor anybody else's is in the log: its command id was used before, or it was lost.
            self._not_appended(waiting, result)
            if waiting is None and result is not AppendResult.UNKNOWN:
                # The server's own step is refused for no reason of the game: stop this table, keep its log.
                log.error("the log refuses a commit", game=str(self.game_id), version=flight.step.commit.version)
                owned = False
        else:
            log.warning("beaten by another host", game=str(self.game_id), epoch=self.epoch)
            self.table, self._chain = loaded
            if waiting is not None:
                waiting.done(errors.unavailable(), False)
            self._close_streams("MOVED")
            owned = owned and not loaded.table.over
        if not owned:
            self._drop()
            return
        self._go_on()

    async def _read_back(self) -> tuple[Loaded, bool]:
        """The game as the log has it, and whether it is still ours; as often as it takes."""
        for pause in chained(RECOVERY_PAUSES, repeat(RECOVERY_PAUSES[-1])):
            try:
                loaded = await self._around.load(self.game_id)
                owned = await self._around.still_owns(self.game_id, self.epoch)
            except Exception as error:
                # Postgres is away: nobody can be told anything, and nobody else can take the game.
                log.warning("cannot read a game back", game=str(self.game_id), error=repr(error))
                await asyncio.sleep(pause)
            else:
                assert loaded is not None
                return loaded, owned
        raise AssertionError("the pauses do not end")

    def _not_appended(self, waiting: _Waiting | None, result: AppendResult) -> None:
        if waiting is None:
            return
        if result is AppendResult.BEATEN:
            self._look_up(waiting)
        else:
            waiting.done(errors.unavailable(), False)

    # Watchers

    def subscribe(self, viewer: Viewer) -> Subscription:
        """A stream of what is committed after the table's version now."""
        subscription = Subscription(viewer, self.table.version, self._around.messages.closing("LAGGING", 0))
        subscription.pushed_at = asyncio.get_running_loop().time()
        self.subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """The stream is gone."""
        if subscription in self.subscriptions:
            self.subscriptions.remove(subscription)

    def fill_silences(self, now: float) -> None:
        """A heartbeat to each stream that got nothing for a while."""
        for subscription in self.subscriptions:
            if now - subscription.pushed_at >= HEARTBEAT_SECONDS:
                subscription.push(self._around.messages.heartbeat(subscription.version), now)

    # Endings

    def release(self) -> None:
        """This replica stops: streams are told where to resume, waiting commands to try again."""
        self._close_streams("DRAINING")
        self._drop()

    def let_go(self) -> None:
        """Serve this game no more, because of a fault of ours or because it was taken anew; its log stays."""
        self._drop()

    def _end(self) -> None:
        for subscription in self.subscriptions:
            subscription.end()
        for waiting in self._queue:
            self._handle(waiting)
        self._queue.clear()
        self._drop()

    def _drop(self) -> None:
        self.dropped = True
        for waiting in self._queue:
            waiting.done(errors.unavailable(), False)
        self._queue.clear()
        self._close_streams("MOVED")
        self._around.drop(self)

    def _close_streams(self, reason: str) -> None:
        for subscription in self.subscriptions:
            subscription.end(self._around.messages.closing(reason, subscription.version))
        self.subscriptions.clear()

    def _now_us(self) -> int:
        return self._around.clock.now_us()
