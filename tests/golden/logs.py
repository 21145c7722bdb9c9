"""Logs of whole games, kept so that the rules that made them are replayed for ever after.

One JSON line an event, after a line with the setup. `python -m tests.golden.logs [GAME_TYPE ...]` records what is
missing: games of each variant at its newest version, with the steady bot in the even seats and random play in the odd
ones. A log that is in the repository is never written again: a change of the rules or of a bot is a new version, with
new logs.
"""

import json
import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from rules.cards import NAME, members
from rules.chance import Chance
from rules.game import DealScored, Dealt, Event, Finished, Game, Moved, Rejection, Setup
from rules.moves import DISCARD, MOVE_END, NAME_TRUMP, ORDER_UP_ALONE, Move, Moves, text
from rules.registry import GAME_TYPES, game
from tests.playing import Chooser, codes, steps

FOLDER = Path(__file__).parent
# The codes that mean a move; the others are free.
MOVES = {text(move): move for move in (*range(ORDER_UP_ALONE + 1), *range(NAME_TRUMP, 78), *range(DISCARD, MOVE_END))}


@dataclass(frozen=True)
class Log:
    """A recorded game."""

    game_type: str
    rules_version: int
    bot_version: int
    seed: bytes
    setup: Setup
    events: tuple[Event, ...]

    @property
    def file_name(self) -> str:
        """Where it is kept."""
        version = f"r{self.rules_version}b{self.bot_version}"
        return f"{self.game_type}_{self.setup.variant}_{self.setup.seats}_{version}.jsonl"


def mixed_play(engine: Game, seed: bytes) -> Chooser:
    """The steady bot in even seats, random play in odd ones."""
    chance, random_play = Chance(seed), random.Random(seed)

    def choose(state: Any, legal: Moves) -> Move:
        if state.turn % 2:
            return random_play.choice(list(members(legal)))
        return engine.bots["steady"](engine.view(state, state.turn), chance.bot_chance(state.turn, state.deal))

    return choose


def record(engine: Game, variant: str, seats: int) -> Log:
    """A game as it is played today."""
    seed = sha256(f"{engine.game_type} {variant} {seats}".encode()).digest()
    setup = engine.setup(variant, seats, Chance(seed))
    assert not isinstance(setup, Rejection)
    events = [event for _, _, events, _ in steps(engine, setup, seed, mixed_play(engine, seed)) for event in events]
    return Log(engine.game_type, engine.rules_version, engine.bot_version, seed, setup, tuple(events))


def lines(log: Log) -> Iterator[str]:
    """The log as it is stored."""
    setup = log.setup
    yield json.dumps(
        {
            "game_type": log.game_type,
            "rules_version": log.rules_version,
            "bot_version": log.bot_version,
            "seed": log.seed.hex(),
            "variant": setup.variant,
            "seats": setup.seats,
            "first_dealer": setup.first_dealer,
            "hand_sizes": setup.hand_sizes,
        }
    )
    for event in log.events:
        match event:
            case Moved(seat, move):
                yield json.dumps({"moved": [seat, text(move)]})
            case Dealt(deal, dealer, pack):
                yield json.dumps({"dealt": [deal, dealer, " ".join(NAME[card] for card in pack)]})
            case DealScored(deal, points):
                yield json.dumps({"scored": [deal, points]})
            case Finished(standings):
                yield json.dumps({"finished": standings})


def parsed(stored: Iterable[str]) -> Log:
    """The log that was stored as these lines."""
    first, *rest = map(json.loads, stored)
    return Log(
        first["game_type"],
        first["rules_version"],
        first["bot_version"],
        bytes.fromhex(first["seed"]),
        Setup(first["variant"], first["seats"], first["first_dealer"], tuple(first["hand_sizes"])),
        tuple(map(_event, rest)),
    )


def _event(line: dict[str, Any]) -> Event:
    ((kind, content),) = line.items()
    match kind:
        case "moved":
            return Moved(content[0], MOVES[content[1]])
        case "dealt":
            return Dealt(content[0], content[1], tuple(codes(content[2])))
        case "scored":
            return DealScored(content[0], tuple(content[1]))
        case "finished":
            return Finished(tuple(content))
        case _:
            raise AssertionError(kind)


def contests(game_type: str) -> Iterator[tuple[Game, str, int]]:
    """What of a game has to have a log: each variant with each number of seats."""
    engine = game(game_type)
    assert engine is not None
    for variant, allowed in engine.variants.items():
        for seats in sorted(allowed):
            yield engine, variant, seats


def record_missing(game_types: Iterable[str]) -> None:
    """Record today's games that have no log yet."""
    for game_type in game_types:
        for contest in contests(game_type):
            log = record(*contest)
            path = FOLDER / log.file_name
            if not path.exists():
                path.write_text("\n".join(lines(log)) + "\n")


if __name__ == "__main__":
    record_missing(sys.argv[1:] or GAME_TYPES)
