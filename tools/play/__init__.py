"""Play any of the games in a terminal, against bots, through the public port of a running `./levata up`."""

import asyncio
from pathlib import Path
from typing import Annotated

import grpc
import typer
from levata.table.v1 import games_pb2, table_pb2

from chassis import rpc
from rules import registry
from tools.client import Lost, sign_in_guest
from tools.data import DEFAULT_DATA, DataFolder, NotRunning
from tools.tables import Match, open_table


class NoSuchTable(Exception):
    """No table like this can be opened; the message is a sentence."""


def main(
    game: Annotated[str, typer.Option(help=f"One of {', '.join(registry.GAME_TYPES)}.")] = "romanian_whist",
    variant: Annotated[str | None, typer.Option(help="The rules within the game; a wrong one lists them.")] = None,
    seats: Annotated[int | None, typer.Option(help="How many sit at the table, where that can be chosen.")] = None,
    level: Annotated[str, typer.Option(help="How well the bots play: steady or sharp.")] = "steady",
    clock: Annotated[bool, typer.Option("--clock/--solo", help="With a clock for each decision, or without.")] = False,
    pace: Annotated[float, typer.Option(min=0, max=5, help="Of what is shown; 0 shows everything at once.")] = 1.0,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The public port, if not the one of `up`.")] = None,
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="The data folder of `up`.")] = DEFAULT_DATA,
) -> None:
    """Play a game in the terminal, against bots."""
    folder = DataFolder(data)
    mode = table_pb2.MODE_FRIENDLY if clock else table_pb2.MODE_SOLO
    try:
        match = match_of(game, variant, seats, level)
        public = folder.endpoints().public if port is None else f"127.0.0.1:{port}"
        asyncio.run(_play(folder, public, match, mode, level, pace))
    except (NotRunning, Lost, NoSuchTable) as error:
        raise SystemExit(str(error)) from None
    except grpc.aio.AioRpcError as error:
        raise SystemExit(error.details() or error.code().name) from None


def match_of(game_type: str, variant: str | None, seats: int | None, level: str) -> Match:
    """The table that was asked for, the rest filled in; NoSuchTable, if there is none."""
    game = registry.game(game_type)
    if game is None:
        raise NoSuchTable(f"There is no game {game_type}; there are {', '.join(registry.GAME_TYPES)}.")
    variant = variant or next(iter(game.variants))
    allowed = game.variants.get(variant)
    if allowed is None:
        raise NoSuchTable(f"{game_type} has no variant {variant}; it has {', '.join(game.variants)}.")
    if seats is None:
        # Four is what most people know; a table that is never of four is as large as it may be.
        seats = 4 if 4 in allowed else max(allowed)
    if seats not in allowed:
        raise NoSuchTable(f"{game_type} {variant} is played by {_either(allowed)}, not by {seats}.")
    if level not in game.bots:
        raise NoSuchTable(f"{game_type} has no {level} bots; it has {', '.join(game.bots)}.")
    return Match(game_type, variant, seats)


def _either(seats: frozenset[int]) -> str:
    *others, last = sorted(seats)
    return f"{', '.join(map(str, others))} or {last}" if others else str(last)


async def _play(
    folder: DataFolder, public: str, match: Match, mode: table_pb2.Mode.ValueType, level: str, pace: float
) -> None:
    # Only who plays needs textual, which takes a while to import.
    from tools.play.session import Session
    from tools.play.terminal import PlayApp

    trusted = folder.endpoints().trusted()
    guest = await sign_in_guest(public, trusted=trusted)
    async with rpc.channel(folder.endpoints().services["table"][0], folder.tools_token()) as channel:
        games = rpc.stub(channel, games_pb2.DESCRIPTOR.services_by_name["Games"])
        opened = await open_table(games, match, {0: guest}, mode=mode, bot_level=level)
    async with Session(public, guest, opened.game_id, trusted=trusted) as session:
        app = PlayApp(session, pace=pace)
        await app.run_async()
    if app.failure:
        raise SystemExit(app.failure)
    if app.scene.over:
        print(f"Every card of it: ./levata replay {opened.game_id}")
