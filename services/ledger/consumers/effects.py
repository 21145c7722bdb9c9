"""What all consumers do with the entries that follow from a fact."""

from collections.abc import Sequence
from uuid import UUID

from chassis.database import Session
from services.ledger.domain.journal import CauseKind, Entry, Outcome, players_of
from services.ledger.store.journal import put_down


class Payer:
    """Puts down the entries of facts, one fact a transaction, and remembers whom they were about."""

    def __init__(self) -> None:
        self._moved: set[UUID] = set()

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
