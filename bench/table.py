"""`./levata bench table`: all that is measured of the table service, in parts."""

import asyncio
import gc
import os
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

import uvloop

from bench import moves, sizes, takeover
from bench.report import Ratio, less_is_better, more_is_better
from bench.servers import Backend, backend
from chassis import clock
from chassis.log import Append, AppendResult, GroupWriter, chain_start, next_chain
from rules import game as g
from rules import registry
from rules.cards import members
from rules.chance import Chance, game_seed
from services.table import domain
from services.table.app.audience import Audiences
from services.table.app.deadlines import Deadlines
from services.table.app.ports import Loaded
from services.table.app.running import RunningGame
from services.table.domain import Clock, Decider, Mode, Occupant, Secret
from services.table.rpc import messages
from services.table.store.codec import decode, encode

ROUNDS = 3
COMMIT_GAMES, COMMIT_SECONDS, COMMIT_FLOOR = 500, 3.0, 4.0
FOLD_GAMES, FOLD_LIMIT_US = 1_000, 1.0
MEMORY_GAMES, MEMORY_LIMIT_KB = 200, 40.0


def measure(only: Sequence[str] = ()) -> Iterator[Ratio]:
    """The figures of these parts of the table service, as they come; by default of all."""
    for name, part in PARTS.items():
        if not only or name in only:
            yield from part()


def _of_one_process() -> list[Ratio]:
    """Group commit, folding and memory, without any server but Postgres."""
    with backend() as running:
        commits = uvloop.run(_group_commit(running))
    return [commits, _fold(), _memory()]


async def _group_commit(running: Backend) -> Ratio:
    """The writer as it is, against the same code with a transaction per move on sixteen connections."""
    grouped: list[float] = []
    single: list[float] = []
    for _ in range(ROUNDS):
        grouped.append(await _commits(GroupWriter(running.dsn("table"))))
        single.append(await _commits(GroupWriter(running.dsn("table"), connections=16, batch_rows_max=1)))
    how = f"{COMMIT_GAMES} games at once, {ROUNDS} x {COMMIT_SECONDS:g} s alternating; peer: one row, 16 connections"
    return more_is_better("group_commit", grouped, single, "commits/s", COMMIT_FLOOR, how)


async def _commits(writer: GroupWriter) -> float:
    payload = os.urandom(40)
    stop = time.perf_counter() + COMMIT_SECONDS
    committed = 0

    async def play() -> None:
        nonlocal committed
        milliseconds = int(time.time() * 1000)
        raw = bytearray(milliseconds.to_bytes(6, "big") + os.urandom(10))
        raw[6], raw[8] = raw[6] & 15 | 0x70, raw[8] & 63 | 0x80
        stream = UUID(bytes=bytes(raw))
        chain = chain_start(stream)
        version = 0
        while time.perf_counter() < stop:
            version += 1
            following = next_chain(chain, version, 4, payload)
            row = Append(stream, version, 4, payload, chain, following, UUID(bytes=os.urandom(16)), payload[:16])
            result = await writer.append(row)
            assert result is AppendResult.COMMITTED
            chain = following
            committed += 1

    async with writer:
        await asyncio.gather(*(play() for _ in range(COMMIT_GAMES)))
    return committed / COMMIT_SECONDS


def _fold() -> Ratio:
    """`evolve` over the logs of whole games, as a replay runs it; processor time, as in the bench of the rules."""
    chance = random.Random(7)
    logs = [_random_game(number, chance) for number in range(FOLD_GAMES)]
    events = sum(len(log) for _, _, log in logs)
    # The logs themselves are no garbage of the fold: without this each collection would walk through them.
    gc.collect()
    gc.freeze()
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for game, start, log in logs:
            evolve = game.evolve
            state = start
            for event in log:
                state = evolve(state, event)
        times.append((time.process_time() - began) / events * 1e6)
    gc.unfreeze()
    how = f"{FOLD_GAMES} random games of whist at 4 and 6 seats, {events:,} events, {ROUNDS} times; peer: the limit"
    return less_is_better("evolve", times, [FOLD_LIMIT_US] * ROUNDS, "us/event", 1.0, how)


