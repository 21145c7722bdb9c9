"""Facts of accounts: who is no more, and so is named nowhere."""

from collections.abc import Sequence
from uuid import UUID

from levata.accounts.v1 import facts_pb2
from nats.aio.client import Client

from chassis.database import Pool, Session
from chassis.facts import ACCOUNTS, Consumer, Fact, FactsOwner
from services.league.store.deleted import Deletion, add_deletions
from services.league.store.names import ACCOUNTS_CONSUMER


def consumer(owner: FactsOwner, pool: Pool, nats: Client) -> Consumer:
    """The league's consumer of the accounts' facts."""
    return Consumer(ACCOUNTS_CONSUMER, ACCOUNTS, owner, pool, nats, apply_one, apply_all=apply)


async def apply_one(session: Session, fact: Fact) -> None:
    """Give one fact its effect."""
    await apply(session, [fact])


async def apply(session: Session, facts: Sequence[Fact]) -> None:
    """Give facts their effects, in the caller's transaction."""
    deletions = []
    for fact in facts:
        message = facts_pb2.AccountFact.FromString(fact.payload)
        if message.HasField("deleted"):
            deletions.append(Deletion(UUID(message.account_id), fact.at_us))
    await add_deletions(session, deletions)
