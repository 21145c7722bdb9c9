"""Show a game from its log, trick by trick: bids, cards, scores and standings.

A finished game is shown open, or from one seat's view with `--seat`. With `--json` each commit is one JSON object on a
line of its own: levata.table.v1.ReplayResponse in protobuf's JSON form.
"""

import asyncio
from pathlib import Path
from typing import Annotated
from uuid import UUID

import grpc
import typer
from google.protobuf.json_format import MessageToJson
from levata.table.v1 import table_pb2
from rich.console import Console

from tools.client import Client
from tools.data import DEFAULT_DATA, DataFolder, NotRunning
from tools.patience import Lost
from tools.recorded import recorded
from tools.telling import teller


def main(
    game_id: Annotated[str, typer.Argument(help="The game's id.", metavar="GAME_ID")],
    seat: Annotated[int | None, typer.Option(min=0, max=6, help="Show it from this seat's view.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a commit.")] = False,
    data: Annotated[Path, typer.Option(help="The data folder of the running ./levata up.")] = DEFAULT_DATA,
) -> None:
    """Show a game from its log, trick by trick."""
    try:
        game_id = str(UUID(game_id))
    except ValueError:
        raise SystemExit(f"{game_id} is not a game's id.") from None
    try:
        responses = asyncio.run(_read(DataFolder(data), game_id, seat))
    except (NotRunning, Lost) as error:
        raise SystemExit(str(error)) from None
    except grpc.aio.AioRpcError as error:
        raise SystemExit(error.details() or error.code().name) from None
    if as_json:
        for response in responses:
            print(MessageToJson(response, preserving_proto_field_name=True, indent=None))
        return
    console = Console(highlight=False)
    for part in teller(recorded(game_id, responses, seat)).tell():
        console.print(part)


async def _read(folder: DataFolder, game_id: str, seat: int | None) -> list[table_pb2.ReplayResponse]:
    endpoints = folder.endpoints()
    async with Client(endpoints.public, folder.tools_token(), trusted=endpoints.trusted()) as client:
        return await client.replay(game_id, seat)
