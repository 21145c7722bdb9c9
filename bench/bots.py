"""`./levata bench bots`: how strong the bots are, each level against the one below it, and what a decision costs.

Every deal is played twice with the sides exchanged, seats 0 and 2 against 1 and 3, also where each seat plays alone. At
euchre and klaverjas a deal counts when the points of its two playings, added up, are not level.
"""

import os
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import sqrt
from multiprocessing import get_context
from statistics import mean, stdev
from typing import Final

from bench.driving import after_dealing, any_of, setup_of
from bench.report import Ratio, less_is_better
from rules import registry
from rules.bots import sharp
from rules.chance import Chance
from rules.game import NO_SEAT, DealRecord, Game, Setup, View

DEALS: Final = 1000
SEATS: Final = 4
RANDOM: Final = "random"
# The share of decided deals in which a level must be ahead of the one below it.
AHEAD_FLOORS: Final = {("steady", RANDOM): 0.8, ("sharp", "steady"): 0.6}
EXACT_BIDS_FLOOR: Final = 2.0
STANDARD_ERRORS_FLOOR: Final = 4.0
# What a decision may cost, in milliseconds of one core.
COST_LIMITS_MS: Final = {"steady": 0.1, "sharp": 30.0}
# Decisions that are timed, and how often; the sharp bots' are the long ones.
TIMED: Final = {"steady": 2_000, "sharp": 60}
ROUNDS: Final = 3
# Of the normal distribution, for confidence of 95 %.
_Z: Final = 1.96
_EXACT: Final = ("exact", "peer_exact")


@dataclass(frozen=True)
class Pair:
    """One deal played twice: what the better level's seats did in both playings, and the others'."""

    points: int
    peer_points: int
    # Of so many bids, four in all; 0 where there are none.
    exact: int
    peer_exact: int

    @property
    def margin(self) -> int:
        """By how many points, of all seats and both playings, the better level was ahead."""
        return self.points - self.peer_points


def measure() -> list[Ratio]:
    """All ratios."""
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), sharp.warm_up, (registry.GAMES,)) as pool:
        ratios = []
        for game in registry.GAMES:
            for level, peer in (("steady", RANDOM), ("sharp", "steady")):
                play = partial(play_pair, game.game_type, level, peer)
                pairs = list(pool.map(play, range(DEALS), chunksize=10))
                ratios.append(_judged(game, level, peer, pairs))
    return ratios + [_cost(game, level) for game in registry.GAMES for level in COST_LIMITS_MS]


def _cost(game: Game, level: str) -> Ratio:
    """What a decision takes where there is something to decide."""
    sharp.warm_up([game])
    bot, limit = game.bots[level], COST_LIMITS_MS[level]
    asked = list(islice(_decisions(game), TIMED[level]))
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for view, chance in asked:
            bot(view, chance)
        times.append((time.process_time() - began) / len(asked) * 1000)
    how = f"{len(asked)} decisions with a choice, processor time, {ROUNDS} times; peer: the limit"
    return less_is_better(f"{game.game_type}_{level}_cost", times, [limit] * ROUNDS, "ms/decision", 1.0, how)


def _decisions(game: Game) -> Iterator[tuple[View, bytes]]:
    """What seats see who have a choice, in deals that steady bots play, without end."""
    number = 0
    while True:
        chance = Chance(number.to_bytes(32, "big"))
        state = game.start(_single_deal(game, number, chance.seed))
        state = after_dealing(game, state, chance.shuffled("deal", 0, game.deck(SEATS)))
        while state.turn != NO_SEAT:
            view, words = game.view(state, state.turn), chance.bot_chance(state.turn, 0)
            if view.legal & (view.legal - 1):
                yield view, words
            state = game.advance(state, game.bots["steady"](view, words))
        number += 1


def _judged(game: Game, level: str, peer: str, pairs: Sequence[Pair]) -> Ratio:
    name = f"{game.game_type}_{level}_over_{peer}"
    if game.partners:
        return _ahead(name, pairs, AHEAD_FLOORS[level, peer])
    return _exact_bids(name, pairs) if peer == RANDOM else _margin(name, pairs)


