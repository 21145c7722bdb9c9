"""Facts of games: who does not play any more may look for another table."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from levata.table.v1 import facts_pb2
from nats.aio.client import Client

from chassis.database import Pool, Session
from chassis.facts import GAMES, Consumer, Fact, FactsOwner
from services.matchmaker.store import friendly
from services.matchmaker.store.quick_play import games_over, seat_given_up

CONSUMER: Final = "matchmaker"


def consumer(owner: FactsOwner, pool: Pool, nats: Client) -> Consumer:
    """The consumer of the games' log."""
    return Consumer(CONSUMER, GAMES, owner, pool, nats, apply_one, apply_all=apply)


async def apply_one(session: Session, fact: Fact) -> None:
    """Give a fact its effect."""
    await apply(session, [fact])


async def apply(session: Session, facts: Sequence[Fact]) -> None:
    """Give facts their effects: seats change hands, and then games end, as they do in each game."""
    over: list[UUID] = []
    for fact in facts:
        *_, kind, game_id = fact.subject.split(".")
        match kind:
            case "seat_changed":
                await _seat_changed(session, facts_pb2.GameFact.FromString(fact.payload))
            case "finished" | "cancelled":
                over.append(UUID(game_id))
    if over:
        await games_over(session, over)
        await friendly.games_over(session, over)


async def _seat_changed(session: Session, told: facts_pb2.GameFact) -> None:
    game_id, changed = UUID(told.game_id), told.seat_changed
    if changed.left_account_id:
        await seat_given_up(session, UUID(changed.left_account_id), game_id)
    now = UUID(changed.now.account_id) if changed.now.account_id else None
    await friendly.seat_changed(session, game_id, changed.seat, now, changed.now.guest)
