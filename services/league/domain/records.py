"""Records: how often accounts reached which place in what."""

from collections.abc import Iterable
from uuid import UUID

from rules.values import value


@value
class PlaceCount:
    """How often an account reached a place in a game type."""

    game_type: str
    place: int
    games: int


@value
class GameRecord:
    """An account's record in one game type."""

    game_type: str
    # How often each place was reached, from place 1.
    places: tuple[int, ...]

    @property
    def games_played(self) -> int:
        """Every game brings one place."""
        return sum(self.places)


@value
class Record:
    """An account's record."""

    account_id: UUID
    # By name of the game type.
    games: tuple[GameRecord, ...]
    # The last fact of the games' log that it contains.
    as_of_fact: int


def game_records(counts: Iterable[PlaceCount]) -> tuple[GameRecord, ...]:
    """Counts of single places put together, by game type."""
    by_type: dict[str, dict[int, int]] = {}
    for count in counts:
        by_type.setdefault(count.game_type, {})[count.place] = count.games
    return tuple(
        GameRecord(game_type, tuple(places.get(place, 0) for place in range(1, max(places) + 1)))
        for game_type, places in sorted(by_type.items())
    )
