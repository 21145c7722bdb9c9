"""What all consumers do with the entries that follow from a fact."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from uuid import UUID

from nats.aio.client import Client

from chassis.database import Pool, Session
from chassis.facts import Consumer, Fact, FactsOwner, FactStream
from services.ledger.app.ports import Moved
from services.ledger.domain.journal import CauseKind, Entry, Outcome, players_of
from services.ledger.store.journal import put_down


class Payer(ABC):
    """Puts down the entries of facts, one fact a transaction, and remembers whom they were about."""

    def __init__(self) -> None:
        self._moved: set[UUID] = set()

    @abstractmethod
    async def apply(self, session: Session, fact: Fact) -> None:
        """Give a fact its effect on the ledger."""

    def consumer(
        self, name: str, source: FactStream, owner: FactsOwner, pool: Pool, nats: Client, moved: Moved
    ) -> Consumer:
        """The consumer of these facts, which tells whom they were about once they are committed.

        One fact a transaction: the locks of balances are taken in one order within a transaction, and the order of
        facts is another one.
        """
        return Consumer(
            name,
            source,
            owner,
            pool,
            nats,
            self.apply,
            facts_at_once=1,
            committed=lambda: moved(self.take_moved()),
        )

    async def put_down_all(self, session: Session, entries: Sequence[Entry]) -> None:
        """Put entries down, once in a transaction; fails where one does not stand."""
        if not entries:
            return
        self._moved |= players_of(entries)
        for entry, decided in zip(entries, await put_down(session, entries), strict=True):
            # What is given once a day has been given, if the catalogue was changed meanwhile by the amount of then.
            is_given = entry.cause.kind is CauseKind.DAY and decided.outcome is Outcome.KEY_REUSED
            assert decided.outcome.stands or is_given, f"{entry.key} is {decided.outcome}"

    def take_moved(self) -> set[UUID]:
        """Accounts whose money may have moved since this was asked last."""
        moved, self._moved = self._moved, set()
        return moved
