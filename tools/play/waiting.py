"""The screen before the table: the own ticket of quick play, the table as it fills, and the time until it deals."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import ClassVar, Final, NamedTuple, Protocol

import grpc
from levata.matchmaker.v1 import matchmaker_pb2
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from tools.patience import Disconnected, Lost, Reconnected
from tools.play import words
from tools.telling.cards import game_title

CLOCK_TICK_SECONDS: Final = 0.25
# A table deals so long after it opened: more is not left, whatever this machine's clock says.
DEALS_AFTER_SECONDS: Final = 10
FAINT: Final = "dim"
STRONG: Final = "bold"


class Search(Protocol):
    """What the screen needs of `tools.quick_play.Searching`."""

    ticket: matchmaker_pb2.Ticket

    def changes(self) -> AsyncIterator[matchmaker_pb2.Ticket | Disconnected | Reconnected]:
        """All that is heard of the ticket until a game begins, or none will."""
        ...

    async def cancel(self) -> bool:
        """Give the ticket up; False if the cards are being dealt already."""
        ...


class Around(NamedTuple):
    """What there is to know besides the ticket."""

    own_id: str
    # By account id; they are asked for as people come.
    names: words.Names
    learn: Callable[[Iterable[str]], Awaitable[None]]
    # By number.
    rooms: Mapping[int, matchmaker_pb2.Room]


def heading(ticket: matchmaker_pb2.Ticket, around: Around) -> Text:
    """What is played, where, and what for."""
    room = around.rooms[ticket.room]
    variant = "" if ticket.variant == "standard" else ticket.variant
    text = Text(game_title(ticket.game_type, variant), style=STRONG)
    text.append(f" · {room.name} · {words.entry(room)} · prize {room.prize:,}")
    return text.append(f" · {words.coffee(ticket.coffee)}") if ticket.coffee else text


def body(ticket: matchmaker_pb2.Ticket, around: Around, now_seconds: float) -> Text:
    """How far the ticket is."""
    at_table = ticket.HasField("table")
    return Text("\n").join(_seats(ticket, around, now_seconds) if at_table else _queue(ticket))


def _queue(ticket: matchmaker_pb2.Ticket) -> Iterator[Text]:
    yield Text("Looking for a table …", style=STRONG)
    if ticket.ahead:
        yield Text()
        yield Text("One is before you." if ticket.ahead == 1 else f"{ticket.ahead:,} are before you.")


def _seats(ticket: matchmaker_pb2.Ticket, around: Around, now_seconds: float) -> Iterator[Text]:
    seats, taken = ticket.table.seats, ticket.table.taken
    yield Text(_outlook(ticket, now_seconds), style=STRONG)
    yield Text()
    for number, seat in enumerate(taken, start=1):
        is_own = seat.account_id == around.own_id
        name = "You" if is_own else around.names.get(seat.account_id) or words.stranger(seat.account_id)
        line = Text(f"{number}  {name}", style=STRONG if is_own else "")
        if seat.room != ticket.room:
            line.append(f"  from {around.rooms[seat.room].name}", style=FAINT)
        yield line
    for number in range(len(taken) + 1, seats + 1):
        yield Text(f"{number}  free; a bot, if nobody comes", style=FAINT)


def _outlook(ticket: matchmaker_pb2.Ticket, now_seconds: float) -> str:
    if ticket.state == matchmaker_pb2.TICKET_STATE_DEALING:
        return "The cards are being dealt …"
    if len(ticket.table.taken) == ticket.table.seats:
        return "The table is full: it deals in a moment …"
    left = min(max(ticket.table.deals_at_ms / 1000 - now_seconds, 0), DEALS_AFTER_SECONDS)
    return f"The table deals in {left:.0f} s, or as soon as it is full"


class WaitingApp(App[None]):
    """The way from a ticket to its game, or back."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [("q,escape,ctrl+c,ctrl+q", "give_up", "give up")]
    CSS = """
    Screen { layout: vertical; }
    #heading { height: 1; background: $primary-darken-2; color: $text; padding: 0 1; }
    #table { height: 1fr; max-height: 19; border: round $primary; content-align: center middle; }
    #notice { height: 1; padding: 0 1; }
    #keys { height: 1; dock: bottom; padding: 0 1; }
    """

    def __init__(self, search: Search, around: Around) -> None:
        super().__init__()
        self._search = search
        self._around = around
        self._notice = Text()
        # The player thought better of it.
        self.given_up = False
        # Why the ticket cannot be followed any more.
        self.failure = ""

    def compose(self) -> ComposeResult:
        """The regions, from top to bottom."""
        for region in ("heading", "table", "notice", "keys"):
            yield Static(id=region)

    def on_mount(self) -> None:
        """Begin to hear."""
        self.query_one("#keys", Static).update(Text("q give up the place", style=FAINT))
        self._paint()
        self.run_worker(self._hear(), name="hear")
        self.set_interval(CLOCK_TICK_SECONDS, self._paint)

    def _paint(self) -> None:
        # An ended ticket has nothing to show. While the app closes its regions go one by one, and clock and worker run.
        if not self.is_running or self._search.ticket.room not in self._around.rooms:
            return
        ticket = self._search.ticket
        self.query_one("#heading", Static).update(heading(ticket, self._around))
        self.query_one("#table", Static).update(body(ticket, self._around, time.time()))
        self.query_one("#notice", Static).update(self._notice)

    async def _hear(self) -> None:
        try:
            async for change in self._search.changes():
                match change:
                    case Disconnected():
                        self._notice = Text("Connection lost, trying again …", style="bold red")
                    case Reconnected():
                        self._notice = Text()
                    case ticket:
                        await self._around.learn(seat.account_id for seat in ticket.table.taken)
                self._paint()
        except Lost:
            self.failure = "The server was not reached for two minutes. Your place is not kept."
        except grpc.aio.AioRpcError as error:
            self.failure = error.details() or error.code().name
        self.exit()

    async def action_give_up(self) -> None:
        """Back to where one came from, unless it is too late."""
        if await self._search.cancel():
            self.given_up = True
            self.exit()
        else:
            self._notice = Text("Too late: the cards are being dealt.", style="bold yellow")
            self._paint()
