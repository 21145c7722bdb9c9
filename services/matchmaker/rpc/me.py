"""What the matchmaker tells accounts of their tickets: `levata.me.v1.Snapshots`, and updates for their streams."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

from levata.matchmaker.v1 import friendly_pb2, matchmaker_pb2
from levata.me.v1 import me_pb2, updates_pb2

from chassis import snapshots
from chassis.bus import Outbox
from chassis.rpc import Access, Server
from services.matchmaker.app.ports import FriendlyStore, Standing, Tickets, Told
from services.matchmaker.domain.friendly import Chair
from services.matchmaker.domain.quick_play import QuickTable, QuickTicket, State

_STATES: Final = {
    State.WAITING: matchmaker_pb2.TICKET_STATE_WAITING,
    State.SEATED: matchmaker_pb2.TICKET_STATE_SEATED,
    State.DEALING: matchmaker_pb2.TICKET_STATE_DEALING,
    State.PLAYING: matchmaker_pb2.TICKET_STATE_PLAYING,
}


def serve(server: Server, tickets: Tickets, tables: FriendlyStore, now_us: Callable[[], int]) -> None:
    """Add the service to a server."""

    async def read(accounts: Sequence[UUID]) -> Iterable[Sequence[updates_pb2.Update]]:
        # Before the rows are read: what is told of later commits has higher numbers.
        number = now_us()
        standings = await tickets.standings(accounts)
        told = await tables.of(accounts)
        return [
            [_update(standing, None, number), _table_update(table, number if table is None else table.number)]
            for standing, table in zip(standings, told, strict=True)
        ]

    snapshots.serve(server, read, Access.by("accounts"))


class NatsPlayers:
    """Implements `app.ports.Players` and `app.ports.Guests`."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def tell(self, account: UUID, standing: Standing, ahead: int | None, number: int) -> None:
        """Publish it for the streams of the account."""
        self._outbox.send(f"levata.me.{account}", _update(standing, ahead, number).SerializeToString())

    def tell_table(self, account: UUID, told: Told | None, number: int) -> None:
        """The table at which somebody sits, whole; None for none any more."""
        self._outbox.send(f"levata.me.{account}", _table_update(told, number).SerializeToString())


def _table_update(told: Told | None, number: int) -> updates_pb2.Update:
    table = None if told is None else friendly_message(told)
    return updates_pb2.Update(number=number, waiting_table=me_pb2.WaitingTable(table=table))


def friendly_message(told: Told) -> friendly_pb2.FriendlyTable:
    """A friendly table as those who sit there see it."""
    table = told.table
    return friendly_pb2.FriendlyTable(
        table_id=str(table.table_id),
        code=table.code,
        options=friendly_pb2.TableOptions(
            game_type=table.options.game_type,
            variant=table.options.variant,
            bid_seconds=table.options.bid_seconds,
            spectator_delay_seconds=table.options.spectator_delay_seconds,
        ),
        owner_account_id=str(table.owner),
        seats=map(_chair_message, table.chairs),
        game_id="" if table.game_id is None else str(table.game_id),
        commitment=table.commitment,
        lines=[
            friendly_pb2.TableLine(line_no=line.line_no, account_id=str(line.account), text=line.text)
            for line in told.lines
        ],
        opened_at_ms=told.opened_at_ms,
        running=told.running,
    )


def _chair_message(chair: Chair) -> friendly_pb2.FriendlySeat:
    return friendly_pb2.FriendlySeat(
        account_id="" if chair.account is None else str(chair.account),
        bot_level=chair.bot_level,
        ready=chair.ready,
        reserved_account_id="" if chair.kept_for is None else str(chair.kept_for),
    )


def _update(standing: Standing, ahead: int | None, number: int) -> updates_pb2.Update:
    return updates_pb2.Update(number=number, search=me_pb2.Search(ticket=ticket_message(standing, ahead)))


def ticket_message(standing: Standing, ahead: int | None = None) -> matchmaker_pb2.Ticket | None:
    """What a player is told of the own ticket; None for none."""
    if standing.ticket is None:
        ended = standing.ended
        return ended and matchmaker_pb2.Ticket(
            ticket_id=str(ended.ticket_id),
            room=ended.room,
            game_type=ended.pool.game_type,
            variant=ended.pool.variant,
            state=matchmaker_pb2.TICKET_STATE_ENDED,
            ended=ended.reason,
        )
    ticket = standing.ticket
    return matchmaker_pb2.Ticket(
        ticket_id=str(ticket.ticket_id),
        room=ticket.room,
        game_type=ticket.pool.game_type,
        variant=ticket.pool.variant,
        coffee=ticket.coffee,
        state=_STATES[ticket.state],
        queued_at_ms=ticket.queued_at_us // 1000,
        ahead=ahead,
        table=None if standing.table is None else _table_message(standing.table, standing),
        game_id="" if ticket.game_id is None else str(ticket.game_id),
    )


def _table_message(table: QuickTable, standing: Standing) -> matchmaker_pb2.QuickTable:
    return matchmaker_pb2.QuickTable(
        table_id=str(table.table_id),
        game_id="" if table.game_id is None else str(table.game_id),
        commitment=table.commitment,
        deals_at_ms=table.deals_at_us // 1000,
        seats=table.pool.capacity,
        taken=map(_seat_message, standing.seated),
    )


def _seat_message(ticket: QuickTicket) -> matchmaker_pb2.QuickSeat:
    return matchmaker_pb2.QuickSeat(account_id=str(ticket.account), room=ticket.room)
