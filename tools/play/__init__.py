"""Play any of the games in a terminal, against bots, through the public port of a running `./levata up`."""

import asyncio
from pathlib import Path
from typing import Annotated, NamedTuple

import grpc
import typer
from levata.table.v1 import games_pb2, table_pb2

from chassis import rpc
from rules import registry
from tools.client import CALL_SECONDS, Account, Client, sign_in_guest
from tools.data import DEFAULT_DATA, DataFolder, NotRunning
from tools.patience import Lost
from tools.tables import Match, open_table


class NoSuchTable(Exception):
    """No table like this can be opened, or none is left; the message is a sentence."""


class Opening(NamedTuple):
    """The table to be opened."""

    match: Match
    mode: table_pb2.Mode.ValueType
    bot_level: str


def main(
    game: Annotated[str, typer.Option(help=f"One of {', '.join(registry.GAME_TYPES)}.")] = "romanian_whist",
    variant: Annotated[str | None, typer.Option(help="The rules within the game; a wrong one lists them.")] = None,
    seats: Annotated[int | None, typer.Option(help="How many sit at the table, where that can be chosen.")] = None,
    level: Annotated[str, typer.Option(help="How well the bots play: steady or sharp.")] = "steady",
    clock: Annotated[bool, typer.Option("--clock/--solo", help="With a clock for each decision, or without.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go back to the last game that is not over.")] = False,
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
        asyncio.run(_play(folder, public, None if resume else Opening(match, mode, level), pace))
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


async def _play(folder: DataFolder, public: str, opening: Opening | None, pace: float) -> None:
    """Play at a new table, or, without one to open, at the last that goes on."""
    # Only who plays needs textual, which takes a while to import.
    from tools.play.session import Session
    from tools.play.terminal import PlayApp

    trusted = folder.endpoints().trusted()
    guest = await sign_in_guest(public, folder.player(), trusted=trusted)
    if opening is None:
        game_id = await _running_game(public, guest, trusted)
    else:
        game_id = await _open(folder, guest, opening)
    async with Session(public, guest, game_id, trusted=trusted) as session:
        app = PlayApp(session, pace=pace)
        await app.run_async()
    if app.failure:
        raise SystemExit(app.failure)
    if app.scene.over:
        print(f"Every card of it: ./levata replay {game_id}")
    else:
        print("Back to the table: ./levata play --resume")


async def _open(folder: DataFolder, guest: Account, opening: Opening) -> str:
    async with rpc.channel(folder.endpoints().services["table"][0], folder.tools_token()) as channel:
        games = rpc.stub(channel, games_pb2.DESCRIPTOR.services_by_name["Games"])
        match, mode, level = opening
        return (await open_table(games, match, {0: guest}, mode=mode, bot_level=level)).game_id


async def _running_game(public: str, guest: Account, trusted: bytes) -> str:
    """The newest game in which the guest still has a seat."""
    async with Client(public, guest.token, trusted=trusted) as client:
        listed = await client.table.List(table_pb2.ListRequest(running_only=True), timeout=CALL_SECONDS)
    game_id: str | None = next((game.game_id for game in listed.games if not game.left), None)
    if game_id is None:
        raise NoSuchTable("No game of yours goes on.")
    return game_id
