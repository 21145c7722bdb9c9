"""Durable moves of two table replicas against a bare fan-out server, and of one against boardgame.io."""

import os
from functools import partial
from pathlib import Path

import grpc
import uvloop

from bench import boardgame
from bench.load import BareGame, Opener, Tables, connections, load
from bench.report import Ratio, less_is_better, more_is_better
from bench.servers import Backend, backend, bare_server
from chassis.auth import Signer

GAMES = 50
SECONDS = 4.0
ROUNDS = 3
PLAY_FLOOR, ACT_FLOOR, LATENCY_FLOOR, ELSEWHERE_FLOOR, BOARDGAME_FLOOR = 0.5, 0.65, 0.25, 0.35, 1.0
BOARDGAME_SEATS = 4

Channels = list[grpc.aio.Channel]


def against_the_bare_server() -> list[Ratio]:
    """Two replicas: players at the one that hosts their games, and players at the other one."""
    with backend() as running, running.table_service() as host, running.table_service() as other, bare_server() as bare:
        return uvloop.run(_against_bare(host.address, other.address, bare.address, running.signer))


def against_boardgame() -> list[Ratio]:
    """One replica, over Play at four seats; nothing where boardgame.io cannot be had."""
    try:
        node = boardgame.install()
    except boardgame.NotHere as problem:
        print(f"boardgame.io is left out: {problem}")
        return []
    with backend() as running:
        return [_against_boardgame(running, node)]


async def _against_bare(host: str, other: str, bare: str, signer: Signer) -> list[Ratio]:
    ratios = []
    async with (
        connections(host) as at_host,
        connections(other) as elsewhere,
        connections(bare) as at_bare,
    ):
        for over_play, road, floor in ((True, "play", PLAY_FLOOR), (False, "act", ACT_FLOOR)):
            for seats in (4, 6):
                tables = Tables(at_host, signer, seats, over_play)
                openers: dict[str, Opener] = {
                    "ours": tables.open,
                    "elsewhere": Tables(elsewhere, signer, seats, over_play, behind_edge=at_host).open,
                    "bare": partial(open_bare, at_bare, seats, over_play),
                }
                speed: dict[str, list[float]] = {name: [] for name in openers}
                for _ in range(ROUNDS):
                    for name, opener in openers.items():
                        speed[name].append((await load(opener, GAMES, SECONDS)).moves / SECONDS)
                how = f"two replicas, {GAMES} games, {seats} seats, {ROUNDS} x {SECONDS:g} s alternating, medians"
                compared = partial(more_is_better, peer=speed["bare"], unit="moves/s")
                ratios += [
                    compared(f"moves_{road}_{seats}_seats", speed["ours"], floor=floor, conditions=how),
                    compared(
                        f"moves_{road}_{seats}_seats_elsewhere",
                        speed["elsewhere"],
                        floor=ELSEWHERE_FLOOR,
                        conditions="as above, with all players at the replica that does not host their games",
                    ),
                ]
                ratios.append(await _latency(openers, min(speed["ours"]) / 2, f"p99_{road}_{seats}_seats"))
    return ratios


async def _latency(openers: dict[str, Opener], rate: float, name: str) -> Ratio:
    late: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(ROUNDS):
        for who, found in late.items():
            found.append((await load(openers[who], GAMES, SECONDS, rate)).p99_ms)
    how = f"as above, both at {rate:.0f} moves/s, half of what ours reached"
    return less_is_better(name, late["ours"], late["bare"], "ms", LATENCY_FLOOR, how)


async def open_bare(channels: Channels, seats: int, over_play: bool, number: int) -> BareGame:
    """A game of the floor."""
    # Games of one number would meet in one process: each run has numbers of its own.
    unique = int.from_bytes(os.urandom(8), "big")
    return await BareGame(channels[number % len(channels)], unique, seats, over_play).open()


def _against_boardgame(running: Backend, node: Path) -> Ratio:
    ours: list[float] = []
    theirs: list[float] = []
    with running.table_service() as table:

        async def durable() -> float:
            async with connections(table.address) as channels:
                opener = Tables(channels, running.signer, BOARDGAME_SEATS, over_play=True).open
                return (await load(opener, GAMES, SECONDS)).moves / SECONDS

        for _ in range(ROUNDS):
            ours.append(uvloop.run(durable()))
            with boardgame.server(node) as port:
                theirs.append(boardgame.moves_per_second(node, port, GAMES, SECONDS))
    how = (
        f"one replica over Play, durable, {GAMES} games of four seats, {ROUNDS} x {SECONDS:g} s alternating; "
        "peer: boardgame.io in memory"
    )
    return more_is_better("moves_boardgame", ours, theirs, "moves/s", BOARDGAME_FLOOR, how)