def _ahead(name: str, pairs: Sequence[Pair], floor: float) -> Ratio:
    decided = [pair.margin for pair in pairs if pair.margin]
    share = sum(margin > 0 for margin in decided) / len(decided)
    low, high = _wilson(share, len(decided))
    how = f"{len(pairs)} deals, {len(decided)} decided; 95 % confidence {low:.3f}..{high:.3f}; peer: the floor"
    return Ratio(name, share / floor, 1.0, share, floor, "share of decided deals ahead", how)


def _wilson(share: float, count: int) -> tuple[float, float]:
    centre = share + _Z**2 / (2 * count)
    spread = _Z * sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return (centre - spread) / (1 + _Z**2 / count), (centre + spread) / (1 + _Z**2 / count)


def _exact_bids(name: str, pairs: Sequence[Pair]) -> Ratio:
    bids = SEATS * len(pairs)
    ours, theirs = sum(pair.exact for pair in pairs) / bids, sum(pair.peer_exact for pair in pairs) / bids
    how = (
        f"{len(pairs)} deals; 95 % confidence {_interval(ours, pairs, 'exact')} and"
        f" {_interval(theirs, pairs, 'peer_exact')}"
    )
    return Ratio(name, ours / theirs, EXACT_BIDS_FLOOR, ours, theirs, "share of bids exact", how)


def _interval(share: float, pairs: Sequence[Pair], field: str) -> str:
    # By deals: the bids of one deal hang together.
    spread = _Z * stdev(getattr(pair, field) / SEATS for pair in pairs) / sqrt(len(pairs))
    return f"{share - spread:.3f}..{share + spread:.3f}"


def _margin(name: str, pairs: Sequence[Pair]) -> Ratio:
    # Points of one seat in one playing.
    margins = [pair.margin / SEATS for pair in pairs]
    average, error = mean(margins), stdev(margins) / sqrt(len(margins))
    exact, peer_exact = (sum(getattr(pair, field) for pair in pairs) / SEATS / len(pairs) for field in _EXACT)
    how = (
        f"{len(pairs)} deals; mean margin of a seat {average:.2f} points a deal, 95 % confidence"
        f" {average - _Z * error:.2f}..{average + _Z * error:.2f}; exact bids {exact:.3f} to {peer_exact:.3f};"
        " peer: the floor"
    )
    return Ratio(
        name,
        average / error / STANDARD_ERRORS_FLOOR,
        1.0,
        average / error,
        STANDARD_ERRORS_FLOOR,
        "standard errors of the mean margin",
        how,
    )


def play_pair(game_type: str, level: str, peer: str, number: int) -> Pair:
    """Deal number `number`, played twice."""
    game = registry.game(game_type)
    assert game is not None
    points = peer_points = exact = peer_exact = 0
    for better_side in (0, 1):
        levels = [level if seat % 2 == better_side else peer for seat in range(SEATS)]
        record = _play(game, levels, number)
        for seat, seat_points in enumerate(record.points):
            met = bool(record.bids) and record.bids[seat] == record.tricks_won[seat]
            if seat % 2 == better_side:
                points += seat_points
                exact += met
            else:
                peer_points += seat_points
                peer_exact += met
    return Pair(points, peer_points, exact, peer_exact)


def _play(game: Game, levels: Sequence[str], number: int) -> DealRecord:
    chance = Chance(number.to_bytes(32, "big"))
    state = game.start(_single_deal(game, number, chance.seed))
    state = after_dealing(game, state, chance.shuffled("deal", 0, game.deck(SEATS)))
    moves = random.Random(number)
    while state.turn != NO_SEAT:
        view = game.view(state, state.turn)
        level = levels[state.turn]
        if level == RANDOM:
            move = any_of(view.legal, moves)
        else:
            move = game.bots[level](view, chance.bot_chance(state.turn, 0))
        state = game.advance(state, move)
    return game.view(state, None).scored[-1]


def _single_deal(game: Game, number: int, seed: bytes) -> Setup:
    """Variants and sizes of hands by turns, the dealer drawn."""
    variants = sorted(variant for variant, seats in game.variants.items() if SEATS in seats)
    variant = variants[number % len(variants)]
    planned = setup_of(game, variant, SEATS, seed)
    sizes = planned.hand_sizes
    if not game.partners:
        sizes = (sizes[number // len(variants) % len(sizes)],)
    return Setup(variant, SEATS, planned.first_dealer, sizes)
