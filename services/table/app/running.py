"""A running game: one object in one replica, its commands handled one after another.

Every change goes the same way: decide on the table as committed, append the commit, and only when the log has it take
the new table over, answer, and tell the watchers. While an append is in flight the other commands wait. What becomes
of an append that did not come back plainly committed is decided by the log alone (`_recover`).
"""

import asyncio
from collections import deque
from itertools import chain as chained
from itertools import repeat
from typing import Final, NamedTuple, Protocol, assert_never
from uuid import UUID

import structlog

from chassis.clock import Clock
from chassis.errors import Refused
from chassis.figures import Histogram
from chassis.log import AppendResult
from chassis.tasks import Background
from rules.game import Rejection, Seat
from rules.moves import Move
from services.table import domain
from services.table.app import errors
from services.table.app.audience import Audience
from services.table.app.deadlines import Deadlines
from services.table.app.heartbeat import Heartbeat
from services.table.app.own_games import Players, news_of
from services.table.app.ports import Applied, GameLog, Loaded, Submitted
from services.table.app.presence import Presence
from services.table.app.replicas import Replicas
from services.table.app.requests import Command, Done, Leave, Outcome, PlayerCommand, Request, Sign, TakeSeat
from services.table.app.thinking import Thinkers
from services.table.domain import SLOW_BOTS, BotQuestion, Decider, SeatRejection, Step

log = structlog.get_logger(__name__)

COMMANDS_WAITING_MAX: Final = 64
# Of one account, so that nobody fills the mailbox for the others.
COMMANDS_OF_ONE_MAX: Final = 8
RECOVERY_PAUSES: Final = (0.05, 0.1, 0.2, 0.5, 1.0)


class Surroundings(Protocol):
    """What a running game needs of its host."""

    log: GameLog
    clock: Clock
    thinkers: Thinkers
    replicas: Replicas
    players: Players
    deadlines: Deadlines
    heartbeat: Heartbeat
    background: Background
    # How long requests waited for those before them.
    mailbox_seconds: Histogram

    @property
    def id(self) -> UUID:
        """Its name as a host."""
        ...

    async def load(self, game_id: UUID) -> Loaded | None:
        """The game as the log has it now."""
        ...

    async def still_owns(self, game_id: UUID, epoch: int) -> bool:
        """Whether this replica is still the game's host at this epoch."""
        ...

    def drop(self, game: "RunningGame", *, is_faulty: bool) -> None:
        """The game is over, or somebody else's; or it met a fault of ours."""
        ...


def late_answer(command: Command, applied: Applied | None, otherwise: Refused) -> tuple[Outcome, bool]:
    """What a command gets that cannot be taken any more: its first answer again, or why it is not taken."""
    if applied is None:
        return otherwise, False
    if applied.content_hash != command.name.content_hash:
        return errors.command_id_reused(), False
    return applied.version, True


class _Waiting(NamedTuple):
    command: Command
    done: Done
    # Loop time at which it began to wait for those before it.
    since: float = 0.0


class _InFlight(NamedTuple):
    step: Step
    row: Submitted
    waiting: _Waiting | None


