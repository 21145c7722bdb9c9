"""`./levata bench NAME`: measure, print a table, or JSON; `all` writes bench/RESULTS.md."""

import importlib
from typing import Annotated, Any

import typer

from bench import report

BENCHES = ("rules", "bots", "table", "edge", "ledger", "league", "matchmaker")
HOLD_SECONDS = 600.0
RESULTS_HEADING = """# Results

As `./levata bench all` writes them. Machines differ and are noisy: compare ratios (more is better), not figures.
"""


def main(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(BENCHES)}, or all.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="A part of `table`; more than once for several.")] = None,
    hold: Annotated[float, typer.Option(min=1, help="For how many seconds `edge` holds its watches.")] = HOLD_SECONDS,
) -> None:
    """Measure as ratios within one run; the machine should have nothing else to do."""
    if name != "all" and name not in BENCHES:
        raise typer.BadParameter(f"there is no bench {name!r}; there are {', '.join(BENCHES)} and all")
    sections = []
    for bench in BENCHES if name == "all" else (name,):
        module = importlib.import_module(f"bench.{bench}")
        ratios = []
        for ratio in module.measure(**_options(bench, only or [], hold)):
            report.tell(ratio)
            ratios.append(ratio)
        print(report.as_json(bench, ratios)) if json else report.show(bench, ratios)
        sections.append(report.as_markdown(bench, ratios))
    if name == "all":
        (report.ROOT / "bench" / "RESULTS.md").write_text("\n".join([RESULTS_HEADING, *sections]))


def _options(bench: str, only: list[str], hold: float) -> dict[str, Any]:
    match bench:
        case "edge":
            return {"hold": hold}
        case "table":
            from bench.table import PARTS

            if unknown := set(only) - PARTS.keys():
                raise typer.BadParameter(f"bench table has no part {', '.join(unknown)}; it has {', '.join(PARTS)}")
            return {"only": only}
        case _:
            return {}
