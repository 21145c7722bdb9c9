"""Games are looked at when one of their times has come: never late, early at most once, and not after their end."""

import random
from dataclasses import dataclass
from uuid import UUID

from services.table.app.deadlines import Deadlines


@dataclass
class Game:
    """A game with a next time."""

    game_id: UUID
    due_at_us: int = 0
    look_at_us: int = 0


def looks(deadlines: Deadlines, games: dict[UUID, Game], now_us: int) -> list[UUID]:
    """Which games are due, as a host finds out."""
    due = []
    for game_id, entry_us in list(deadlines.due(now_us)):
        game = games.get(game_id)
        if game is not None and game.look_at_us == entry_us:
            game.look_at_us = 0
            if 0 < game.due_at_us <= now_us:
                due.append(game_id)
            else:
                deadlines.note(game)
    return due


def test_each_time_is_met_whatever_moves() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201 - pytest shows it when the test fails
    chance = random.Random(seed)
    deadlines = Deadlines()
    games = {UUID(int=number): Game(UUID(int=number)) for number in range(50)}
    for now_us in range(1, 2_000):
        for game in chance.sample(list(games.values()), 5):
            game.due_at_us = chance.choice((0, now_us + chance.randrange(1, 300)))
            deadlines.note(game)
        met = looks(deadlines, games, now_us)
        assert sorted(met) == [game.game_id for game in games.values() if game.due_at_us == now_us]
        for game_id in met:
            games[game_id].due_at_us = 0


def test_a_time_that_moves_away_costs_no_entry() -> None:
    deadlines = Deadlines()
    game = Game(UUID(int=1))
    for version in range(1_000):
        game.due_at_us = 20_000_000 + version
        deadlines.note(game)
    assert len(list(deadlines.due(30_000_000))) == 1


def test_a_game_that_is_gone_is_not_looked_at() -> None:
    deadlines = Deadlines()
    game = Game(UUID(int=1), due_at_us=5)
    deadlines.note(game)
    assert looks(deadlines, {}, 10) == []