class RunningGame:
    """The mailbox, the state and the watchers of one game."""

    __slots__ = (
        "_around",
        "_chain",
        "_in_flight",
        "_looking_up",
        "_presence",
        "_queue",
        "_recovering",
        "_thinking",
        "audience",
        "dropped",
        "epoch",
        "game_id",
        "look_at_us",
        "table",
    )

    def __init__(self, around: Surroundings, game_id: UUID, loaded: Loaded, epoch: int, audience: Audience) -> None:
        """`audience` is at the loaded table's version."""
        self._around = around
        self.game_id = game_id
        self.epoch = epoch
        # As committed; what is in flight is not in it.
        self.table = loaded.table
        self._chain = loaded.chain
        self._presence = Presence(loaded.table, self._now_us())
        self._queue: deque[_Waiting] = deque()
        self._in_flight: _InFlight | None = None
        self._recovering = False
        # A slow bot decides now, in another process; meanwhile commands are taken, though few can do anything.
        self._thinking = False
        # Whose commands are looked up in the log now.
        self._looking_up: list[str] = []
        self.dropped = False
        self.audience = audience
        # When the host looks at this game next; see `Deadlines`.
        self.look_at_us = 0
        around.deadlines.note(self)

    # Requests

    def handle(self, request: Request, done: Done) -> None:
        """Do what is asked, after what waits already. `done` is called once: with the commit's version and whether it
        was applied before, or with a refusal."""
        if self.dropped:
            done(errors.unavailable(), False)
            return
        if isinstance(request, Sign):
            self._hear(request, done)
            return
        if self._in_flight is None and not self._recovering:
            self._handle(_Waiting(request, done))
            self._go_on()
        elif self._has_room([waiting.command.account for waiting in self._queue], request.account):
            self._queue.append(_Waiting(request, done, asyncio.get_running_loop().time()))
        else:
            done(errors.busy(), False)

    @staticmethod
    def _has_room(waiting: list[str], account: str) -> bool:
        """Whether one more command of an account may wait beside those of these accounts."""
        return len(waiting) < COMMANDS_WAITING_MAX and waiting.count(account) < COMMANDS_OF_ONE_MAX

    def take_over(self) -> None:
        """The first act of a new host: a logged event that fences the old one."""
        self._server_step(domain.resume_clock(self.table, self.epoch, str(self._around.id), self._now_us()))

    def go_on(self) -> None:
        """Let bots decide, if it is their turn."""
        self._go_on()

    @property
    def due_at_us(self) -> int:
        """When `look` has something to do, unless the table changes before; 0: never."""
        table = self.table
        decision_us = table.deadline_us or table.abandoned_at_us
        silence_us = self._presence.look_at_us(self._around.heartbeat.troubled_at_us)
        return min(decision_us, silence_us) if decision_us and silence_us else decision_us or silence_us

    def look(self, until_us: int, trusted_since_us: int) -> None:
        """Do what is due up to a time. Clocks that began before our own could be trusted start afresh, and silence
        counts from then only."""
        if not self._may_decide:
            return
        table, now_us = self.table, self._now_us()
        silent = self._presence.silent(table, trusted_since_us, until_us)
        if silent:
            self._server_step(domain.go_away(table, silent, now_us))
        elif 0 < table.abandoned_at_us <= until_us:
            # Whose turn it is has left a game without a clock for too long: a bot plays it out.
            self._server_step(domain.go_away(table, [table.turn], now_us))
        elif 0 < table.deadline_us <= until_us:
            self._expire(trusted_since_us, now_us)

    def _expire(self, trusted_since_us: int, now_us: int) -> None:
        table = self.table
        if table.server_decides:
            # A bot may think for longer than people may. Nobody plays for it: its move comes, or it begins anew.
            self._go_on()
        elif trusted_since_us < table.opened_at_us:
            self._server_step(domain.move(table, table.turn, table.bot_move(), Decider.CLOCK, now_us))
        else:
            self.take_over()

    @property
    def _may_decide(self) -> bool:
        """Whether the next step may be made now: none is under way, and the game is surely ours."""
        return self._is_idle and self._around.heartbeat.is_sure

    @property
    def _is_idle(self) -> bool:
        return self._in_flight is None and not self._recovering and not self.dropped

    def _handle(self, waiting: _Waiting) -> None:
        if not self._around.heartbeat.is_sure:
            # It may have waited here while this process stood still and another took the game.
            waiting.done(errors.unavailable(), False)
            return
        match waiting.command:
            case PlayerCommand() as command:
                self._act(waiting, command)
            case Leave() as command:
                self._leave(waiting, command)
            case TakeSeat() as command:
                self._take_seat(waiting, command)
            case _:
                assert_never(waiting.command)

    def _act(self, waiting: _Waiting, command: PlayerCommand) -> None:
        table = self.table
        now_us = self._now_us()
        is_closed = table.is_closed_to_people(now_us)
        seat = table.seat_of(command.account)
        if seat is None:
            self._refuse_seatless(waiting)
            return
        self._presence.hear(seat, now_us)
        if command.at_version > table.version:
            waiting.done(errors.future_version(table.version), False)
        elif table.over or command.at_version < table.opened_version:
            # A repetition always comes here: its first application closed the decision that it answers.
            closed = errors.rejected(Rejection.GAME_FINISHED) if table.over else errors.stale(table.version)
            self._look_up(waiting, closed)
        elif is_closed:
            waiting.done(errors.day_over(), False)
        else:
            step = domain.move(table, seat, command.move, Decider.PERSON, now_us)
            if not isinstance(step, Rejection):
                self._append(step, waiting)
                return
            waiting.done(errors.rejected(step), False)
        if table.away[seat] and not is_closed:
            # Whoever acts is back, whatever became of the act: the bot that answers at once leaves no time for more.
            self._server_step(domain.return_to_seat(table, seat, now_us))

    def _leave(self, waiting: _Waiting, command: Leave) -> None:
        seat = self.table.seat_of(command.account)
        if seat is None:
            self._refuse_seatless(waiting)
        else:
            self._change_seat(waiting, domain.leave(self.table, seat, self._now_us()))

    def _take_seat(self, waiting: _Waiting, command: TakeSeat) -> None:
        now_us = self._now_us()
        step = domain.take_seat(self.table, command.seat, command.account, command.guest, now_us)
        if isinstance(step, Step):
            self._presence.hear(command.seat, now_us)
        self._change_seat(waiting, step)

    def _change_seat(self, waiting: _Waiting, step: Step | Rejection | SeatRejection) -> None:
        if isinstance(step, Step):
            self._append(step, waiting)
        else:
            # Its own first application may be what stands in its way.
            self._look_up(waiting, errors.rejected(step))

    def _refuse_seatless(self, waiting: _Waiting) -> None:
        if self.table.seat_left_by(waiting.command.account) is None:
            waiting.done(errors.not_seated(), False)
        else:
            # It may have been applied before the seat was left, or be the leaving itself.
            self._look_up(waiting, errors.not_seated())

    def _hear(self, sign: Sign, done: Done) -> None:
        """A sign of life waits for nothing: it is no change, though one may follow from it."""
        seat = self.table.seat_of(sign.account)
        if not self._around.heartbeat.is_sure:
            done(errors.unavailable(), False)
        elif seat is None:
            done(errors.not_seated(), False)
        else:
            if sign.is_close:
                self._presence.close(seat, self._now_us())
            else:
                self._presence.hear(seat, self._now_us())
            done(self.table.version, False)
            self._go_on()

    def _look_up(self, waiting: _Waiting, otherwise: Refused) -> None:
        if self._has_room(self._looking_up, waiting.command.account):
            self._looking_up.append(waiting.command.account)
            self._around.background.spawn("look up a command", self._answer_late(waiting, otherwise))
        else:
            waiting.done(errors.busy(), False)

    async def _answer_late(self, waiting: _Waiting, otherwise: Refused) -> None:
        """Answer a command that cannot be taken: applied before, its id used otherwise, or refused."""
        answer: tuple[Outcome, bool] = errors.unavailable(), False
        try:
            applied = await self._around.log.applied(self.game_id, waiting.command.name.key)
            answer = late_answer(waiting.command, applied, otherwise)
        except Refused as refused:
            answer = refused, False
        finally:
            # Also when this is cancelled, because the replica stops.
            self._looking_up.remove(waiting.command.account)
            waiting.done(*answer)

    def _server_step(self, step: Step | Rejection) -> None:
        if self._is_idle and not isinstance(step, Rejection):
            self._append(step, None)

    # Appending

    def _append(self, step: Step, waiting: _Waiting | None) -> None:
        name = None if waiting is None else waiting.command.name
        row = self._around.log.submit(
            self.game_id, self._chain, self.table, step.commit, step.table, name, self._appended
        )
        self._in_flight = _InFlight(step, row, waiting)

    def _appended(self, result: AppendResult) -> None:
        flight = self._in_flight
        assert flight is not None
        if result is AppendResult.COMMITTED:
            self._in_flight = None
            try:
                self._committed(flight)
                self._go_on()
            except Exception:
                self.stop()
                raise
        elif self.dropped:
            # Nothing hangs on the outcome any more: the next host reads the log.
            self._in_flight = None
            if flight.waiting is not None:
                flight.waiting.done(errors.unavailable(), False)
        else:
            self._recovering = True
            self._around.background.spawn("recover a game", self._recover(flight, result))

    def _committed(self, flight: _InFlight) -> None:
        before = self.table
        step, row, waiting = flight
        commit = step.commit
        self.table = step.table
        self._chain = row.chain
        key = None if waiting is None else waiting.command.name.key
        # First of all, so that who follows the game elsewhere has the commit before its command is answered there.
        self._around.replicas.announce_commit(self.game_id, commit.version, row.payload, key)
        if waiting is not None:
            waiting.done(commit.version, False)
        self.audience.publish(before, commit, step.table, key)
        for news in news_of(self.game_id, before, commit, step.table):
            self._around.players.tell(news)
        if step.table.over:
            self._end()
        else:
            self._around.deadlines.note(self)

    def _go_on(self) -> None:
        while self._is_idle:
            if self._queue:
                waiting = self._queue.popleft()
                self._around.mailbox_seconds.observe(asyncio.get_running_loop().time() - waiting.since)
                self._handle(waiting)
            elif not self._may_decide:
                return
            elif (seat := self._returned()) is not None:
                self._server_step(domain.return_to_seat(self.table, seat, self._now_us()))
            elif self.table.server_decides and not self._thinking:
                question = self.table.bot_question()
                if question.level in SLOW_BOTS:
                    self._thinking = True
                    self._around.background.spawn("a bot thinks", self._think(question, self.table.opened_version))
                else:
                    self._append_bots_move(question.answer())
            else:
                return

    def _returned(self) -> Seat | None:
        return self._presence.returned(self.table, self._now_us()) if True in self.table.away else None

    async def _think(self, question: BotQuestion, opened_version: int) -> None:
        try:
            move = await self._around.thinkers.decide(question)
        except Exception:
            self.stop()
            raise
        finally:
            self._thinking = False
        # Meanwhile the decision may have been taken over by a person, or by another host.
        if self._may_decide and self.table.opened_version == opened_version and self.table.server_decides:
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
        if loaded.chain == flight.row.chain:
            self._committed(flight)
        elif loaded.chain == self._chain:
            # Neither this commit nor anybody else's is in the log: its command id was used before, or it was lost.
            self._not_appended(waiting, result)
            if waiting is None and result is not AppendResult.UNKNOWN:
                # The server's own step is refused for no reason of the game.
                log.error("the log refuses a commit", game=str(self.game_id), version=flight.step.commit.version)
                self.stop()
                return
        else:
            log.warning("beaten by another host", game=str(self.game_id), epoch=self.epoch)
            self.table, self._chain = loaded
            self._presence = Presence(loaded.table, self._now_us())
            if waiting is not None:
                waiting.done(errors.unavailable(), False)
            self.audience.close_streams("MOVED")
            self.audience.version = loaded.table.version
            owned = owned and not loaded.table.over
        if not owned:
            self._drop()
            return
        self._around.deadlines.note(self)
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
            self._look_up(waiting, errors.unavailable())
        else:
            waiting.done(errors.unavailable(), False)

    # Endings

    def release(self) -> None:
        """This replica stops: streams are told where to resume, waiting commands to try again."""
        self.audience.close_streams("DRAINING")
        self._drop()

    def let_go(self) -> None:
        """Serve this game no more: it has another host, or was taken anew."""
        self._drop()

    def stop(self) -> None:
        """Serve this game no more, because of a fault of ours; its log stays."""
        self._drop(is_faulty=True)

    def _end(self) -> None:
        self.audience.end()
        for waiting in self._queue:
            self._handle(waiting)
        self._queue.clear()
        self._drop()

    def _drop(self, *, is_faulty: bool = False) -> None:
        self.dropped = True
        for waiting in self._queue:
            waiting.done(errors.unavailable(), False)
        self._queue.clear()
        self.audience.close_streams("MOVED")
        self._around.drop(self, is_faulty=is_faulty)

    def _now_us(self) -> int:
        return self._around.clock.now_us()
