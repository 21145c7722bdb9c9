"""Play any of the games in a terminal through the public port of a running `./levata up`: at a table of quick play with
whoever else looks for one, or at a table of one's own, against bots.
"""

import asyncio
from pathlib import Path
from typing import Annotated, NamedTuple
from uuid import uuid4

import grpc
import typer
from levata.matchmaker.v1 import matchmaker_pb2
from levata.table.v1 import games_pb2, table_pb2

from chassis import rpc
from chassis.errors import reason_of
from rules import registry
from tools.client import CALL_SECONDS, Account, Client, sign_in_guest
from tools.data import DEFAULT_DATA, DataFolder, NotRunning
from tools.patience import Lost, patiently
from tools.play import words
from tools.play.names import Names
from tools.quick_play import Searching, Wish
from tools.tables import Match, open_table

STEADY = "steady"


class NoTable(Exception):
    """There is no table to play at; the message is a sentence."""


class Own(NamedTuple):
    """A table of one's own, with bots in the other seats."""

    match: Match
    bot_level: str
    clock: bool


def main(
    game: Annotated[str, typer.Option(help=f"One of {', '.join(registry.GAME_TYPES)}.")] = "romanian_whist",
    variant: Annotated[str | None, typer.Option(help="The rules within the game; a wrong one lists them.")] = None,
    room: Annotated[int | None, typer.Option(min=1, max=12, help="Of quick play; the first is open to all.")] = None,
    coffee: Annotated[str | None, typer.Option(help="1.5, 2, 3 or 5: multiplies what you win in the room.")] = None,
    clock: Annotated[
        bool | None,
        typer.Option("--clock/--solo", help="A table of your own, with a clock for each decision, or without."),
    ] = None,
    seats: Annotated[int | None, typer.Option(help="How many sit at your own table, where that can be chosen.")] = None,
    level: Annotated[str | None, typer.Option(help="How well its bots play: steady or sharp.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go back to the last game that is not over.")] = False,
    pace: Annotated[float, typer.Option(min=0, max=5, help="Of what is shown; 0 shows everything at once.")] = 1.0,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The public port, if not the one of `up`.")] = None,
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="The data folder of `up`.")] = DEFAULT_DATA,
) -> None:
    """Play a game in the terminal: quick play with whoever comes, or a table of your own."""
    folder = DataFolder(data)
    try:
        wanted = None if resume else wanted_table(game, variant, room, coffee, clock, seats, level)
        public = folder.endpoints().public if port is None else f"127.0.0.1:{port}"
        asyncio.run(_play(folder, public, wanted, pace))
    except (NotRunning, Lost, NoTable) as error:
        raise SystemExit(str(error)) from None
    except grpc.aio.AioRpcError as error:
        raise SystemExit(error.details() or error.code().name) from None


def wanted_table(
    game_type: str,
    variant: str | None,
    room: int | None,
    coffee: str | None,
    clock: bool | None,
    seats: int | None,
    level: str | None,
) -> Wish | Own:
    """Quick play, unless it is something that only one's own table has; NoTable, if no table has it."""
    match = match_of(game_type, variant, seats, level or STEADY)
    game = registry.game(game_type)
    assert game is not None
    in_rooms = game.quick_play if variant is None else {variant} & game.quick_play.keys()
    if clock is None and seats is None and level is None and in_rooms:
        return Wish(game_type, variant or "", room or 1, _currency(coffee))
    if room is not None or coffee is not None:
        raise NoTable("Rooms and coffee are for quick play, which has no other options than --game and --variant.")
    return Own(match, level or STEADY, bool(clock))


def _currency(coffee: str | None) -> str:
    if coffee is None:
        return ""
    if coffee not in ("1.5", "2", "3", "5"):
        raise NoTable(f"There is no such coffee as {coffee}; there are 1.5, 2, 3 and 5.")
    return f"coffee_{coffee.replace('.', '_')}"


def match_of(game_type: str, variant: str | None, seats: int | None, level: str) -> Match:
    """The table that was asked for, the rest filled in; NoTable, if there is none."""
    game = registry.game(game_type)
    if game is None:
        raise NoTable(f"There is no game {game_type}; there are {', '.join(registry.GAME_TYPES)}.")
    variant = variant or next(iter(game.variants))
    allowed = game.variants.get(variant)
    if allowed is None:
        raise NoTable(f"{game_type} has no variant {variant}; it has {', '.join(game.variants)}.")
    if seats is None:
        # Four is what most people know; a table that is never of four is as large as it may be.
        seats = 4 if 4 in allowed else max(allowed)
    if seats not in allowed:
        raise NoTable(f"{game_type} {variant} is played by {_either(allowed)}, not by {seats}.")
    if level not in game.bots:
        raise NoTable(f"{game_type} has no {level} bots; it has {', '.join(game.bots)}.")
    return Match(game_type, variant, seats)


