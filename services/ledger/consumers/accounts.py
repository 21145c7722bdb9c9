"""Facts of accounts: who has an address is welcomed, and gets Monday's coffees from then on."""

from typing import Final
from uuid import UUID

from levata.accounts.v1 import facts_pb2
from nats.aio.client import Client

from chassis.database import Pool, Session
from chassis.facts import ACCOUNTS, Consumer, Fact, FactsOwner
from rules.calendar import day_of
from services.ledger.consumers.effects import put_down_all
from services.ledger.domain.catalogue import Edition
from services.ledger.domain.grants import welcome_entry
from services.ledger.store.members import add_member, delete_member

CONSUMER: Final = "ledger-accounts"


def consumer(owner: FactsOwner, pool: Pool, nats: Client, edition: Edition) -> Consumer:
    """The ledger's consumer of the accounts' facts; one a transaction, as those of games."""
    return Consumer(CONSUMER, ACCOUNTS, owner, pool, nats, Effects(edition).apply, facts_at_once=1)


class Effects:
    """What facts of accounts do, by the catalogue of now."""

    def __init__(self, edition: Edition) -> None:
        self._catalogue = edition.catalogue

    async def apply(self, session: Session, fact: Fact) -> None:
        """Give a fact its effect on the ledger."""
        message = facts_pb2.AccountFact.FromString(fact.payload)
        account = UUID(message.account_id)
        match message.WhichOneof("kind"):
            case "registered":
                day = day_of(fact.at_us, self._catalogue.zone)
                if await add_member(session, account, fact.at_us, day):
                    await put_down_all(session, [welcome_entry(account, self._catalogue.welcome)])
            case "deleted":
                await delete_member(session, account, fact.at_us)
