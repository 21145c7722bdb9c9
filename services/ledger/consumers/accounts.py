"""Facts of accounts: who has an address is welcomed, and gets Monday's coffees from then on."""

from typing import Final
from uuid import UUID

from levata.accounts.v1 import facts_pb2
from nats.aio.client import Client

from chassis.database import Pool, Session
from chassis.facts import ACCOUNTS, Consumer, Fact, FactsOwner
from rules.calendar import day_of
from services.ledger.app.ports import Moved, nobody_is_told
from services.ledger.consumers.effects import Payer
from services.ledger.domain.catalogue import Edition
from services.ledger.domain.grants import welcome_entry
from services.ledger.store.members import add_member, delete_account

CONSUMER: Final = "ledger-accounts"


def consumer(owner: FactsOwner, pool: Pool, nats: Client, edition: Edition, moved: Moved = nobody_is_told) -> Consumer:
    """The ledger's consumer of the accounts' facts."""
    return Effects(edition).consumer(CONSUMER, ACCOUNTS, owner, pool, nats, moved)


class Effects(Payer):
    """What facts of accounts do, by the catalogue of now."""

    def __init__(self, edition: Edition) -> None:
        super().__init__()
        self._catalogue = edition.catalogue

    async def apply(self, session: Session, fact: Fact) -> None:
        """Give a fact its effect on the ledger."""
        message = facts_pb2.AccountFact.FromString(fact.payload)
        account = UUID(message.account_id)
        match message.WhichOneof("kind"):
            case "registered":
                day = day_of(fact.at_us, self._catalogue.zone)
                if await add_member(session, account, fact.at_us, day):
                    await self.put_down_all(session, [welcome_entry(account, self._catalogue.welcome)])
            case "deleted":
                await delete_account(session, account, fact.at_us)
