"""Facts of games: who does not play any more may look for another table."""

from typing import Final
from uuid import UUID

from levata.table.v1 import facts_pb2
from nats.aio.client import Client

from chassis.database import Pool, Session
from chassis.facts import GAMES, Consumer, Fact, FactsOwner
from services.matchmaker.store import friendly
from services.matchmaker.store.quick_play import game_over, seat_given_up

CONSUMER: Final = "matchmaker"


def consumer(owner: FactsOwner, pool: Pool, nats: Client) -> Consumer:
    """The consumer of the games' log."""
    return Consumer(CONSUMER, GAMES, owner, pool, nats, apply)


async def apply(session: Session, fact: Fact) -> None:
    """Give a fact its effect."""
    kind = fact.subject.split(".")[2]
    if kind not in ("finished", "cancelled", "seat_changed"):
        return
    told = facts_pb2.GameFact.FromString(fact.payload)
    game_id = UUID(told.game_id)
    if kind == "seat_changed":
        changed = told.seat_changed
        if changed.left_account_id:
            await seat_given_up(session, UUID(changed.left_account_id), game_id)
        now = UUID(changed.now.account_id) if changed.now.account_id else None
        await friendly.seat_changed(session, game_id, changed.seat, now, changed.now.guest)
    else:
        await game_over(session, game_id)
        await friendly.game_over(session, game_id)
