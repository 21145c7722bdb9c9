"""`./levata seating`: simulate who is seated with whom in quick play, by how many come; docs/seating.md shows it.

The rules are those of the matchmaker's own domain, the people come by a seed: the same figures on every machine.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Final, NamedTuple

import typer

from bench.arrivals import SEATS, Arrivals, distances, first_come

PAGE: Final = Path(__file__).parent.parent / "docs" / "seating.md"
BEGIN: Final = "<!-- ./levata seating --write: from here -->"
END: Final = "<!-- to here -->"
SEED, SECONDS = 7, 300.0
RATES: Final = (0.2, 1.0, 3.0, 10.0, 50.0)
# In one room all may meet at once; of twelve, players of the others come after a second.
ROOMS: Final = (1, 12)
HEADINGS: Final = (
    "arrivals a second",
    "rooms",
    "mean distance in rank",
    "first come, first served",
    "times better",
    "bots at a table",
    "tables without bots",
    "median wait",
    "99th percentile",
)


class Seating(NamedTuple):
    """What a simulation came to."""

    distance: float
    # Of the same people, seated as they came.
    first_come_distance: float
    bots_a_table: float
    full_share: float
    wait_seconds: float
    wait_p99_seconds: float


def main(
    write: Annotated[bool, typer.Option("--write", help="Put the table into docs/seating.md.")] = False,
) -> None:
    """Simulate five minutes of quick play at several rates of arrival, and print what came of it."""
    table = "\n".join(lines())
    print(table)
    if write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


def lines() -> Sequence[str]:
    """The table of the page."""
    heading = [f"| {' | '.join(HEADINGS)} |", "|---" * len(HEADINGS) + "|"]
    return heading + [line(rate, rooms) for rate in RATES for rooms in ROOMS]


def line(rate: float, rooms: int) -> str:
    """One of its lines."""
    seating = simulated(rate, rooms)
    cells = (
        f"{rate:g}",
        f"{rooms}",
        f"{seating.distance:.3f}",
        f"{seating.first_come_distance:.3f}",
        f"{seating.first_come_distance / seating.distance:.1f}",
        f"{seating.bots_a_table:.2f}",
        f"{seating.full_share:.0%}",
        f"{seating.wait_seconds:.1f} s",
        f"{seating.wait_p99_seconds:.1f} s",
    )
    return f"| {' | '.join(cells)} |"


def simulated(rate: float, rooms: int) -> Seating:
    """Who sat with whom when so many came a second, to so many rooms."""
    arrivals = Arrivals(SEED, rate, SECONDS, rooms=rooms)
    tables, waits = arrivals.played(), arrivals.waits()
    return Seating(
        fmean(distances(tables)),
        fmean(distances(first_come(arrivals, SEATS))),
        SEATS * arrivals.bots_share(),
        sum(len(people) == SEATS for people in tables) / len(tables),
        median(waits),
        waits[int(len(waits) * 0.99)],
    )
