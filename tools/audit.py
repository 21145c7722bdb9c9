"""Compare what games moved in the ledger with what follows from the games' own facts.

The ledger goes on meanwhile and nothing is changed. Fails if anything is not as it should be.
"""

import asyncio
from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import grpc
import typer
from levata.ledger.v1 import operations_pb2
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from chassis import rpc
from tools.data import DEFAULT_DATA, DataFolder, NotRunning


class Audited(StrEnum):
    """What can be audited."""

    LEDGER = "ledger"


def main(
    what: Annotated[Audited, typer.Argument(help="The service whose entries are compared.")],
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="The data folder of `up`.")] = DEFAULT_DATA,
) -> None:
    """Compare what games moved with what follows from their own facts; changes nothing."""
    try:
        done = asyncio.run(_audit(DataFolder(data), what))
    except NotRunning as error:
        raise SystemExit(str(error)) from None
    except grpc.aio.AioRpcError as error:
        raise SystemExit(error.details() or error.code().name) from None
    if done.differences:
        raise SystemExit(1)


async def _audit(folder: DataFolder, what: Audited) -> operations_pb2.AuditDone:
    console = Console(highlight=False)
    address, token = folder.endpoints().services[what][0], folder.operator_token()
    async with rpc.channel(address, token) as channel:
        operations = rpc.stub(channel, operations_pb2.DESCRIPTOR.services_by_name["Operations"])
        steps = operations.Audit(operations_pb2.AuditRequest())
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TextColumn("facts"),
            console=console,
        ) as progress:
            return await _follow(steps, progress)


async def _follow(steps: AsyncIterator[operations_pb2.AuditResponse], progress: Progress) -> operations_pb2.AuditDone:
    """Show how it goes; answers with the end of it."""
    bar = progress.add_task("Computing anew what games moved", total=None)
    async for step in steps:
        match step.WhichOneof("kind"):
            case "progress":
                progress.update(bar, completed=step.progress.fact, total=step.progress.head)
            case "difference":
                progress.console.print(_difference_text(step.difference))
            case "done":
                progress.update(bar, completed=step.done.fact, total=step.done.fact)
                progress.console.print(_done_text(step.done))
                return step.done
    raise AssertionError("an audit ends with what came of it")


def _difference_text(difference: operations_pb2.EntryDifference) -> Text:
    """The entry's key, what the ledger has (red) and what it should have (green)."""
    text = Text(difference.key, style="bold")
    for mark, there, moves, style in (
        ("-", difference.HasField("found"), difference.found, "red"),
        ("+", difference.HasField("expected"), difference.expected, "green"),
    ):
        for move in moves.moves if there else ():
            line = f"\n  {mark} {move.amount} {move.currency} from {move.debit} to {move.credit}"
            text.append(line, style=f"not bold {style}")
    return text


def _done_text(done: operations_pb2.AuditDone) -> str:
    parked = f" {done.parked} facts are parked: see ./levata facts." if done.parked else ""
    ends = f"{done.differences} of them differ" if done.differences else "all as they should be"
    return f"Up to fact {done.fact}: {done.games} games, {done.entries} entries, {ends}.{parked}"
