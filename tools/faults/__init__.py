"""`./levata faults`: play games on real processes that are killed, stalled and cut off by a seed, and check everything.

The servers are started once and go through one round a seed (tools/faults/rounds.py). A round that breaks a promise
(tools/faults/checker.py) leaves its history, logs and the servers' own words in a folder, and the line that reruns it.
"""

import asyncio
import itertools
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from chassis.telemetry import configure_logging
from tools.faults.checker import check
from tools.faults.evidence import Evidence
from tools.faults.history import Phase
from tools.faults.rounds import play_round
from tools.faults.schedule import Plan, draw
from tools.faults.world import World

DEFAULT_TABLES = 3
BREACHES_SHOWN_MAX = 20


def main(
    seed: Annotated[int | None, typer.Option(help="The first seed; a random one if none is given.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, one after another.")] = 1,
    minutes: Annotated[float, typer.Option(min=0, help="Go on with further seeds until so long is over.")] = 0,
    tables: Annotated[int, typer.Option(min=1, help="Replicas of the table service.")] = DEFAULT_TABLES,
    history: Annotated[Path, typer.Option(metavar="FOLDER", help="Where a round that fails is kept.")] = Path("faults"),
) -> None:
    """Kill, stall and cut off real processes while games are played, by a seed; check what became of them."""
    first = secrets.randbelow(1_000_000) if seed is None else seed
    # What our own clients say of servers that are away is no news here.
    configure_logging("faults", "text", "error")
    failed = asyncio.run(_run(first, seeds, minutes, tables, history))
    if failed:
        sys.exit(1)


async def _run(first: int, seeds: int, minutes: float, tables: int, history: Path) -> list[int]:
    """Play the rounds; answers with the seeds that failed."""
    began = time.monotonic()
    failed: list[int] = []
    with tempfile.TemporaryDirectory(prefix="levata faults ") as folder:
        async with World(Path(folder), tables) as world:
            _say(f"{tables} table replicas; the servers run after {time.monotonic() - began:.1f} s")
            for number in itertools.count():
                if number >= seeds and time.monotonic() - began >= minutes * 60:
                    break
                if not await _round(world, first + number, tables, history):
                    failed.append(first + number)
    _say(f"{number} rounds, {len(failed)} failed, {time.monotonic() - began:.0f} s")
    return failed


async def _round(world: World, seed: int, tables: int, history: Path) -> bool:
    """Play one round and tell of it; whether every promise was kept."""
    began = time.monotonic()
    plan = draw(seed, list(world.processes), list(world.links))
    evidence = await play_round(world, plan)
    breaches = check(evidence)
    _say(
        f"seed {seed}: {'FAILED' if breaches else 'ok'}, {_summary(evidence)}, {time.monotonic() - began:.1f} s in all"
    )
    _say(f"    {_faults(plan)}")
    if breaches:
        kept = _keep(world, evidence, breaches, plan, history / f"seed-{seed}")
        for breach in breaches[:BREACHES_SHOWN_MAX]:
            _say(f"    {breach}")
        if len(breaches) > BREACHES_SHOWN_MAX:
            _say(f"    … and {len(breaches) - BREACHES_SHOWN_MAX} more in {kept / 'breaches.txt'}")
        _say(f"    kept in {kept}; again: ./levata faults --seed {seed} --tables {tables}")
    return not breaches


def _say(line: str) -> None:
    """At once, also to a file that somebody reads on."""
    print(line, flush=True)


def _summary(evidence: Evidence) -> str:
    commits = sum(game.version for game in evidence.games.values())
    faults, calm, over = (phase.at_us for phase in evidence.history.of(Phase))
    times = f"calm after {(calm - faults) / 1e6:.1f} s, games over {(over - calm) / 1e6:.1f} s later"
    entries = Counter("refused" if each.refusal else _end(evidence, each.game_id) for each in evidence.ledger.entrants)
    money = ", ".join(f"{count} {end}" for end, count in sorted(entries.items()))
    return f"{len(evidence.games)} games, {commits} commits, entries: {money or 'none'}; {times}"


def _end(evidence: Evidence, game_id: str) -> str:
    return "taken" if evidence.begun.get(game_id) else "given back"


def _faults(plan: Plan) -> str:
    return "; ".join(
        f"{fault.at_seconds:.1f} {fault.deed.value} {fault.target}"
        + (f" {fault.seconds:.1f} s" if fault.seconds else "")
        for fault in plan.faults
    )


def _keep(world: World, evidence: Evidence, breaches: list[str], plan: Plan, folder: Path) -> Path:
    """Everything there is to read about a round that failed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "breaches.txt").write_text("\n".join(breaches) + "\n")
    (folder / "plan.txt").write_text("\n".join(map(str, (*plan.faults, *plan.parties))) + "\n")
    evidence.write(folder)
    world.copy_logs(folder)
    return folder
