"""Make a service's projection anew from the facts that it hears, beside the one that answers; compare, then switch.

The service goes on meanwhile, and when this is broken off nothing has changed.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import grpc
import typer
from levata.league.v1 import operations_pb2
from levata.ledger.v1 import operations_pb2 as ledger_pb2
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from chassis import rpc
from tools.data import DEFAULT_DATA, DataFolder, NotRunning

# All transfers are folded in one statement.
LEDGER_SECONDS = 700


class Projection(StrEnum):
    """What can be made anew."""

    LEAGUE = "league"
    LEDGER = "ledger"


def main(
    projection: Annotated[Projection, typer.Argument(help="The service whose projection it is.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compare only; fails if there are differences.")] = False,
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="The data folder of `up`.")] = DEFAULT_DATA,
) -> None:
    """Make a projection anew beside the one that answers, compare the two, and switch."""
    rebuild = _rebuild_league if projection is Projection.LEAGUE else _rebuild_ledger
    try:
        differences = asyncio.run(rebuild(DataFolder(data), dry_run))
    except NotRunning as error:
        raise SystemExit(str(error)) from None
    except grpc.aio.AioRpcError as error:
        raise SystemExit(error.details() or error.code().name) from None
    if dry_run and differences:
        raise SystemExit(1)


async def _rebuild_league(folder: DataFolder, dry_run: bool) -> int:
    """Answers how many rows differ."""
    console = Console(highlight=False)
    address, token = folder.endpoints().services[Projection.LEAGUE][0], folder.operator_token()
    async with rpc.channel(address, token) as channel:
        operations = rpc.stub(channel, operations_pb2.DESCRIPTOR.services_by_name["Operations"])
        steps = operations.Rebuild(operations_pb2.RebuildRequest(dry_run=dry_run))
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TextColumn("facts"),
            console=console,
        ) as progress:
            return (await _follow(steps, progress)).differences


async def _rebuild_ledger(folder: DataFolder, dry_run: bool) -> int:
    """Answers how many balances differ."""
    console = Console(highlight=False)
    address, token = folder.endpoints().services[Projection.LEDGER][0], folder.operator_token()
    async with rpc.channel(address, token) as channel:
        operations = rpc.stub(channel, ledger_pb2.DESCRIPTOR.services_by_name["Operations"])
        with console.status("Making the balances anew"):
            rebuilt: ledger_pb2.RebuildResponse = await operations.Rebuild(
                ledger_pb2.RebuildRequest(dry_run=dry_run), timeout=LEDGER_SECONDS
            )
    for difference in rebuilt.shown:
        console.print(_balance_text(difference))
    if rebuilt.differences > len(rebuilt.shown):
        console.print(f"… and {rebuilt.differences - len(rebuilt.shown)} more")
    alike = f"{rebuilt.differences} of {rebuilt.balances} balances differ" if rebuilt.differences else "all are alike"
    end = "The new ones answer now." if rebuilt.switched else "The old ones still answer."
    console.print(f"{rebuilt.balances} balances from {rebuilt.transfers} transfers: {alike}. {end}")
    return rebuilt.differences


def _balance_text(difference: ledger_pb2.BalanceDifference) -> Text:
    """Whose balance, as it was (red) and as it is now (green)."""
    text = Text(f"{difference.account_id} {difference.currency}", style="bold")
    for mark, there, row, style in (
        ("-", difference.HasField("before"), difference.before, "red"),
        ("+", difference.HasField("after"), difference.after, "green"),
    ):
        if there:
            text.append(f"\n  {mark} posted={row.posted}  held={row.held}", style=f"not bold {style}")
    return text


async def _follow(
    steps: AsyncIterator[operations_pb2.RebuildResponse], progress: Progress
) -> operations_pb2.RebuildDone:
    """Show how it goes; answers with the end of it."""
    bar = progress.add_task("Making the projection anew", total=None)
    shown = 0
    async for step in steps:
        match step.WhichOneof("kind"):
            case "progress":
                progress.update(bar, completed=step.progress.fact, total=step.progress.head)
            case "difference":
                shown += 1
                progress.console.print(_difference_text(step.difference))
            case "done":
                done = step.done
                progress.update(bar, completed=done.fact, total=done.fact)
                if done.differences > shown:
                    progress.console.print(f"… and {done.differences - shown} more")
                progress.console.print(_done_text(done))
                return done
    raise AssertionError("a rebuild ends with what came of it")


def _difference_text(difference: operations_pb2.RowDifference) -> Text:
    """The table, and the row as it was (red) and as it is now (green)."""
    text = Text(difference.table, style="bold")
    for mark, row, style in (("-", difference.before, "red"), ("+", difference.after, "green")):
        if row:
            cells = "  ".join(f"{column}={value}" for column, value in json.loads(row).items())
            text.append(f"\n  {mark} {cells}", style=f"not bold {style}")
    return text


def _done_text(done: operations_pb2.RebuildDone) -> str:
    alike = f"{done.differences} of {done.rows} rows differ" if done.differences else f"all {done.rows} rows are alike"
    end = "The new one answers now." if done.switched else "The old one still answers."
    return f"Up to fact {done.fact} {alike}. {end}"
