"""What scripted people do at a table: they know no rules, and choose among the moves that they may make."""

import random
from collections.abc import Callable

from levata.table.v1 import play_pb2

from tools.client import Playing


async def play_out(playing: Playing, account_id: str, on_change: Callable[[], None] = lambda: None) -> None:
    """Play an account's game to its end; `on_change` is called for all that is heard of it."""
    chance = random.Random(account_id)  # noqa: S311 - a player, not a shuffle
    async for _ in playing.changes():
        on_change()
        if playing.legal_moves:
            await playing.act(_choose(playing, chance))


def _choose(playing: Playing, chance: random.Random) -> play_pb2.Move:
    """A fair share of the tricks as a bid, else anything that is offered."""
    moves, picture = playing.legal_moves, playing.picture
    if moves[0].WhichOneof("kind") == "place_bid":
        share = picture.view.hand_size / len(picture.seats)
        return min(moves, key=lambda move: abs(move.place_bid - share))
    return chance.choice(moves)
