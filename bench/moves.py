"""Durable moves of two table replicas against a bare fan-out server, and of one against boardgame.io."""

import asyncio
import os
from functools import partial
from pathlib import Path

import grpc
import uvloop

from bench import boardgame
from bench.load import BareGame, Tables, connections, load, seated
from bench.report import Ratio, less_is_better, more_is_better
from bench.servers import backend, bare_server
from chassis.auth import Signer

GAMES = 50
SECONDS = 4.0
ROUNDS = 3
PLAY_FLOOR, ACT_FLOOR, LATENCY_FLOOR, ELSEWHERE_FLOOR, BOARDGAME_FLOOR = 0.5, 0.65, 0.25, 0.35, 1.0
BOARDGAME_SEATS = 4

Channels = list[grpc.aio.Channel]


def against_the_bare_server() -> list[Ratio]:
    """Two replicas: players at the one that hosts their games, and players at the other one."""
    ratios = []
    for over_play in (True, False):
        for seats in (4, 6):
            # Afresh each time: what was left of the games before would be played out by bots meanwhile.
            with (
                backend() as running,
                running.table_service() as host,
                running.table_service() as other,
                bare_server() as bare,
            ):
                addresses = (host.address, other.address, bare.address)
                ratios += uvloop.run(_against_bare(addresses, running.signer, seats, over_play))
    return ratios


def against_boardgame() -> list[Ratio]:
    """One replica, over Play at four seats; nothing where boardgame.io cannot be had."""
    try:
        node = boardgame.install()
    except boardgame.NotHere as problem:
        print(f"boardgame.io is left out: {problem}")
        return []
    with backend() as running, running.table_service() as table:
        return [uvloop.run(_against_boardgame(running.signer, table.address, node))]


async def _against_bare(addresses: tuple[str, str, str], signer: Signer, seats: int, over_play: bool) -> list[Ratio]:
    host, other, bare = addresses
    async with (
        connections(host) as at_host,
        connections(other) as elsewhere,
        connections(bare) as at_bare,
        seated(Tables(at_host, signer, seats, over_play).open, GAMES) as ours,
        seated(Tables(elsewhere, signer, seats, over_play, behind_edge=at_host).open, GAMES) as forwarded,
        seated(partial(open_bare, at_bare, seats, over_play), GAMES) as floor,
    ):
        players = {"ours": ours, "elsewhere": forwarded, "bare": floor}
        speed: dict[str, list[float]] = {name: [] for name in players}
        for _ in range(ROUNDS):
            for name, games in players.items():
                speed[name].append((await load(games, SECONDS)).moves / SECONDS)
        rate = min(speed["ours"]) / 2
        late: dict[str, list[float]] = {"ours": [], "bare": []}
        for _ in range(ROUNDS):
            for name, found in late.items():
                found.append((await load(players[name], SECONDS, rate)).p99_ms)
    road = "play" if over_play else "act"
    how = f"two replicas, {GAMES} games, {seats} seats, {ROUNDS} x {SECONDS:g} s alternating, medians"
    compared = partial(more_is_better, peer=speed["bare"], unit="moves/s")
    return [
        compared(
            f"moves_{road}_{seats}_seats",
            speed["ours"],
            floor=PLAY_FLOOR if over_play else ACT_FLOOR,
            conditions=how,
        ),
        compared(
            f"moves_{road}_{seats}_seats_elsewhere",
            speed["elsewhere"],
            floor=ELSEWHERE_FLOOR,
            conditions="as above, with all players at the replica that does not host their games",
        ),
        less_is_better(
            f"p99_{road}_{seats}_seats",
            late["ours"],
            late["bare"],
            "ms",
            LATENCY_FLOOR,
            f"as above, both at {rate:.0f} moves/s, half of what ours reached",
        ),
    ]


async def open_bare(channels: Channels, seats: int, over_play: bool, number: int) -> BareGame:
    """A game of the floor."""
    # Games of one number would meet in one process: each run has numbers of its own.
    unique = int.from_bytes(os.urandom(8), "big")
    return await BareGame(channels[number % len(channels)], unique, seats, over_play).open()


async def _against_boardgame(signer: Signer, table: str, node: Path) -> Ratio:
    ours: list[float] = []
    theirs: list[float] = []
    async with (
        connections(table) as channels,
        seated(Tables(channels, signer, BOARDGAME_SEATS, over_play=True).open, GAMES) as games,
    ):
        for _ in range(ROUNDS):
            ours.append((await load(games, SECONDS)).moves / SECONDS)
            with boardgame.server(node) as port:
                # Our players go on saying that they are there.
                theirs.append(await asyncio.to_thread(boardgame.moves_per_second, node, port, GAMES, SECONDS))
    how = (
        f"one replica over Play, durable, {GAMES} games of four seats, {ROUNDS} x {SECONDS:g} s alternating; "
        "peer: boardgame.io in memory"
    )
    return more_is_better("moves_boardgame", ours, theirs, "moves/s", BOARDGAME_FLOOR, how)
