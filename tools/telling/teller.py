"""How a game is told on a terminal, trick by trick; what all games share, with a method for each thing that differs.

Everything fits 80 columns with seven seats, and says the same without colours.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from levata.table.v1 import play_pb2, table_pb2
from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tools.recorded import Deal, Game, Trick
from tools.telling.cards import (
    LEADS,
    TAKES,
    card_text,
    game_title,
    hand_text,
    occupant_text,
    seat_name,
    suit_name,
    suit_text,
)

GAIN: Final = "green"
LOSS: Final = "red"
FAINT: Final = "dim"


class Teller:
    """Tells a game in terms that fit any; a game with terms of its own derives from this."""

    # What its players call a deal.
    deal_word = "Deal"

    def __init__(self, game: Game, names: Mapping[str, str]) -> None:
        self.game = game
        self.names = names
        self.seats = range(len(game.seats))

    def tell(self) -> Iterator[RenderableType]:
        """The whole game."""
        yield from self.opening()
        for deal in self.game.deals:
            yield from self.deal(deal)
        yield from self.ending()

    def opening(self) -> Iterator[RenderableType]:
        """What is played, and by whom."""
        game = self.game
        title = game_title(game.created.game_type, game.created.variant)
        began = datetime.fromtimestamp(game.created_at_ms / 1000, UTC)
        yield Text(f"{title} · {len(game.seats)} seats", style="bold")
        yield Text(f"game {game.game_id} · began {began:%Y-%m-%d %H:%M} UTC", style=FAINT)
        yield Text()
        for seat, info in enumerate(game.created.seats):
            you = "  ◂ seen from here" if seat == game.seat else ""
            yield Text(f"  {seat_name(seat)}  {self._occupant(info)}{you}")
        yield Text()
        yield Text(f"{LEADS} leads  {TAKES} takes the trick", style=FAINT)

    def deal(self, deal: Deal) -> Iterator[RenderableType]:
        """One deal: hands, calls, tricks, points."""
        yield Text()
        yield self.deal_title(deal)
        for seat, hand in sorted(deal.hands.items()):
            yield Text(f"  {seat_name(seat)}  ").append_text(hand_text(hand))
        yield from self.calls(deal)
        table = self.deal_table()
        self.fill(table, deal)
        if table.row_count:
            yield table
        yield from self.remarks(deal)

    def deal_title(self, deal: Deal) -> Text:
        """Which deal, who deals, what is trump."""
        count = len(self.game.created.hand_sizes)
        of = f" of {count}" if count else ""
        size = deal.dealt.hand_size
        title = Text(f"{self.deal_word} {deal.dealt.deal + 1}{of}", style="bold")
        title.append(f" · {size} {'card' if size == 1 else 'cards'} · {seat_name(deal.dealt.dealer)} deals · ")
        return title.append_text(self.trump(deal))

    def trump(self, deal: Deal) -> Text:
        """What is trump, and why."""
        if not deal.trump:
            return Text("no trump")
        text = Text("trump ").append_text(suit_text(deal.trump)).append(f" {suit_name(deal.trump)}")
        if deal.dealt.turned:
            text.append(" (").append_text(card_text(deal.dealt.turned)).append(" turned up)")
        return text

    def calls(self, deal: Deal) -> Iterator[RenderableType]:
        """What was said before the first card."""
        if deal.calls:
            said = [Text(f"{seat_name(call.seat)} ").append_text(self.call_text(call.move)) for call in deal.calls]
            yield Padding(Text(", ").join(said), (0, 0, 0, 2), expand=False)

    def call_text(self, move: play_pb2.Move) -> Text:
        """One bid, call or discard, after the seat's name."""
        match move.WhichOneof("kind"):
            case "place_bid":
                return Text(f"bids {move.place_bid}")
            case "pass":
                return Text("passes")
            case "order_up":
                return Text("orders it up" + _alone(move.order_up.alone))
            case "name_trump":
                name = Text("names ").append_text(suit_text(move.name_trump.suit))
                return name.append(_alone(move.name_trump.alone))
            case "discard":
                return Text("discards ").append_text(card_text(move.discard) if move.discard else Text("a card"))
            case _:
                raise AssertionError(f"not a call: {move}")

    def deal_table(self) -> Table:
        """The table of a deal, still without rows."""
        return self._table_of_seats()

    def fill(self, table: Table, deal: Deal) -> None:
        """The rows of a deal, a column for each seat."""
        self.trick_rows(table, deal)
        self.result_rows(table, deal)

    def trick_rows(self, table: Table, deal: Deal) -> None:
        """A row for each trick."""
        for number, trick in enumerate(deal.tricks, start=1):
            table.add_row(f"trick {number}", *(self.played(trick, seat) for seat in self.seats))

    def played(self, trick: Trick, seat: int) -> Text:
        """A seat's card, and whether it led and took the trick."""
        card = trick.card_of(seat)
        if card is None:
            return Text("· ", style=FAINT)
        leads = LEADS if seat == trick.leader else " "
        takes = TAKES if seat == trick.winner else " "
        text = Text.assemble((leads, FAINT), card_text(card), (takes, "bold yellow"))
        if seat == trick.winner:
            text.stylize("bold")
        return text

    def result_rows(self, table: Table, deal: Deal) -> None:
        """What the deal came to."""
        if deal.scored is None:
            return
        points = deal.scored.points
        table.add_section()
        table.add_row("tricks", *(f"{won} " for won in points.tricks_won))
        table.add_row("points", *(self.points_text(gain).append(" ") for gain in points.points))
        table.add_row("total", *(f"{total} " for total in deal.scored.totals), style="bold")

    def points_text(self, points: int) -> Text:
        """Points as gain or loss."""
        return Text(f"{points:+d}", style=GAIN if points > 0 else LOSS if points < 0 else "")

    def remarks(self, deal: Deal) -> Iterator[RenderableType]:
        """What else happened."""
        for change in deal.seat_changes:
            yield Text(f"  {seat_name(change.seat)}: {self._changed(change)}", style=FAINT)
        for seat in self.seats:
            by_clock = sum(move.seat == seat and move.decider == play_pb2.DECIDER_CLOCK for move in deal.moves)
            if by_clock:
                yield Text(f"  {seat_name(seat)}: the clock ran out {_times(by_clock)}", style=FAINT)

    def _changed(self, change: table_pb2.SeatChanged) -> str:
        if change.info.away:
            return "away, a bot plays on"
        return f"back, {self._occupant(change.info)}" if change.info.account_id else self._occupant(change.info)

    def ending(self) -> Iterator[RenderableType]:
        """The score sheet and the final places."""
        yield Text()
        yield Text("Score sheet", style="bold")
        yield self.sheet()
        yield Text()
        if self.game.finished is None:
            yield Text("The game is still being played." if self.game.deals else "No cards were dealt.")
            return
        yield Text("Standings", style="bold")
        yield self.standings()

    def sheet(self) -> Table:
        """A row for each deal that was scored."""
        table = self._table_of_seats(self.deal_word.lower(), "cards")
        for deal in self.game.deals:
            if deal.scored is not None:
                cells = (self.sheet_cell(deal.scored.points, seat) for seat in self.seats)
                cards = Text(f"{deal.dealt.hand_size} ").append_text(suit_text(deal.trump))
                table.add_row(str(deal.dealt.deal + 1), cards, *cells)
        table.add_section()
        table.add_row("total", "", *(str(total) for total in self.game.totals), style="bold")
        if self.game.finished is not None:
            table.add_row("place", "", *(f"{place}." for place in self.game.finished.standings), style="bold")
        return table

    def sheet_cell(self, points: play_pb2.DealPoints, seat: int) -> Text:
        """What a deal brought a seat."""
        return self.points_text(points.points[seat])

    def standings(self) -> Table:
        """Seats from the first place on, of a game that is over."""
        assert self.game.finished is not None
        places = self.game.finished.standings
        table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=True)
        table.add_column(justify="right")
        table.add_column()
        table.add_column(justify="right")
        table.add_column()
        for seat in sorted(self.seats, key=lambda seat: (places[seat], seat)):
            style = "bold yellow" if places[seat] == 1 else ""
            total = str(self.game.totals[seat])
            table.add_row(
                f"{places[seat]}.", seat_name(seat), total, self._occupant(self.game.seats[seat]), style=style
            )
        return table

    def _occupant(self, info: play_pb2.SeatInfo) -> str:
        return occupant_text(info, self.names)

    def plain_table(self, *labels: str) -> Table:
        """A table whose first columns are these."""
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style=FAINT)
        for label in labels or ("",):
            table.add_column(label, style=FAINT, justify="right", no_wrap=True)
        return table

    def _table_of_seats(self, *labels: str) -> Table:
        table = self.plain_table(*labels)
        for seat in self.seats:
            table.add_column(seat_name(seat), justify="right", no_wrap=True, min_width=6)
        return table


def _alone(alone: bool) -> str:
    return " and plays alone" if alone else ""


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
