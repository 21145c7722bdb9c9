"""Quick play's tables in Postgres."""

from uuid import UUID, uuid4

from levata.matchmaker.v1 import facts_pb2

from chassis.database import open_pool
from services.matchmaker.app.marks import Marks, MarksFound
from services.matchmaker.app.ports import Answer, PreparedTable, Started
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
        outline = await store.outline(POOL, Marks().sums)
        assert [table.table_id for table in outline.tables] == [second]
        tickets_now = await store.tickets(accounts)
        assert outline.found.marks == {each.account: each.mark for each in tickets_now}
        seated = sorted(tickets_now, key=lambda each: each.place)
        assert [each.account for each in seated] == [host, opener, *others]
        # The log has them in the order of joining, too.
        logged = await pool.fetch(
            "select payload from facts where subject like $1 order by fact_no", f"%seated.{second}"
        )
        told = [UUID(facts_pb2.TableFact.FromString(row["payload"]).seated.account_id) for row in logged]
        assert told == [host, opener, *others]


async def test_only_buckets_in_which_something_differs_are_read(database: Database) -> None:
    async with await open_pool(database.dsn("matchmaker"), "matchmaker") as pool:
        store = PostgresQuickPlay(pool)
        marks = Marks()
        # Two to a bucket, and one alone.
        accounts = [UUID(int=n << 8 | n % 4) for n in range(1, 8)]
        tickets = {each.account: each for each in await store.add([asked_for(account) for account in accounts])}
        for account in accounts:
            marks.put(account, tickets[account].mark)
        assert (await store.outline(POOL, marks.sums)).found == MarksFound([], {})
        # One has gone, another one has come, of a third one a change was not heard of.
        gone, stale = accounts[0], accounts[1]
        await store.cancel(gone, tickets[gone].ticket_id)
        (new,) = await store.add([asked_for(UUID(int=1 << 20 | 77))])
        marks.put(stale, 5)
        outline = await store.outline(POOL, marks.sums)
        assert sorted(outline.found.buckets) == [1, 2, 77]
        assert outline.found.marks.keys() == {accounts[4], stale, accounts[5], new.account}
        assert marks.differing(outline.found) == {gone, stale, new.account}


async def test_a_mark_changes_with_its_ticket_and_not_with_a_sign_of_life(database: Database) -> None:
    async with await open_pool(database.dsn("matchmaker"), "matchmaker") as pool:
        store = PostgresQuickPlay(pool)
        turn = await store.take_turn(POOL)
        assert turn is not None
        account, game_id, table_id = uuid4(), uuid4(), uuid4()

        async def mark() -> int | None:
            return (await store.outline(POOL, Marks().sums)).found.marks.get(account)

        (ticket,) = await store.add([asked_for(account)])
        marks = [await mark()]
        await store.seen([account])
        assert await mark() == marks[0] == ticket.mark
        await store.seat(turn, [Opened(ticket, table_id)])
        marks.append(await mark())
        await store.keep_prepared([PreparedTable(table_id, game_id, b"c")])
        assert await store.answer([Answer(account, game_id, b"")]) == [POOL]
        marks.append(await mark())
        await store.begin_deal(turn, {table_id: 1})
        marks.append(await mark())
        assert len(set(marks)) == 4
        await store.started([Started(table_id, game_id, [account], {})])
        assert await mark() is None


async def test_answers_that_come_together_count_each_for_its_own_table(database: Database) -> None:
    async with await open_pool(database.dsn("matchmaker"), "matchmaker") as pool:
        store = PostgresQuickPlay(pool)
        turn = await store.take_turn(POOL)
        assert turn is not None
        one, other, nobody = uuid4(), uuid4(), uuid4()
        tables = {one: PreparedTable(uuid4(), uuid4(), b"1"), other: PreparedTable(uuid4(), uuid4(), b"2")}
        added = await store.add([asked_for(account) for account in tables])
        await store.seat(turn, [Opened(ticket, tables[ticket.account].table_id) for ticket in added])
        await store.keep_prepared(list(tables.values()))
        game, others_game = (tables[account].game_id for account in (one, other))
        answers = [
            Answer(one, others_game, b"not mine"),
            Answer(other, others_game, b"mine"),
            Answer(one, game, b"first"),
            Answer(nobody, game, b"none"),
            Answer(one, game, b"last"),
        ]
        assert await store.answer(answers) == [None, POOL, POOL, None, POOL]
        table_ids = [tables[account].table_id for account in (one, other)]
        await store.begin_deal(turn, dict.fromkeys(table_ids, 1))
        # Too late: what was added is fixed.
        assert await store.answer([Answer(one, game, b"late")]) == [None]
        dealt = await store.dealt([*table_ids, uuid4()])
        assert [[each.nonce for each in table] for table in dealt] == [[b"last"], [b"mine"], []]
