"""The terminal: keys in, regions painted, the clock, and the pace at which a burst of moves is shown.

Two tasks share one queue of steps: one hears what the server sends and fills it, one shows a step at a time.
"""

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import ClassVar, Final

import grpc
from levata.table.v1 import table_pb2
from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.widgets import Static

from tools.client import Change, Refused
from tools.patience import Disconnected, Lost, Reconnected, within
from tools.picture import Picture
from tools.play import painting, words
from tools.play.scene import Scene
from tools.play.session import Seat, back_at_table
from tools.play.steps import Step, hurried, steps

CLOCK_TICK_SECONDS: Final = 0.25

_HELP: Final = """\
[b]Playing[/b]
  ← →        point at a card, a bid or a call that is allowed
  enter      choose what is pointed at, in [ ]
  a b c …    point at the card above; the same letter again plays it
  0 1 2 …    point at a bid
  p o a      pass, order up, order up and play alone
  c d h s    name a suit; capitals: and play alone
  r          come back to the table, when a bot plays for you

[b]Looking[/b]
  space      show at once what the others did
  →  ▸  ●    whose turn it is, who led, who took the trick
  q ?        leave (asks first), this page

What is not allowed can be asked for by its letter: the server
refuses it and says why. Any key goes back to the game."""


class _Page(ModalScreen[bool]):
    """Something to read over the game; closed by any key, answering whether that was y."""

    def __init__(self, content: str, name: str) -> None:
        super().__init__(name=name)
        self._content = content

    def compose(self) -> ComposeResult:
        yield Static(self._content, classes="page")

    def on_key(self, event: events.Key) -> None:
        """Close; a key that comes while it closes is the table's."""
        if self.is_current:
            event.stop()
            _ = self.dismiss(event.character in ("y", "Y"))


