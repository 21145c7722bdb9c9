"""Euchre and klaverjas: two sides of partners, one of which makes trump."""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from levata.table.v1 import play_pb2
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tools.recorded import Deal, Trick
from tools.telling import outcomes
from tools.telling.cards import card_text, seat_name, suit_name, suit_text
from tools.telling.teller import FAINT, Teller

# A seat of each side.
_SIDES: Final = (0, 1)


class PartnersTeller(Teller):
    """Who called what, whether the makers made it, and a score sheet by side."""

    def calls(self, deal: Deal) -> Iterator[RenderableType]:
        """Passes in one go, then the call that ended them and what followed."""
        passes = list(takewhile(lambda call: call.move.HasField("pass"), deal.calls))
        said = []
        if len(passes) >= len(self.seats):
            said.append(Text("all pass"))
        if late := passes[len(self.seats) if said else 0 :]:
            who = seat_name(late[0].seat) if len(late) == 1 else "seats " + ", ".join(str(call.seat) for call in late)
            said.append(Text(f"{who} {'passes' if len(late) == 1 else 'pass'}{' again' if said else ''}"))
        others = deal.calls[len(passes) :]
        said += [Text(f"{seat_name(call.seat)} ").append_text(self.call_text(call.move)) for call in others]
        if said:
            yield Text("  ").append_text(Text("; ").join(said))

    def remarks(self, deal: Deal) -> Iterator[RenderableType]:
        """Whether the makers made it."""
        if deal.scored is not None:
            points = deal.scored.points
            who = f"{seat_name(points.maker)}, alone," if deal.is_alone else f"{seat_name(points.maker)}'s side"
            yield Text(f"  {who} {outcomes.of_makers(points)}", style=FAINT)
        yield from super().remarks(deal)

    def sheet(self) -> Table:
        """A row for each deal that was scored, a column for each side."""
        table = self.plain_table("deal", "trump", "called by")
        for seat in _SIDES:
            table.add_column(f"seats {seat} and {seat + 2}", justify="right", no_wrap=True)
        table.add_column("", style=FAINT, no_wrap=True)
        for deal in self.game.deals:
            if deal.scored is not None:
                points = deal.scored.points
                called = seat_name(points.maker) + (" alone" if deal.is_alone else "")
                cells = (self.sheet_cell(points, seat) for seat in _SIDES)
                table.add_row(
                    str(points.deal + 1), suit_text(points.trump), called, *cells, f" {outcomes.in_short(points)}"
                )
        table.add_section()
        table.add_row("total", "", "", *(str(self.game.totals[seat]) for seat in _SIDES), style="bold")
        if self.game.finished is not None:
            places = (f"{self.game.finished.standings[seat]}." for seat in _SIDES)
            table.add_row("place", "", "", *places, style="bold")
        return table


class EuchreTeller(PartnersTeller):
    """The turned card, and what became of it."""

    def trump(self, deal: Deal) -> Text:
        """Ordered up, or named after the card was turned down."""
        turned = card_text(deal.dealt.turned)
        if not deal.trump:
            return turned.append(" turned up")
        text = Text("trump ").append_text(suit_text(deal.trump)).append(f" {suit_name(deal.trump)}")
        taken = any(call.move.HasField("order_up") for call in deal.calls)
        return text.append(" (").append_text(turned).append(" taken up)" if taken else " turned down)")

    def played(self, trick: Trick, seat: int) -> Text:
        """A lone player's partner has no cards on the table."""
        if trick.winner is not None and trick.card_of(seat) is None:
            return Text("out ", style=FAINT)
        return super().played(trick, seat)


class KlaverjasTeller(PartnersTeller):
    """Card points and roem, trick by trick and by side."""

    def trump(self, deal: Deal) -> Text:
        """No card is turned up, and trump is always named in the end."""
        return super().trump(deal) if deal.trump else Text("trump not named yet")

    def deal_table(self) -> Table:
        """What a trick brought stands beside it."""
        table = super().deal_table()
        table.add_column("cards", justify="right", no_wrap=True, min_width=6)
        table.add_column("roem", justify="right", no_wrap=True, min_width=6)
        return table

    def trick_rows(self, table: Table, deal: Deal) -> None:
        """A row for each trick."""
        nothing: Sequence[int] = (0, 0, 0, 0)
        before = nothing, nothing
        for number, trick in enumerate(deal.tricks, start=1):
            cells = [self.played(trick, seat) for seat in self.seats]
            if trick.winner is not None:
                after = trick.card_points, trick.roem
                cards, roem = (now[trick.winner] - then[trick.winner] for now, then in zip(after, before, strict=True))
                cells += [Text(str(cards)), Text(str(roem or ""), style="bold")]
                before = after
            table.add_row(f"trick {number}", *cells)

    def result_rows(self, table: Table, deal: Deal) -> None:
        """What each side took, before what came of it."""
        if deal.scored is None:
            return
        points = deal.scored.points
        table.add_section()
        for label, taken in (("cards", points.card_points), ("roem", points.roem)):
            table.add_row(label, *(f"{amount} " for amount in taken))
        super().result_rows(table, deal)

    def sheet_cell(self, points: play_pb2.DealPoints, seat: int) -> Text:
        """`98+20 +118`: cards and roem, and what they came to."""
        taken = f"{points.card_points[seat]}" + (f"+{points.roem[seat]}" if points.roem[seat] else "")
        return Text(f"{taken} ", style=FAINT).append_text(Text(f"{points.points[seat]:+4d}", style="default"))