def _either(seats: frozenset[int]) -> str:
    *others, last = sorted(seats)
    return f"{', '.join(map(str, others))} or {last}" if others else str(last)


async def _play(folder: DataFolder, public: str, wanted: Wish | Own | None, pace: float) -> None:
    """Play at the table that is wanted, or, without one, in the last game that goes on."""
    trusted = folder.endpoints().trusted()
    guest = await sign_in_guest(public, folder.player(), trusted=trusted)
    async with Client(public, guest.token, trusted=trusted) as client:
        match wanted:
            case Wish():
                game_id = await _find_table(client, guest, wanted)
            case Own(clock=True):
                game_id = await _open_with_clock(folder, guest, wanted)
            case Own():
                game_id = await _open_solo(client, wanted)
            case _:
                game_id = await _running_game(client)
    if game_id is not None:
        await _play_game(public, guest, trusted, game_id, pace)


async def _play_game(public: str, guest: Account, trusted: bytes, game_id: str, pace: float) -> None:
    # Only who plays needs textual, which takes a while to import.
    from tools.play.session import Session
    from tools.play.terminal import PlayApp

    async with Session(public, guest, game_id, trusted=trusted) as session:
        app = PlayApp(session, pace=pace)
        await app.run_async()
    if app.failure:
        raise SystemExit(app.failure)
    if app.scene.over:
        print(f"Every card of it: ./levata replay {game_id}")
    else:
        print("Back to the table: ./levata play --resume")


async def _find_table(client: Client, guest: Account, wish: Wish) -> str | None:
    """The game that comes of a wish, or the one that the guest plays already; None for who thinks better of it."""
    from tools.play.waiting import Around, WaitingApp

    answer: matchmaker_pb2.RoomsResponse = await patiently(
        lambda: client.matchmaker.Rooms(matchmaker_pb2.RoomsRequest(), timeout=CALL_SECONDS)
    )
    rooms = {room.number: room for room in answer.rooms}
    try:
        searching = await Searching.begin(client, wish)
    except grpc.aio.AioRpcError as error:
        if rooms[wish.room].why_not:
            raise NoTable(words.locked(rooms[wish.room], answer.level)) from error
        raise NoTable(words.refused(reason_of(error), wish.coffee) or error.details() or error.code().name) from error
    if searching.over:
        print("You have a seat in a game that goes on: back to it.")
        return searching.ticket.game_id
    names = Names()
    async with searching:
        around = Around(guest.account_id, names.known, lambda ids: names.learn(client.accounts, ids), rooms)
        app = WaitingApp(searching, around)
        await app.run_async()
    if app.given_up:
        print("You gave your place up.")
        return None
    if app.failure:
        raise NoTable(app.failure)
    if searching.ticket.state != matchmaker_pb2.TICKET_STATE_PLAYING:
        raise NoTable(words.ended(searching.ticket.ended))
    return searching.ticket.game_id


async def _open_with_clock(folder: DataFolder, guest: Account, own: Own) -> str:
    """A friendly table, which guests open by the tools only."""
    async with rpc.channel(folder.endpoints().services["table"][0], folder.tools_token()) as channel:
        games = rpc.stub(channel, games_pb2.DESCRIPTOR.services_by_name["Games"])
        opened = await open_table(games, own.match, {0: guest}, mode=table_pb2.MODE_FRIENDLY, bot_level=own.bot_level)
        return opened.game_id


async def _open_solo(client: Client, own: Own) -> str:
    request = matchmaker_pb2.SoloRequest(
        request_id=str(uuid4()),
        game_type=own.match.game_type,
        variant=own.match.variant,
        seats=own.match.seats,
        bot_level=own.bot_level,
    )
    opened: matchmaker_pb2.SoloResponse = await patiently(lambda: client.matchmaker.Solo(request, timeout=CALL_SECONDS))
    return opened.game_id


async def _running_game(client: Client) -> str:
    """The newest game in which the guest still has a seat."""
    request = table_pb2.ListRequest(running_only=True)
    listed: table_pb2.ListResponse = await patiently(lambda: client.table.List(request, timeout=CALL_SECONDS))
    game_id: str | None = next((game.game_id for game in listed.games if not game.left), None)
    if game_id is None:
        raise NoTable("No game of yours goes on.")
    return game_id
