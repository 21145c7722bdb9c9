"""`./levata bench matchmaker`: how alike those are who are seated together, what a round costs when many wait, and how
many come to play with all services running.

The first figures are of the pure domain and hang on no server; the last ones take all there is, so they say how busy
the machine was before.
"""

import os
import random
import time
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Final
from uuid import UUID, uuid4

import asyncpg
import uvloop
from levata.matchmaker.v1 import facts_pb2

from bench.arrivals import SEATS, Arrivals, distances, first_come
from bench.report import Ratio, less_is_better, more_is_better
from bench.seeking import GAME, Seen, crowd, gathered
from bench.servers import Service, backend, bare_server
from chassis.database import open_pool
from chassis.process import calm_the_collector
from services.matchmaker.app.picture import Picture
from services.matchmaker.domain.pairing import DEALS_AFTER_US, Table, Ticket, pair
from services.matchmaker.domain.quick_play import POOLS, QuickTicket
from services.matchmaker.store.quick_play import PostgresQuickPlay

SEEDS: Final = (1, 2, 3)
ARRIVALS_A_SECOND, ARRIVAL_SECONDS = 10, 300
# Half of first-come-first-served's, so that the ratio must be two.
DISTANCE_FLOOR: Final = 2.0
WAITING, OPEN_TABLES, OPENINGS = 20_000, 300, 50
ROUND_LIMIT_MS: Final = 100.0
ROUNDS: Final = 5
ADDED_AT_ONCE: Final = 2_000
PEOPLE, LOOKING = 1_000, 200
TICKETS_LIMIT, START_LIMIT_MS = 500.0, 300.0
# Nobody asked for it: what was reached, so that it is seen when it is lost.
BARE_FLOOR: Final = 0.2
WARM_SECONDS, SECONDS, START_SECONDS = 3.0, 10.0, 8.0

_FACTS: Final = """
    select payload, extract(epoch from at)::float8 as at from facts
    where subject like 'levata.matches.seated.%' or subject like 'levata.matches.started.%' order by fact_no"""


def measure() -> Iterator[Ratio]:
    """All figures of the matchmaker, as they come."""
    yield _alike()
    yield _round()
    with backend() as running:
        yield uvloop.run(_live_round(running.dsn("matchmaker")))
    busy = os.getloadavg()[0]
    with backend() as running, running.all_services() as services:
        yield from uvloop.run(_playing(services, running.dsn("table"), running.dsn("matchmaker"), busy))


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


async def _live_round(dsn: str) -> Ratio:
    """As above, over Postgres: the picture is compared with the pool, and what is decided is written."""
    pool = next(pool for pool in POOLS if pool.game_type == GAME)
    chance = random.Random(7)
    async with await open_pool(dsn, "levata bench") as connections:
        store = PostgresQuickPlay(connections)
        picture = Picture()
        for _ in range(0, WAITING, ADDED_AT_ONCE):
            some = [
                QuickTicket(uuid4(), uuid4(), False, pool, chance.randint(1, 12), "", chance.random(), (), 0)
                for _ in range(ADDED_AT_ONCE)
            ]
            for ticket in await store.add(some):
                picture.put(ticket)
        # As in a service, which has as many tickets all the time.
        calm_the_collector()
        took = []
        for _ in range(ROUNDS):
            turn = await store.take_turn(pool)
            assert turn is not None
            began = time.perf_counter()
            outline = await store.outline(pool, picture.marks.sums)
            assert not outline.found.buckets
            waiting = picture.waiting()
            ids = [uuid4() for _ in range(OPENINGS)]
            decisions = pair(waiting, [], capacity=SEATS, now_us=waiting[0].queued_at_us, new_ids=ids, apart={})
            seated = await store.seat(turn, decisions)
            for ticket in seated:
                picture.put(ticket)
            took.append((time.perf_counter() - began) * 1000)
            assert len(seated) > OPENINGS
    how = (
        f"{WAITING:,} tickets in Postgres, read and compared with the picture, paired, {OPENINGS} tables written, "
        f"{ROUNDS} times; peer: the limit"
    )
    return less_is_better("forming_round_in_postgres", took, [ROUND_LIMIT_MS] * ROUNDS, "ms", 1.0, how)


async def _playing(services: Mapping[str, Service], table_dsn: str, dsn: str, busy: float) -> list[Ratio]:
    """How many come to play; and at half of that, how long a full table takes to its start."""
    async with gathered(services, table_dsn, PEOPLE) as people:
        seen = await people.keep_looking(LOOKING, WARM_SECONDS, SECONDS)
        reached = seen.tickets / SECONDS
        assert reached, f"nobody came to play: {seen.failures}"
        await people.rest()
        seen = await people.look(reached / 2, START_SECONDS)
    lasted = sorted(await _to_the_start_ms(dsn, seen))
    bare = await _playing_bare()
    how = (
        f"{LOOKING} of {PEOPLE:,} people look at the same time, when one comes to play another one looks, for "
        f"{SECONDS:g} s; one replica of each service, all streams open, commitments answered, games created and "
        f"cancelled; the people's own work is on the same cores; load of the machine before: {busy:.1f}; peer: "
    )
    at_half = f"from the last seat's commit to each player's message, at {reached / 2:.0f} tickets/s, half of the above"
    return [
        more_is_better("tickets", [reached], [TICKETS_LIMIT], "tickets/s", 1.0, how + "the limit"),
        more_is_better(
            "tickets_bare",
            [reached],
            [bare],
            "tickets/s",
            BARE_FLOOR,
            how + "a bare grpc.aio server that seats the same people in its own memory and does nothing else",
        ),
        less_is_better(
            "full_table_to_start_p99", [lasted[int(len(lasted) * 0.99)]], [START_LIMIT_MS], "ms", 1.0, at_half
        ),
    ]


async def _playing_bare() -> float:
    """The tickets a second of a server that only seats people."""
    with bare_server("bench.bare_matchmaker") as bare:
        async with crowd(bare.address, bare.address, _is_over_soon) as people:
            await people.gather([f"of person {number}" for number in range(PEOPLE)])
            seen = await people.keep_looking(LOOKING, WARM_SECONDS, SECONDS)
    return seen.tickets / SECONDS


def _is_over_soon(_: UUID) -> None:
    """The bare server ends its games itself."""


async def _to_the_start_ms(dsn: str, seen: Seen) -> list[float]:
    """Of each player at a table that was full: how long after the last one had a seat the start was heard of."""
    last_seated: dict[str, float] = {}
    lasted = []
    connection = await asyncpg.connect(dsn)
    try:
        for payload, at in await connection.fetch(_FACTS):
            fact = facts_pb2.TableFact.FromString(payload)
            if fact.HasField("seated"):
                last_seated[fact.table_id] = at
            elif len(fact.started.account_ids) == SEATS:
                heard = seen.started_at.get(fact.started.game_id, [])
                lasted += [(heard_at - last_seated[fact.table_id]) * 1000 for heard_at in heard]
    finally:
        await connection.close()
    return lasted
