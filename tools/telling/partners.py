"""Euchre and klaverjas: two sides of partners, one of which makes trump."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tools.recorded import Deal
from tools.telling.cards import seat_name
from tools.telling.teller import FAINT, Teller


class EuchreTeller(Teller):
    """Whether the makers made it."""

    def remarks(self, deal: Deal) -> Iterator[RenderableType]:
        """Made, all five, or euchred."""
        if deal.scored is not None:
            points = deal.scored.points
            won = points.tricks_won[points.maker] + points.tricks_won[(points.maker + 2) % 4]
            alone = any(call.move.order_up.alone or call.move.name_trump.alone for call in deal.calls)
            who = f"{seat_name(points.maker)}, alone," if alone else f"{seat_name(points.maker)}'s side"
            outcome = "is euchred with" if won < 3 else "makes it with" if won < 5 else "marches with"
            yield Text(f"  {who} {outcome} {won} of 5", style=FAINT)
        yield from super().remarks(deal)


class KlaverjasTeller(Teller):
    """Card points and roem by side, and whether the makers went wet."""

    def result_rows(self, table: Table, deal: Deal) -> None:
        """What each side took, before what came of it."""
        if deal.scored is None:
            return
        points = deal.scored.points
        table.add_section()
        for label, taken in (("cards", points.card_points), ("roem", points.roem)):
            table.add_row(label, *(f"{amount} " for amount in taken))
        super().result_rows(table, deal)

    def remarks(self, deal: Deal) -> Iterator[RenderableType]:
        """Nat and pit."""
        if deal.scored is not None:
            points = deal.scored.points
            maker = points.maker
            won = points.tricks_won[maker] + points.tricks_won[(maker + 2) % 4]
            outcome = "is nat" if points.points[maker] == 0 else "makes it"
            pit = ", pit" if won in (0, 8) else ""
            yield Text(f"  {seat_name(maker)}'s side {outcome}{pit}", style=FAINT)
        yield from super().remarks(deal)
