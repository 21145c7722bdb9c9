"""What a replica knows of a pool while it forms its tables: a picture in memory, which the database may be ahead of."""

from collections.abc import Sequence
from operator import attrgetter
from uuid import UUID

from services.matchmaker.app.marks import Marks
from services.matchmaker.app.ports import Standing
from services.matchmaker.domain.quick_play import QuickTable, QuickTicket, State


class Picture:
    """Tickets and tables, and who sits where. Knows no store and no clock."""

    def __init__(self) -> None:
        self.tickets: dict[UUID, QuickTicket] = {}
        self.tables: dict[UUID, QuickTable] = {}
        # Who sits at each table, by account.
        self.seats: dict[UUID, dict[UUID, QuickTicket]] = {}
        self.marks = Marks()
        # Without a table; in the order of waiting only when that is asked for.
        self._waiting: dict[UUID, QuickTicket] = {}
        self._in_order: list[QuickTicket] | None = None

    def put(self, ticket: QuickTicket) -> None:
        """A ticket as it is now."""
        self.drop(ticket.account)
        self.tickets[ticket.account] = ticket
        self.marks.put(ticket.account, ticket.mark)
        if ticket.state is State.WAITING:
            self._waiting[ticket.account] = ticket
            self._in_order = None
        elif ticket.table_id is not None:
            self.seats.setdefault(ticket.table_id, {})[ticket.account] = ticket

    def drop(self, account: UUID) -> QuickTicket | None:
        """The account has no ticket in this pool any more; the one that it had."""
        ticket = self.tickets.pop(account, None)
        if ticket is not None:
            self.marks.drop(account)
            if self._waiting.pop(account, None) is not None:
                self._in_order = None
            if ticket.table_id is not None and ticket.table_id in self.seats:
                self.seats[ticket.table_id].pop(account, None)
        return ticket

    def open(self, table: QuickTable) -> None:
        """A table as it is now."""
        self.tables[table.table_id] = table
        self.seats.setdefault(table.table_id, {})

    def close(self, table_id: UUID) -> None:
        """A table that is no more."""
        self.tables.pop(table_id, None)
        self.seats.pop(table_id, None)

    @property
    def waiting_count(self) -> int:
        """How many have no table."""
        return len(self._waiting)

    def waiting(self) -> Sequence[QuickTicket]:
        """Those without a table, the longest waiting first."""
        if self._in_order is None:
            self._in_order = sorted(self._waiting.values(), key=attrgetter("queued_at_us"))
        return self._in_order

    def seated(self, table_id: UUID) -> Sequence[QuickTicket]:
        """Who sits at a table, in the order of joining."""
        return sorted(self.seats.get(table_id, {}).values(), key=lambda ticket: ticket.place)

    def neighbours(self, account: UUID) -> set[UUID]:
        """All who sit at the account's table, itself included; nobody where it has none."""
        ticket = self.tickets.get(account)
        if ticket is None or ticket.table_id is None:
            return set()
        return set(self.seats.get(ticket.table_id, ()))

    def standing(self, account: UUID) -> Standing:
        """What there is to say of an account."""
        ticket = self.tickets.get(account)
        if ticket is None or ticket.table_id is None:
            return Standing(ticket)
        return Standing(ticket, self.tables.get(ticket.table_id), self.seated(ticket.table_id))
