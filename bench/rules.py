"""`./levata bench rules`: random legal playouts, ours against OpenSpiel's, and the search's against our own.

A decision is a move of a player; dealing costs time and counts none. Processor time, so that a busy machine matters
less.
"""

import random
import time
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any, Final

import pyspiel

from bench.driving import MOVE_BIT, after_dealing, any_of, packs_of, setup_of
from bench.report import Ratio, more_is_better
from rules import oh_hell, registry, romanian_whist
from rules.bots import sharp
from rules.game import Game, Phase, View
from rules.moves import Move

ROUNDS: Final = 7
SECONDS: Final = 1.0
SEATS: Final = 4
PEER_FLOOR: Final = 1.0
SIBLING_FLOOR: Final = 0.5
SEARCH_FLOOR: Final = 10.0
VIEWS: Final = 40

# Plays one game, or one deal of the peer's, and tells how many decisions it took.
PlayOut = Callable[[random.Random], int]
Weigh = Callable[..., tuple[dict[Move, int], int]]


def measure() -> list[Ratio]:
    """All ratios, each from rounds that alternate."""
    plain = {game_type: _ours(game_type) for game_type in registry.GAME_TYPES}
    peers = {"euchre": _peer([pyspiel.load_game("euchre")]), "oh_hell": _peer(_oh_hell_plan())}
    searches = {game_type: _search(game_type) for game_type in registry.GAME_TYPES}
    how = f"four seats, {ROUNDS} x {SECONDS:g} s of processor time, alternating, medians"
    ratios = []
    for game_type, peer in peers.items():
        ours, theirs = _alternating(plain[game_type], peer)
        conditions = f"random legal playouts from Python; peer: OpenSpiel's {game_type}; {how}"
        ratios.append(more_is_better(f"{game_type}_playouts", ours, theirs, "decisions/s", PEER_FLOOR, conditions))
    for game_type in ("klaverjas", "romanian_whist"):
        ours, theirs = _alternating(plain[game_type], plain["oh_hell"])
        conditions = f"random legal playouts; peer: our oh_hell; {how}"
        ratios.append(more_is_better(f"{game_type}_playouts", ours, theirs, "decisions/s", SIBLING_FLOOR, conditions))
    for game_type, search in searches.items():
        ours, theirs = _alternating(search, plain[game_type])
        conditions = f"the sharp bot's search, all it does counted; peer: our random legal playouts; {how}"
        ratios.append(more_is_better(f"{game_type}_search", ours, theirs, "decisions/s", SEARCH_FLOOR, conditions))
    return ratios


def _alternating(ours: PlayOut, peer: PlayOut) -> tuple[list[float], list[float]]:
    """Decisions a second of both, by round."""
    speeds: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS):
        for play_out, of_rounds in zip((ours, peer), speeds, strict=True):
            of_rounds.append(_speed(play_out, random.Random(number)))
    return speeds


def _speed(play_out: PlayOut, chance: random.Random) -> float:
    decisions = 0
    began = time.process_time()
    while (spent := time.process_time() - began) < SECONDS:
        decisions += play_out(chance)
    return decisions / spent


def _ours(game_type: str) -> PlayOut:
    game = registry.game(game_type)
    assert game is not None
    start = game.start(setup_of(game, next(iter(game.variants)), SEATS, bytes(32)))
    packs = packs_of(game.deck(SEATS), seed=5)

    def play_out(chance: random.Random) -> int:
        legal_moves, advance, below_one = game.legal_moves, game.advance, chance.random
        count, length, move_bit = int.bit_count, int.bit_length, MOVE_BIT
        state = start
        decisions = 0
        while True:
            legal = legal_moves(state)
            if legal:
                # As `any_of`, but spelled out: here a call is a tenth of the time.
                choices = count(legal)
                if choices > 1:
                    struck = below_one() * choices
                    while struck >= 1.0:
                        legal ^= move_bit[length(legal) - 1]
                        struck -= 1.0
                state = advance(state, length(legal) - 1)
                decisions += 1
            elif state.phase is Phase.FINISHED:
                return decisions
            else:
                state = after_dealing(game, state, next(packs))

    return play_out


def _oh_hell_plan() -> list[Any]:
    """A game of the peer's for each deal of ours: it plays single deals."""
    sizes = setup_of(oh_hell.GAME, "standard", SEATS, bytes(32)).hand_sizes
    return [pyspiel.load_game("oh_hell", {"players": SEATS, "num_tricks_fixed": size}) for size in sizes]


def _peer(deals: list[Any]) -> PlayOut:
    games = cycle(deals)

    def play_out(chance: random.Random) -> int:
        below_one = chance.random
        state = next(games).new_initial_state()
        decisions = 0
        while not state.is_terminal():
            # Every card that may be dealt is as likely, so that the outcomes need not be asked for their chances.
            actions = state.legal_actions()
            decisions += not state.is_chance_node()
            state.apply_action(actions[int(below_one() * len(actions))] if len(actions) > 1 else actions[0])
        return decisions

    return play_out


def _search(game_type: str) -> PlayOut:
    """The search from a round of positions, each sampled less than by the bot, so that a round sees many."""
    game = registry.game(game_type)
    assert game is not None
    sharp.warm_up([game])
    weigh = _weigh(game_type)
    views = cycle(_views(game))
    return lambda chance: weigh(next(views), chance.randbytes(32), samples=100)[1]


def _weigh(game_type: str) -> Weigh:
    from rules.search import euchre, exact_bid, klaverjas

    searches: dict[str, Weigh] = {
        "romanian_whist": partial(exact_bid.weigh, romanian_whist.STYLE, romanian_whist.RULES.must_trump),
        "euchre": euchre.weigh,
        "oh_hell": partial(exact_bid.weigh, oh_hell.STYLE, oh_hell.RULES.must_trump),
        "klaverjas": klaverjas.weigh,
    }
    return searches[game_type]


def _views(game: Game) -> list[View]:
    """What seats saw who had a choice, in random deals."""
    chance = random.Random(11)
    deck = list(game.deck(SEATS))
    views: list[View] = []
    start = game.start(setup_of(game, next(iter(game.variants)), SEATS, bytes(32)))
    while len(views) < VIEWS:
        chance.shuffle(deck)
        state = after_dealing(game, start, tuple(deck))
        while legal := game.legal_moves(state):
            if legal & (legal - 1) and chance.random() < 0.1:
                views.append(game.view(state, state.turn))
            state = game.advance(state, any_of(legal, chance))
    return views
