"""Facts of the league: a closed week's best get their rewards."""

from datetime import date
from typing import Final
from uuid import UUID

from levata.league.v1 import facts_pb2
from nats.aio.client import Client

from chassis.database import Pool, Session
from chassis.facts import LEAGUE, Consumer, Fact, FactsOwner
from services.ledger.app.ports import Moved, nobody_is_told
from services.ledger.consumers.effects import Payer
from services.ledger.domain.catalogue import Edition
from services.ledger.domain.grants import ClosedClass, weekly_entries, weekly_ranks
from services.ledger.store.members import add_ranks, close_week, deleted_among

CONSUMER: Final = "ledger-league"


def consumer(owner: FactsOwner, pool: Pool, nats: Client, edition: Edition, moved: Moved = nobody_is_told) -> Consumer:
    """The ledger's consumer of the league's facts."""
    return Effects(edition).consumer(CONSUMER, LEAGUE, owner, pool, nats, moved)


class Effects(Payer):
    """What facts of the league do, by the catalogue of now."""

    def __init__(self, edition: Edition) -> None:
        super().__init__()
        self._edition = edition

    async def apply(self, session: Session, fact: Fact) -> None:
        """Give a fact its effect on the ledger."""
        message = facts_pb2.LeagueFact.FromString(fact.payload)
        if message.WhichOneof("kind") == "week_closed":
            await self._close(session, date.fromisoformat(message.week), message.week_closed)

    async def _close(self, session: Session, week: date, closed: facts_pb2.WeekClosedFact) -> None:
        """Pay a week's rewards; another time does nothing."""
        if not await close_week(session, week, self._edition):
            return
        classes = [
            ClosedClass(each.name, each.counted, tuple(map(UUID, each.podium_account_ids))) for each in closed.classes
        ]
        await add_ranks(session, week, weekly_ranks(classes))
        gone = await deleted_among(session, [account for each in classes for account in each.podium])
        await self.put_down_all(session, weekly_entries(week, classes, gone, self._edition.catalogue.weekly))
