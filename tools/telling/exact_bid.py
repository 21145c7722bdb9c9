"""Romanian whist and oh hell: rounds, and bids that are kept or missed."""

from collections.abc import Iterator

from levata.table.v1 import play_pb2
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tools.recorded import Deal
from tools.telling.teller import FAINT, GAIN, LOSS, Teller


class ExactBidTeller(Teller):
    """Bids stand above the tricks, and beside what became of them."""

    deal_word = "Round"

    def calls(self, deal: Deal) -> Iterator[RenderableType]:
        """Bids have a row of their own."""
        yield from ()

    def fill(self, table: Table, deal: Deal) -> None:
        """Bids, tricks, and the score."""
        bids = {call.seat: call.move.place_bid for call in deal.calls}
        if bids:
            cells = (Text(f"{bids[seat]} " if seat in bids else "· ") for seat in self.seats)
            table.add_row("bid", *cells, style="bold")
        super().fill(table, deal)

    def result_rows(self, table: Table, deal: Deal) -> None:
        """Tricks beside the bid."""
        if deal.scored is None:
            return
        points = deal.scored.points
        table.add_section()
        table.add_row("took", *(_kept(points, seat).append(" ") for seat in self.seats))
        table.add_row("points", *(self.points_text(gain).append(" ") for gain in points.points))
        table.add_row("total", *(f"{total} " for total in deal.scored.totals), style="bold")

    def remarks(self, deal: Deal) -> Iterator[RenderableType]:
        """How the bids came out."""
        if len(deal.calls) == len(self.seats):
            bid = sum(call.move.place_bid for call in deal.calls)
            yield Text(f"  {bid} bid of {deal.dealt.hand_size}", style=FAINT)
        yield from super().remarks(deal)

    def sheet_cell(self, points: play_pb2.DealPoints, seat: int) -> Text:
        """`2/1 -1`: bid, took, points."""
        text = Text(f"{points.bids[seat]}/{points.tricks_won[seat]}", style=FAINT)
        return text.append_text(Text(f"{points.points[seat]:+4d}", style=GAIN if points.points[seat] > 0 else LOSS))


def _kept(points: play_pb2.DealPoints, seat: int) -> Text:
    kept = points.bids[seat] == points.tricks_won[seat]
    return Text(f"{'✓' if kept else '✗'} {points.tricks_won[seat]}", style=GAIN if kept else LOSS)
