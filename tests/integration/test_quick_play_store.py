"""Quick play's tables in Postgres."""

from uuid import UUID, uuid4

from levata.matchmaker.v1 import facts_pb2

from chassis.database import open_pool
from services.matchmaker.domain.pairing import Moved, Opened, Seated
from services.matchmaker.domain.quick_play import Pool, QuickTicket, State
from services.matchmaker.store.quick_play import PostgresQuickPlay
from tests.conftest import Database

POOL = Pool("romanian_whist", "8-1-8")


def asked_for(account: UUID, pool: Pool = POOL) -> QuickTicket:
    return QuickTicket(uuid4(), account, False, pool, 1, "", 0.5, (), 0, State.WAITING, None, 0, False, None)


async def test_who_moves_to_another_table_joins_it_in_the_order_of_the_first(database: Database) -> None:
    async with await open_pool(database.dsn("matchmaker"), "matchmaker") as pool:
        store = PostgresQuickPlay(pool)
        turn = await store.take_turn(POOL)
        assert turn is not None
        first, second = uuid4(), uuid4()
        accounts = [uuid4() for _ in range(4)]
        tickets = {ticket.account: ticket for ticket in await store.add([asked_for(each) for each in accounts])}
        host, *joining = accounts
        await store.seat(turn, [Opened(tickets[host], second)])
        opener, *others = reversed(joining)
        await store.seat(turn, [Opened(tickets[opener], first), *(Seated(tickets[each], first) for each in others)])
        # A sign of life moves the row, and changes nothing of who came first.
        await store.seen([opener])
        moved = await store.seat(turn, [Moved(first, second)])
        assert [each.account for each in sorted(moved, key=lambda each: each.place)] == [opener, *others]
        outline = await store.outline(POOL)
        assert [table.table_id for table in outline.tables] == [second]
        assert {place.table_id for place in outline.places} == {second}
        seated = sorted(await store.tickets(accounts), key=lambda each: each.place)
        assert [each.account for each in seated] == [host, opener, *others]
        # The log has them in the order of joining, too.
        logged = await pool.fetch(
            "select payload from facts where subject like $1 order by fact_no", f"%seated.{second}"
        )
        told = [UUID(facts_pb2.TableFact.FromString(row["payload"]).seated.account_id) for row in logged]
        assert told == [host, opener, *others]
