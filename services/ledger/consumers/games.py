"""Facts of games: entries are taken or given back."""

from typing import Final
from uuid import UUID

from levata.table.v1 import facts_pb2, table_pb2
from nats.aio.client import Client

from chassis.database import Pool, Session
from chassis.facts import GAMES, Consumer, Fact, FactsOwner
from services.ledger.app.entries import game_began, game_cancelled
from services.ledger.domain.journal import Entry
from services.ledger.store.entries import end_game
from services.ledger.store.journal import put_down

CONSUMER: Final = "ledger"


def consumer(owner: FactsOwner, pool: Pool, nats: Client) -> Consumer:
    """The ledger's consumer of the games' facts.

    One fact a transaction: the locks of balances are taken in one order within a transaction, and the order of facts is
    another one.
    """
    return Consumer(CONSUMER, GAMES, owner, pool, nats, apply, facts_at_once=1)


async def apply(session: Session, fact: Fact) -> None:
    """Give a fact its effect on the ledger."""
    message = facts_pb2.GameFact.FromString(fact.payload)
    entries = await _entries(session, UUID(message.game_id), message)
    if entries:
        for entry, decided in zip(entries, await put_down(session, entries), strict=True):
            assert decided.outcome.stands, f"{entry.key} is {decided.outcome}"


async def _entries(session: Session, game_id: UUID, message: facts_pb2.GameFact) -> list[Entry]:
    match message.WhichOneof("kind"):
        case "created" if message.created.mode == table_pb2.MODE_QUICK_PLAY:
            seated = {UUID(seat.account_id) for seat in message.created.seats if seat.account_id}
            return game_began(game_id, await end_game(session, game_id, began=True, seated=seated), seated)
        case "cancelled":
            return game_cancelled(game_id, await end_game(session, game_id, began=False))
        case _:
            return []
