"""`./levata bench edge`: what the edge costs, what a token costs, and what it bears for how long."""

import itertools
import json
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop

from bench.holding import SEATS, open_holding
from bench.load import Tables, connections, load, seated
from bench.report import Ratio, less_is_better, more_is_better
from bench.servers import Backend, Service, backend, edge
from bench.signing_in import sign_ins_per_second
from chassis.auth import Signer, Verifier

GAMES = 50
SECONDS = 4.0
ROUNDS = 3
PLAY_FLOOR, ACT_FLOOR = 0.85, 0.75
TOKEN_LIMIT_US = 30.0
TOKENS, CALLS_PER_TOKEN = 2_000, 20
SIGN_INS, SIGN_INS_AT_ONCE, SIGN_INS_LIMIT = 1_000, 64, 200.0
WATCHES = 1_500
RESET_LIMIT_SECONDS = 5.0


def measure(hold: float) -> Iterator[Ratio]:
    """All figures of the edge, as they come; watches are held for `hold` seconds."""
    for over_play in (True, False):
        for seats in (4, 6):
            yield _moves(seats, over_play)
    with backend() as running:
        yield _token_check(running)
        yield _sign_ins(running)
        with running.table_service() as table, edge("table", table.address) as public:
            yield from uvloop.run(_held(public, table, running.signer, hold))


def _moves(seats: int, over_play: bool) -> Ratio:
    # Afresh each time: what was left of the games before would be played out by bots meanwhile.
    with backend() as running, running.table_service() as table, edge("table", table.address) as public:
        through_edge, direct = uvloop.run(_moves_per_second(public, table.address, running.signer, seats, over_play))
    road, floor = ("play", PLAY_FLOOR) if over_play else ("act", ACT_FLOOR)
    how = f"{GAMES} games, {seats} seats, {ROUNDS} x {SECONDS:g} s alternating, medians; peer: without edge"
    return more_is_better(f"through_edge_{road}_{seats}_seats", through_edge, direct, "moves/s", floor, how)


async def _moves_per_second(
    public: str, direct: str, signer: Signer, seats: int, over_play: bool
) -> tuple[list[float], list[float]]:
    """Through the edge and without it, in turns."""
    through_edge: list[float] = []
    without: list[float] = []
    async with (
        connections(public) as edge_channels,
        connections(direct) as channels,
        seated(Tables(edge_channels, signer, seats, over_play, behind_edge=channels).open, GAMES) as edge_games,
        seated(Tables(channels, signer, seats, over_play).open, GAMES) as games,
    ):
        for _ in range(ROUNDS):
            through_edge.append((await load(edge_games, SECONDS)).moves / SECONDS)
            without.append((await load(games, SECONDS)).moves / SECONDS)
    return through_edge, without


def _token_check(running: Backend) -> Ratio:
    """A process that sees a token for the first time checks its signature, and then remembers it."""
    jwks = json.loads(running.keys.jwks.read_text())
    times = []
    for number in range(ROUNDS):
        tokens = [
            running.signer.player_token(f"00000000-0000-4000-8000-{number:04}{token:08}", False, 900)
            for token in range(TOKENS)
        ]
        verify = Verifier(jwks).verify
        calls = list(itertools.chain.from_iterable(itertools.repeat(tokens, CALLS_PER_TOKEN)))
        began = time.process_time()
        for token in calls:
            verify(token)
        times.append((time.process_time() - began) / len(calls) * 1e6)
    how = f"{TOKENS:,} tokens of {CALLS_PER_TOKEN} calls each, {ROUNDS} times; peer: the limit"
    return less_is_better("token_check", times, [TOKEN_LIMIT_US] * ROUNDS, "us/call", 1.0, how)


def _sign_ins(running: Backend) -> Ratio:
    """Codes asked for, read from their mails and handed in, each for an address of its own, through the edge."""
    with tempfile.TemporaryDirectory(prefix="levata-bench-mails-") as folder:
        mails = Path(folder) / "mails"
        with running.accounts_service(mails) as accounts, edge("accounts", accounts.address) as public:
            speed = [uvloop.run(sign_ins_per_second(public, mails, SIGN_INS, SIGN_INS_AT_ONCE)) for _ in range(ROUNDS)]
    how = f"{SIGN_INS} new addresses, {SIGN_INS_AT_ONCE} at once, mails into a folder, {ROUNDS} times; peer: the limit"
    return more_is_better("sign_ins", speed, [SIGN_INS_LIMIT] * ROUNDS, "sign-ins/s", 1.0, how)


async def _held(public: str, table: Service, signer: Signer, seconds: float) -> list[Ratio]:
    """Watches for a long time, and then the end of them all, when the replica behind them stops answering."""
    async with connections(table.address) as directly:
        tables = Tables(directly, signer, SEATS, False, behind_edge=directly)
        holding = await open_holding(public, directly[0], tables, WATCHES)
        whole = await holding.hold(seconds)
        how = f"{WATCHES} watches of {WATCHES // SEATS} games through the edge for {seconds:g} s; peer: all of them"
        kept = more_is_better("watches_without_loss", [whole], [WATCHES], "watches", 1.0, how)
        table.process.send_signal(signal.SIGSTOP)
        try:
            reset = await holding.reset_seconds(time.perf_counter())
        finally:
            table.process.send_signal(signal.SIGCONT)
    how = f"the last of {WATCHES} streams after SIGSTOP of their replica; peer: the limit"
    return [kept, less_is_better("streams_reset", [reset], [RESET_LIMIT_SECONDS], "s", 1.0, how)]
