"""The games that the platform plays. A new game, or a new version of one, is one more line in `GAMES`."""

from typing import Final

from rules import euchre, klaverjas, oh_hell, romanian_whist
from rules.game import Game

# Every version that a stored game may have been played by; of one type, older versions first.
GAMES: Final[tuple[Game, ...]] = (romanian_whist.GAME, euchre.GAME, oh_hell.GAME, klaverjas.GAME)

_NEWEST: Final = {game.game_type: game for game in GAMES}
_BY_VERSION: Final = {(game.game_type, game.rules_version): game for game in GAMES}
assert len(_BY_VERSION) == len(GAMES)

GAME_TYPES: Final = tuple(_NEWEST)


def game(game_type: str, rules_version: int | None = None) -> Game | None:
    """The game of this type, by its newest rules or by those of a version; None for one that we do not know."""
    if rules_version is None:
        return _NEWEST.get(game_type)
    return _BY_VERSION.get((game_type, rules_version))
