"""Opening tables in the name of the tools, through the table service's own address: for demo and play."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import uuid4

from levata.table.v1 import games_pb2, table_pb2

from chassis import rpc
from tools.client import CALL_SECONDS, Account
from tools.patience import patiently


class Match(NamedTuple):
    """A game to play."""

    game_type: str
    variant: str
    seats: int


class Opened(NamedTuple):
    """A game that has begun."""

    game_id: str
    # As it was published before anybody could add a nonce.
    commitment: bytes


async def open_table(
    games: rpc.Stub,
    match: Match,
    people: Mapping[int, Account],
    *,
    mode: table_pb2.Mode.ValueType = table_pb2.MODE_FRIENDLY,
    bot_level: str = "",
    clock: games_pb2.ClockOptions | None = None,
) -> Opened:
    """Begin a game with `people` in these seats and bots in the others; without a clock it has its mode's."""
    prepare = games_pb2.PrepareRequest(
        request_id=str(uuid4()), game_type=match.game_type, variant=match.variant, seats=match.seats, mode=mode
    )
    prepared: games_pb2.PrepareResponse = await patiently(lambda: games.Prepare(prepare, timeout=CALL_SECONDS))
    create = games_pb2.CreateRequest(game_id=prepared.game_id, clock=clock)
    for seat in range(match.seats):
        setup = create.seats.add()
        if seat in people:
            setup.account.account_id = people[seat].account_id
            setup.account.guest = people[seat].guest
            # The player's own part in the deals: the commitment is known, the seed is not.
            setup.nonce = uuid4().bytes
        else:
            setup.bot.CopyFrom(games_pb2.BotSeat(level=bot_level))
    await patiently(lambda: games.Create(create, timeout=CALL_SECONDS))
    return Opened(prepared.game_id, prepared.commitment)
