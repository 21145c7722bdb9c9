"""`./levata bench edge`: what the edge costs, what a token costs, and what it bears for how long."""

import itertools
import json
import signal
import tempfile
import time
from pathlib import Path

import uvloop

from bench.holding import SEATS, open_holding
from bench.load import Opener, Tables, connections, load
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


def measure(hold: float) -> list[Ratio]:
    """All figures of the edge; watches are held for `hold` seconds."""
    with backend() as running:
        with running.table_service() as table, edge("table", table.address) as public:
            moves = uvloop.run(_moves(public, table.address, running.signer))
        token = _token_check(running)
        with running.table_service() as table, edge("table", table.address) as public:
            held = uvloop.run(_held(public, table, running.signer, hold))
        sign_ins = _sign_ins(running)
    return [*moves, token, sign_ins, *held]


async def _moves(public: str, direct: str, signer: Signer) -> list[Ratio]:
    ratios = []
    async with connections(public) as through_edge, connections(direct) as directly:
        for over_play, road, floor in ((True, "play", PLAY_FLOOR), (False, "act", ACT_FLOOR)):
            for seats in (4, 6):
                openers: dict[str, Opener] = {
                    "edge": Tables(through_edge, signer, seats, over_play, behind_edge=directly).open,
                    "direct": Tables(directly, signer, seats, over_play, behind_edge=directly).open,
                }
                speed: dict[str, list[float]] = {name: [] for name in openers}
                for _ in range(ROUNDS):
                    for name, opener in openers.items():
                        speed[name].append((await load(opener, GAMES, SECONDS)).moves / SECONDS)
                how = f"{GAMES} games, {seats} seats, {ROUNDS} x {SECONDS:g} s alternating, medians; peer: without edge"
                name = f"through_edge_{road}_{seats}_seats"
                ratios.append(more_is_better(name, speed["edge"], speed["direct"], "moves/s", floor, how))
    return ratios


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
