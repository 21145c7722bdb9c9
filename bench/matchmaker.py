"""`./levata bench matchmaker`: how alike those are who are seated together, and what a round costs when many wait.

Both are of the pure domain: ratios that hang on no server.
"""

import random
import time
from statistics import fmean
from typing import Final
from uuid import UUID

from bench.arrivals import SEATS, Arrivals, distances, first_come
from bench.report import Ratio, less_is_better
from services.matchmaker.domain.pairing import DEALS_AFTER_US, Table, Ticket, pair

SEEDS: Final = (1, 2, 3)
ARRIVALS_A_SECOND, ARRIVAL_SECONDS = 10, 300
# Half of first-come-first-served's, so that the ratio must be two.
DISTANCE_FLOOR: Final = 2.0
WAITING, OPEN_TABLES, OPENINGS = 20_000, 300, 50
ROUND_LIMIT_MS: Final = 100.0
ROUNDS: Final = 5


def measure() -> list[Ratio]:
    """All figures of the matchmaker's domain."""
    return [_alike(), _round()]


def _alike() -> Ratio:
    ours, theirs = [], []
    for seed in SEEDS:
        arrivals = Arrivals(seed, ARRIVALS_A_SECOND, ARRIVAL_SECONDS)
        ours.append(fmean(distances(arrivals.played())))
        theirs.append(fmean(distances(first_come(arrivals, SEATS))))
    how = (
        f"{ARRIVALS_A_SECOND} arrivals a second for {ARRIVAL_SECONDS} s, ranks uniform, {SEATS} seats, "
        f"seeds {', '.join(map(str, SEEDS))}; peer: first come, first served"
    )
    return less_is_better("rank_distance", ours, theirs, "of all ranks", DISTANCE_FLOOR, how)


def _round() -> Ratio:
    chance = random.Random(7)
    waiting = sorted(
        (
            Ticket(UUID(int=n), UUID(int=n), chance.randint(1, 12), chance.random(), -chance.randrange(DEALS_AFTER_US))
            for n in range(WAITING)
        ),
        key=lambda ticket: ticket.queued_at_us,
    )
    tables = [
        Table(
            UUID(int=n),
            chance.randint(1, 12),
            chance.random(),
            -chance.randrange(DEALS_AFTER_US),
            (UUID(int=-n % 2**90),),
        )
        for n in range(OPEN_TABLES)
    ]
    new_ids = [UUID(int=OPEN_TABLES + n) for n in range(OPENINGS)]
    took = []
    for _ in range(ROUNDS):
        began = time.process_time()
        decisions = pair(waiting, tables, capacity=SEATS, now_us=0, new_ids=new_ids, apart={})
        took.append((time.process_time() - began) * 1000)
        assert len(decisions) > OPENINGS
    how = f"{WAITING:,} tickets of twelve rooms wait, {OPEN_TABLES} tables have seats, {ROUNDS} times; peer: the limit"
    return less_is_better("forming_round", took, [ROUND_LIMIT_MS] * ROUNDS, "ms", 1.0, how)