def _random_game(number: int, chance: random.Random) -> tuple[g.Game, object, Sequence[g.Event]]:
    game = registry.game("romanian_whist")
    assert game is not None
    seats = 4 + 2 * (number % 2)
    draws = Chance(game_seed(bytes(32), number.to_bytes(16, "big"), ()))
    setup = game.setup("8-1-8", seats, draws)
    assert isinstance(setup, g.Setup)
    start = state = game.start(setup)
    log: list[g.Event] = []
    while state.phase != g.Phase.FINISHED:
        command: g.Command
        if state.phase == g.Phase.AWAITING_DEAL:
            command = g.DealCards(draws.shuffled("deal", state.deal + 1, game.deck(seats)))
        else:
            command = g.MakeMove(state.turn, chance.choice(list(members(game.legal_moves(state)))))
        events = game.decide(state, command)
        assert not isinstance(events, g.Rejection)
        for event in events:
            state = game.evolve(state, event)
        log.extend(events)
    return game, start, log


def _memory() -> Ratio:
    """What a running game holds when nobody watches: six-seat games near their end, as loaded from the log."""
    games = [_nearly_finished(number) for number in range(3)]
    # Of its surroundings a game that does nothing needs no more.
    around: Any = SimpleNamespace(
        deadlines=Deadlines(), clock=clock.Clock(), heartbeat=SimpleNamespace(troubled_at_us=0)
    )
    audiences = Audiences(messages)
    sizes = []
    for _ in range(ROUNDS):
        gc.collect()
        tracemalloc.start()
        held = []
        for number in range(MEMORY_GAMES):
            table = None
            for commit in games[number % len(games)]():
                table = domain.apply(table, commit)
            assert table is not None
            loaded = Loaded(table, bytes(32))
            held.append(RunningGame(around, UUID(int=number), loaded, 1, audiences.begin(table.version)))
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0] / MEMORY_GAMES / 1024)
        tracemalloc.stop()
    how = f"{MEMORY_GAMES} six-seat 8-1-8 games in their last deal, loaded from the log, traced; peer: the limit"
    return less_is_better("memory_a_game", sizes, [MEMORY_LIMIT_KB] * ROUNDS, "KB", 1.0, how)


def _nearly_finished(number: int) -> Callable[[], Iterator[domain.Commit]]:
    """The log of a six-seat game without its last commit; what comes out of it is decoded afresh each time."""
    game = registry.game("romanian_whist")
    assert game is not None
    chance = random.Random(number)
    game_id = number.to_bytes(16, "big")
    secret = Secret(bytes(32), (b"",) * 6)
    setup = game.setup("8-1-8", 6, Chance(game_seed(secret.server_seed, game_id, secret.nonces)))
    assert isinstance(setup, g.Setup)
    step = domain.open_table(
        game_id=game_id,
        game=game,
        setup=setup,
        mode=Mode.FRIENDLY,
        seats=[Occupant(str(UUID(int=seat + 1))) for seat in range(6)],
        clock=Clock(20, 15),
        secret=secret,
        host="bench",
        now_us=0,
    )
    payloads = [encode(step.commit)]
    while True:
        table = step.table
        following = domain.move(table, table.turn, chance.choice(list(members(table.legal))), Decider.PERSON, 0)
        assert not isinstance(following, g.Rejection)
        if following.table.over:
            return lambda: (decode(version, payload, game_id) for version, payload in enumerate(payloads, start=1))
        step = following
        payloads.append(encode(step.commit))


PARTS: Final[Mapping[str, Callable[[], list[Ratio]]]] = {
    "moves": moves.against_the_bare_server,
    "boardgame": moves.against_boardgame,
    "process": _of_one_process,
    "games": sizes.hosted_games,
    "watchers": sizes.idle_watchers,
    "passing": sizes.passing_watchers,
    "takeover": takeover.take_over,
}