class PlayApp(App[None]):
    """One game on the screen, from the player's seat."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+c", "leave", "leave"), ("ctrl+q", "leave", "leave")]
    CSS = """
    Screen { layout: vertical; }
    #heading { height: 1; background: $primary-darken-2; color: $text; padding: 0 1; }
    #middle { height: 1fr; min-height: 13; max-height: 19; }
    #table { width: 1fr; height: 100%; border: round $primary; content-align: center middle; }
    #scores { width: 30; height: 100%; border: round $primary; border-title-align: left; padding: 0 1; }
    #news { height: 1; padding: 0 1; }
    #asking { height: 1; margin-top: 1; padding: 0 1; }
    #remark, #options { height: 1; padding: 0 1; }
    #hand { height: 4; border: round $primary; padding: 0 1; }
    #keys { height: 1; dock: bottom; padding: 0 1; }
    _Page { align: center middle; }
    .page { width: auto; max-width: 78; height: auto; border: round $primary; padding: 1 2; background: $surface; }
    """

    def __init__(self, seat: Seat, *, pace: float = 1.0) -> None:
        super().__init__()
        self._seat = seat
        # 1 is for people, 0 shows everything at once.
        self._pace = pace
        self.scene = Scene(Picture(), seat.names)
        self._steps: deque[Step] = deque()
        # Something came, or a key asked for haste.
        self._stirred = asyncio.Event()
        self._in_haste = False
        # How far this machine's clock is ahead of the server's, latency included; unknown until a commit was heard.
        self._clock_ahead_seconds: float | None = None
        # Why the game cannot be followed any more.
        self.failure = ""

    # The screen

    def compose(self) -> ComposeResult:
        """The regions, from top to bottom."""
        yield Static(id="heading")
        with Horizontal(id="middle"):
            yield Static(id="table")
            yield Static(id="scores")
        for region in ("news", "asking", "options", "remark", "hand", "keys"):
            yield Static(id=region)

    def on_mount(self) -> None:
        """Begin to hear and to show."""
        self.query_one("#scores").border_title = "Standings"
        self.query_one("#hand").border_title = "Your hand"
        self.run_worker(self._hear(), name="hear")
        self.run_worker(self._show(), name="show")
        self.set_interval(CLOCK_TICK_SECONDS, self._paint_clock)

    def on_resize(self) -> None:
        """Paint for the new size, once it is known."""
        self.call_after_refresh(self.paint)

    def paint(self) -> None:
        """The whole scene."""
        scene = self.scene
        if not scene.picture.seats or not self._is_at_table:
            return
        self._region("heading").update(painting.heading(scene))
        table = self._region("table")
        if scene.result is not None:
            table.update(painting.result(scene))
        elif scene.over:
            table.update(painting.ending(scene))
        else:
            table.update(painting.table(scene, table.content_size.width))
        self._region("scores").update(painting.scores(scene))
        self._region("news").update(scene.news)
        self._region("options").update(painting.options(scene))
        self._region("remark").update(painting.remark(scene))
        self._region("hand").update(painting.hand(scene))
        self._region("keys").update(painting.keys_line(scene))
        self._paint_clock()

    def _paint_clock(self) -> None:
        if self._is_at_table:
            self._region("asking").update(painting.asking(self.scene, self._seconds_left()))

    def _region(self, name: str) -> Static:
        return self.screen_stack[0].query_one(f"#{name}", Static)

    @property
    def _is_at_table(self) -> bool:
        # While the app closes its regions go one by one, and clock and workers still run.
        return self.is_running and bool(self.screen_stack)

    def _seconds_left(self) -> float | None:
        """What is left of the player's own clock, which may run before the turn is on the screen; None without one."""
        if not self.scene.picture.seats or not self._seat.picture.HasField("decision"):
            return None
        picture = self._seat.picture
        if picture.decision.seat != picture.view.seat or not picture.decision.deadline_ms:
            return None
        server_now = time.time() - (self._clock_ahead_seconds or 0.0)
        return picture.decision.deadline_ms / 1000 - server_now

    # Hearing

    async def _hear(self) -> None:
        try:
            async for change in self._seat.changes():
                self._heard(change)
        except Lost:
            self._fail("The server was not reached for two minutes. The game goes on there, and a bot plays for you.")
        except grpc.aio.AioRpcError as error:
            self._fail(error.details() or error.code().name)

    def _fail(self, sentence: str) -> None:
        self.failure = sentence
        self.exit()

    def _heard(self, change: Change) -> None:
        match change:
            case table_pb2.Snapshot():
                picture = Picture()
                picture.CopyFrom(change)
                self._steps.clear()
                self.scene = Scene(picture, self._seat.names)
            case table_pb2.Commit():
                ahead = time.time() - change.decided_at_ms / 1000
                # Commits that were missed come late; the fastest one tells best.
                self._clock_ahead_seconds = min(ahead, self._clock_ahead_seconds or ahead)
                self._steps.extend(steps(change))
                self._stirred.set()
            case Refused(_, reason, message):
                if not self._is_away:
                    self.scene.answered(words.refusal(reason, message, self.scene.picture))
            case Disconnected():
                self.scene.trouble = "Connection lost, trying again …"
            case Reconnected():
                self.scene.trouble = ""
        self.paint()

    # Showing

    async def _show(self) -> None:
        while True:
            while not self._steps:
                self._in_haste = False
                self._stirred.clear()
                await self._stirred.wait()
            step = self._steps.popleft()
            self.scene.take(step)
            if self.scene.result is not None:
                # A score is always worth a look.
                self._in_haste = False
            if not self._steps or not self._is_fleeting(step):
                self.paint()
                await self._look(step)
            self.scene.looked()
            if not self._steps:
                self.paint()

    def _is_fleeting(self, step: Step) -> bool:
        """Whether the step would be gone before it could be seen."""
        return self._in_haste or self._seconds_for(step) == 0

    async def _look(self, step: Step) -> None:
        """Leave a step on the screen for its time, which what comes meanwhile may shorten."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not self._in_haste and (left := began + self._seconds_for(step) - loop.time()) > 0:
            self._stirred.clear()
            with suppress(TimeoutError):
                await within(left, self._stirred.wait())

    def _seconds_for(self, step: Step) -> float:
        is_timed = self._seconds_left() is not None
        return self._pace * (hurried(step.seconds, self._steps) if is_timed else step.seconds)

    # Keys

    async def on_key(self, event: events.Key) -> None:
        """What a key at the table does."""
        choices = self.scene.choices
        match event.key:
            case "q":
                await self.action_leave()
            case "question_mark":
                await self.push_screen(_Page(_HELP, "help"))
            case "r" if self._is_away:
                self._send_back()
            case "enter" if self.scene.over and self.scene.result is None:
                self.exit()
            case "enter" if choices.all:
                self._choose()
            case "space" | "enter":
                self._in_haste = True
                self._stirred.set()
            case "left" | "up":
                choices.move(-1)
            case "right" | "down" | "tab":
                choices.move(+1)
            case _ if event.character and choices.press(event.character):
                self._choose()
        self.paint()

    async def action_leave(self) -> None:
        """Ask before leaving a game that goes on."""
        if self.scene.over:
            self.exit()
            return
        question = "Leave the game? A bot will play it to its end for you.\n\n[b]y[/b] leave    any other key: stay"
        await self.push_screen(_Page(question, "leave"), self._leave)

    def _leave(self, sure: bool | None) -> None:
        if sure:
            self.exit()

    @property
    def _is_away(self) -> bool:
        return bool(self.scene.picture.seats) and self._own_seat_away(self._seat.picture)

    @staticmethod
    def _own_seat_away(picture: Picture) -> bool:
        return picture.seats[picture.view.seat].away

    def _choose(self) -> None:
        choice = self.scene.choices.pointed
        # What is on the screen must be the newest there is: a choice answers what was seen.
        if choice is None or self.scene.picture.version != self._seat.picture.version:
            return
        self.scene.send()
        self.run_worker(self._seat.act(choice.move), name="act")

    def _send_back(self) -> None:
        self.run_worker(self._seat.act(back_at_table(self._seat.picture)), name="act")
