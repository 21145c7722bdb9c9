"""What a bench reports: ratios, always so that more is better, each beside the floor that was asked for."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Ratio:
    """Ours against a peer, a floor or a limit, both measured in the same run."""

    # Plain words joined by underscores: `x` gives the JSON keys `x_ratio` and `x_floor`.
    name: str
    # Ours divided by the peer's, or turned round where less is better: more is better.
    ratio: float
    floor: float
    ours: float
    peer: float
    unit: str
    conditions: str

    @property
    def reached(self) -> bool:
        """Whether the floor is reached."""
        return self.ratio >= self.floor


def more_is_better(
    name: str, ours: Sequence[float], peer: Sequence[float], unit: str, floor: float, conditions: str
) -> Ratio:
    """The median of the ratios, pair by pair."""
    ratio = median(a / b for a, b in zip(ours, peer, strict=True))
    return Ratio(name, ratio, floor, median(ours), median(peer), unit, conditions)


def less_is_better(
    name: str, ours: Sequence[float], peer: Sequence[float], unit: str, floor: float, conditions: str
) -> Ratio:
    """As `more_is_better`, for times and sizes: the peer's divided by ours."""
    ratio = median(b / a for a, b in zip(ours, peer, strict=True))
    return Ratio(name, ratio, floor, median(ours), median(peer), unit, conditions)


def as_json(bench: str, ratios: Sequence[Ratio]) -> str:
    """One JSON object."""
    report: dict[str, object] = {"bench": bench, **conditions()}
    for ratio in ratios:
        report[f"{ratio.name}_ratio"] = round(ratio.ratio, 4)
        report[f"{ratio.name}_floor"] = round(ratio.floor, 4)
        report[ratio.name] = {
            "ours": round(ratio.ours, 4),
            "peer": round(ratio.peer, 4),
            "unit": ratio.unit,
            "conditions": ratio.conditions,
        }
    return json.dumps(report, indent=2)


def tell(ratio: Ratio) -> None:
    """A line on stderr: what was measured stays on the screen if a later part fails or is broken off."""
    print(f"{ratio.name}: {ratio.ratio:.3f} (floor {ratio.floor:.3f})", file=sys.stderr, flush=True)


def show(bench: str, ratios: Sequence[Ratio]) -> None:
    """A table for people."""
    table = Table(title=f"bench {bench}")
    for column in ("what", "ours", "peer", "unit", "ratio", "floor"):
        table.add_column(column, justify="left" if column in ("what", "unit") else "right")
    for ratio in ratios:
        style = "green" if ratio.reached else "red"
        table.add_row(
            ratio.name,
            f"{ratio.ours:,.2f}",
            f"{ratio.peer:,.2f}",
            ratio.unit,
            f"[{style}]{ratio.ratio:.3f}[/]",
            f"{ratio.floor:.3f}",
        )
    console = Console()
    console.print(table)
    for ratio in ratios:
        console.print(f"{ratio.name}: {ratio.conditions}", style="dim")


def as_markdown(bench: str, ratios: Sequence[Ratio]) -> str:
    """A section of RESULTS.md; each names what it was measured on, because a run of all takes half an hour."""
    lines = [
        f"## {bench}",
        "",
        ", ".join(f"{key} {value}" for key, value in conditions().items()),
        "",
        "| what | ours | peer | unit | ratio | floor | conditions |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.name} | {r.ours:,.2f} | {r.peer:,.2f} | {r.unit} | {r.ratio:.3f} | {r.floor:.3f} | {r.conditions} |"
        for r in ratios
    ]
    return "\n".join([*lines, ""])


def conditions() -> dict[str, str]:
    """When, where and on what this was measured."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "commit": commit.stdout.strip(),
    }
