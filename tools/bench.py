"""`./levata bench NAME`: measure, print a table, or JSON; `all` writes bench/RESULTS.md."""

import importlib
from typing import Annotated

import typer

from bench import report

BENCHES = ("rules", "bots", "table", "edge")
HOLD_SECONDS = 600.0
RESULTS_HEADING = """# Results

As `./levata bench all` writes them. Machines differ and are noisy: compare ratios (more is better), not figures.
"""


def main(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(BENCHES)}, or all.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    hold: Annotated[float, typer.Option(min=1, help="For how many seconds `edge` holds its watches.")] = HOLD_SECONDS,
) -> None:
    """Measure as ratios within one run; the machine should have nothing else to do."""
    if name != "all" and name not in BENCHES:
        raise typer.BadParameter(f"there is no bench {name!r}; there are {', '.join(BENCHES)} and all")
    sections = []
    for bench in BENCHES if name == "all" else (name,):
        options = {"hold": hold} if bench == "edge" else {}
        ratios = importlib.import_module(f"bench.{bench}").measure(**options)
        print(report.as_json(bench, ratios)) if json else report.show(bench, ratios)
        sections.append(report.as_markdown(bench, ratios))
    if name == "all":
        (report.ROOT / "bench" / "RESULTS.md").write_text("\n".join([RESULTS_HEADING, *sections]))
