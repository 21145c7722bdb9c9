"""Games told on a terminal, each in its own terms: a game type that has some is one line in `TELLERS`."""

from collections.abc import Mapping
from typing import Final

from tools.recorded import Game
from tools.telling.exact_bid import ExactBidTeller
from tools.telling.partners import EuchreTeller, KlaverjasTeller
from tools.telling.teller import Teller

TELLERS: Final[dict[str, type[Teller]]] = {
    "romanian_whist": ExactBidTeller,
    "euchre": EuchreTeller,
    "oh_hell": ExactBidTeller,
    "klaverjas": KlaverjasTeller,
}


def teller(game: Game, names: Mapping[str, str] | None = None) -> Teller:
    """Who tells this game; `names` are those of accounts that are known."""
    return TELLERS.get(game.created.game_type, Teller)(game, names or {})
