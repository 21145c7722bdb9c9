"""Entries in a real Postgres: decided once, and guarded by the database against the service too."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from chassis.database import Pool, open_pool
from services.ledger.domain.journal import (
    AMOUNT_MAX,
    Balance,
    Cause,
    CauseKind,
    Currency,
    Entry,
    House,
    Kind,
    Outcome,
    Transfer,
    pending,
    posted,
    resolved,
)
from services.ledger.store.journal import JournalWriter, put_down
from tests.conftest import Database

ALICE, BOB = (UUID(int=number, version=4) for number in (1, 2))
COIN, GOLD, COFFEE = Currency.COIN, Currency.GOLD, Currency.COFFEE_2
GRANT = Cause(CauseKind.GRANT, "test", "welcome")
GAME = Cause(CauseKind.GAME, "game", "entry")


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    async with await open_pool(database.dsn("ledger"), "test") as pool:
        yield pool


def give(key: str, account: UUID, amount: int, currency: Currency = COIN) -> Entry:
    return posted(key, GRANT, [Transfer(House.GRANTS.value, account, currency, amount)])


def pay(account: UUID, amount: int, currency: Currency = COIN) -> Transfer:
    return Transfer(account, House.ENTRIES.value, currency, amount)


async def outcomes(pool: Pool, *entries: Entry) -> list[Outcome]:
    async with pool.acquire() as session, session.transaction():
        return [decided.outcome for decided in await put_down(session, entries)]


async def balances(pool: Pool) -> dict[tuple[UUID, Currency], Balance]:
    rows = await pool.fetch("select account, currency, posted, held from balance where posted <> 0 or held <> 0")
    return {(row["account"], Currency(row["currency"])): Balance(row["posted"], row["held"]) for row in rows}


async def assert_adds_up(pool: Pool) -> None:
    """Each currency sums to zero, and balances are what the transfers say."""
    sums = await pool.fetch("select currency, sum(posted) from balance group by currency having sum(posted) <> 0")
    assert sums == []
    rows = await pool.fetch("""
        select account, currency, sum(f.posted)::bigint as posted, sum(f.held)::bigint as held
        from transfer t join entry e using (number), effects(e.kind, t.debit, t.credit, t.amount) f
        group by account, currency""")
    folded = {(row["account"], Currency(row["currency"])): Balance(row["posted"], row["held"]) for row in rows}
    assert {slot: balance for slot, balance in folded.items() if balance != Balance()} == await balances(pool)


async def test_an_entry_moves_money_once_and_is_held_to_its_content(pool: Pool) -> None:
    assert await outcomes(pool, give("a", ALICE, 100), give("a", ALICE, 100)) == [Outcome.DONE, Outcome.SAME]
    assert await outcomes(pool, give("a", ALICE, 100)) == [Outcome.SAME]
    assert await outcomes(pool, give("a", ALICE, 101)) == [Outcome.KEY_REUSED]
    assert await balances(pool) == {(ALICE, COIN): Balance(100), (House.GRANTS.value, COIN): Balance(-100)}


async def test_what_is_held_cannot_be_spent_and_ends_once(pool: Pool) -> None:
    await outcomes(pool, give("a", ALICE, 100))
    held = pending("hold", GAME, [pay(ALICE, 80)])
    spend = posted("spend", GAME, [pay(ALICE, 30)])
    assert await outcomes(pool, held, spend) == [Outcome.DONE, Outcome.INSUFFICIENT]
    assert (await balances(pool))[ALICE, COIN] == Balance(100, 80)

    post, void = resolved(held, Kind.POST, "post"), resolved(held, Kind.VOID, "void")
    assert await outcomes(pool, post, void) == [Outcome.DONE, Outcome.NOT_PENDING]
    assert await outcomes(pool, void) == [Outcome.NOT_PENDING]
    assert await outcomes(pool, post) == [Outcome.SAME]
    assert (await balances(pool))[ALICE, COIN] == Balance(20)
    await assert_adds_up(pool)


async def test_a_void_gives_back_what_was_held(pool: Pool) -> None:
    await outcomes(pool, give("a", ALICE, 100))
    held = pending("hold", GAME, [pay(ALICE, 100)])
    assert await outcomes(pool, held, resolved(held, Kind.VOID, "void")) == [Outcome.DONE, Outcome.DONE]
    assert (await balances(pool))[ALICE, COIN] == Balance(100)
    await assert_adds_up(pool)


async def test_an_entry_happens_whole_or_not_at_all(pool: Pool) -> None:
    await outcomes(pool, give("a", ALICE, 100), give("b", ALICE, 5, GOLD))
    entry = pending("hold", GAME, [pay(ALICE, 50), pay(ALICE, 5, GOLD), pay(ALICE, 1, COFFEE)])
    assert await outcomes(pool, entry) == [Outcome.INSUFFICIENT]
    assert (await balances(pool))[ALICE, COIN] == Balance(100)


async def test_only_a_pending_entry_can_be_ended(pool: Pool) -> None:
    await outcomes(pool, give("a", ALICE, 100))
    unknown = resolved(pending("never", GAME, [pay(ALICE, 1)]), Kind.POST, "post")
    grant = Entry("post a", Kind.POST, GRANT, give("a", ALICE, 100).transfers, "a")
    assert await outcomes(pool, unknown, grant) == [Outcome.NOT_PENDING, Outcome.NOT_PENDING]


async def test_an_amount_beyond_all_bounds_is_refused(pool: Pool) -> None:
    assert await outcomes(pool, give("big", ALICE, AMOUNT_MAX)) == [Outcome.DONE]
    assert await outcomes(pool, give("too big", ALICE, AMOUNT_MAX + 1)) == [Outcome.OVERFLOW]
    assert await outcomes(pool, *(give(f"{n}", BOB, AMOUNT_MAX) for n in range(4001))) == [
        *[Outcome.DONE] * 4000,
        Outcome.OVERFLOW,
    ]
    await assert_adds_up(pool)


async def test_an_account_of_the_house_that_is_full_takes_no_more(database: Database, pool: Pool) -> None:
    async with JournalWriter(pool) as writer:
        await writer.post(give("a", ALICE, 1))
        operator = await asyncpg.connect(database.admin_dsn)
        full = "update ledger.balance set posted = -9223372036854775808 where account = $1"
        await operator.execute(full, House.GRANTS.value)
        await operator.close()
        decided = await asyncio.gather(*(writer.post(give(f"{n}", BOB, n % 2 + 1)) for n in range(6)))
        assert {each.outcome for each in decided} == {Outcome.OVERFLOW}
        # Back is possible.
        assert (await writer.post(posted("back", GRANT, [Transfer(ALICE, House.GRANTS.value, COIN, 1)]))).outcome.stands
    assert (BOB, COIN) not in await balances(pool)


async def test_of_twenty_entries_for_the_same_coins_one_succeeds(pool: Pool) -> None:
    await outcomes(pool, give("a", ALICE, 100))
    async with JournalWriter(pool) as one, JournalWriter(pool) as other:
        entries = [posted(f"spend {n}", GAME, [pay(ALICE, 100)]) for n in range(20)]
        decided = await asyncio.gather(*((one, other)[n % 2].post(entry) for n, entry in enumerate(entries)))
    assert Counter(each.outcome for each in decided) == {Outcome.DONE: 1, Outcome.INSUFFICIENT: 19}
    assert (ALICE, COIN) not in await balances(pool)
    await assert_adds_up(pool)


async def test_fifty_times_the_same_at_once_is_one_effect(pool: Pool) -> None:
    async with JournalWriter(pool) as one, JournalWriter(pool) as other:
        decided = await asyncio.gather(*((one, other)[n % 2].post(give("a", ALICE, 10)) for n in range(50)))
    assert Counter(each.outcome for each in decided) == {Outcome.DONE: 1, Outcome.SAME: 49}
    assert len({each.number for each in decided}) == 1
    assert (await balances(pool))[ALICE, COIN] == Balance(10)


async def test_writers_that_cross_do_not_hold_each_other_up(pool: Pool) -> None:
    await outcomes(pool, *(give(f"{who} {what}", who, 1000, what) for who in (ALICE, BOB) for what in (COIN, GOLD)))
    async with JournalWriter(pool) as one, JournalWriter(pool) as other:

        async def spend(number: int) -> Outcome:
            who, what = (ALICE, BOB)[number % 2], (COIN, GOLD)[number // 2 % 2]
            writer = (one, other)[number // 4 % 2]
            return (await writer.post(posted(f"spend {number}", GAME, [pay(who, 1, what)]))).outcome

        assert set(await asyncio.gather(*map(spend, range(400)))) == {Outcome.DONE}
    assert {balance.posted for (who, _), balance in (await balances(pool)).items() if who in (ALICE, BOB)} == {900}
    await assert_adds_up(pool)


async def test_a_refused_entry_does_not_take_the_others_with_it(pool: Pool) -> None:
    async with JournalWriter(pool) as writer:
        bad = posted("bad", GRANT, [Transfer(ALICE, BOB, COIN, 1)])
        good = [give(f"good {n}", ALICE, 1) for n in range(10)]
        decided = await asyncio.gather(
            *(writer.post(entry) for entry in (*good[:5], bad, *good[5:])), return_exceptions=True
        )
    assert isinstance(decided.pop(5), asyncpg.PostgresError)
    assert {each.outcome for each in decided if not isinstance(each, BaseException)} == {Outcome.DONE}
    assert (await balances(pool))[ALICE, COIN] == Balance(10)


ENTRY = """
    insert into entry (key, input_hash, kind, resolves, cause_kind, cause_id, what)
    values ('x', sha256(''), '{}', {}, 'game', '', '') returning number"""
MOVED = """
    with e as ({})
    insert into transfer select e.number, 0, t.debit, t.credit, t.currency, {}
    from e, transfer t join entry p using (number) where p.key = 'hold'"""
GIVEN = f"""
    with e as ({ENTRY.format("posted", "null")})
    insert into transfer select e.number, 0, {{}}, {{}}, t.currency, 1
    from e, transfer t join entry p using (number) where p.key = 'grant'"""


def entry_that_says(column: str, value: str, overriding: str = "") -> str:
    return f"""
        insert into entry (key, input_hash, kind, cause_kind, cause_id, what, {column}) {overriding}
        values ('x', sha256(''), 'posted', 'game', '', '', {value})"""


ATTACKS = [
    "update entry set what = 'other'",
    "delete from entry",
    "truncate entry cascade",
    "update transfer set amount = 1",
    "delete from transfer",
    "truncate transfer",
    "update balance set posted = posted + 1",
    "insert into balance (account, currency, posted) values (gen_random_uuid(), 'coin', 1)",
    "delete from balance",
    "drop trigger apply on transfer",
    "alter table transfer disable trigger all",
    "set session_replication_role = replica",
    # More for what was, and money without an entry.
    "insert into transfer select number, 99, debit, credit, currency, amount from transfer",
    "insert into transfer select 1000000, 0, debit, credit, currency, amount from transfer",
    # Ends that move more than was held, or nothing, or end what was not pending, or nothing at all.
    MOVED.format(ENTRY.format("post", "'hold'"), "t.amount + 1"),
    MOVED.format(ENTRY.format("post", "'hold'"), "t.amount - 1"),
    ENTRY.format("post", "'hold'"),
    ENTRY.format("void", "'grant'"),
    ENTRY.format("void", "null"),
    ENTRY.format("posted", "'hold'"),
    # Below zero.
    MOVED.format(ENTRY.format("posted", "null"), "1000"),
    MOVED.format(ENTRY.format("pending", "null"), "41"),
    # Nothing, less than nothing, and more than a ledger holds.
    MOVED.format(ENTRY.format("posted", "null"), "0"),
    MOVED.format(ENTRY.format("posted", "null"), "-1"),
    MOVED.format(ENTRY.format("posted", "null"), "1000000000000001"),
    MOVED.format(ENTRY.format("posted", "null"), "9223372036854775807 + 1"),
    # From the house to itself, and from player to player.
    GIVEN.format("t.debit", "t.debit"),
    GIVEN.format("t.credit", "t.credit"),
    GIVEN.format("t.credit", "gen_random_uuid()"),
    # What only the database says of an entry.
    entry_that_says("tx", "(pg_current_xact_id()::text::bigint + 1)::text::xid8"),
    entry_that_says("recorded_at", "now() - interval '1 day'"),
    entry_that_says("number", "1", "overriding system value"),
    # Tables that pass for the ledger's.
    f"create temp table balance (like ledger.balance); {MOVED.format(ENTRY.format('posted', 'null'), '1000')}",
    # Balances made anew from something else than all transfers, each once.
    "select compare_balances(false)",
    "select fold_transfers(); select compare_balances(true); select compare_balances(false)",
    f"{MOVED.format(ENTRY.format('posted', 'null'), '1')}; select fold_transfers()",
    f"select fold_transfers(); {MOVED.format(ENTRY.format('posted', 'null'), '1')}; select compare_balances(false)",
    "insert into rebuilt_balance select * from balance",
    "update folded set seen = pg_current_snapshot()",
    "insert into folded (seen) values (pg_current_snapshot())",
]


# Not a mistake in the attack itself.
REFUSALS = (
    asyncpg.InsufficientPrivilegeError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.NumericValueOutOfRangeError,
)


@pytest.mark.parametrize("attack", ATTACKS)
async def test_the_service_itself_cannot_do_what_must_not_be(module_database: Database, attack: str) -> None:
    async with await open_pool(module_database.dsn("ledger"), "test") as pool:
        await outcomes(pool, give("grant", ALICE, 100), pending("hold", GAME, [pay(ALICE, 60)]))
        before = await balances(pool)
        with pytest.raises(REFUSALS):
            async with pool.acquire() as session, session.transaction():
                await session.execute(attack)
        assert (
            await balances(pool)
            == before
            == {
                (ALICE, COIN): Balance(100, 60),
                (House.GRANTS.value, COIN): Balance(-100),
            }
        )


async def test_the_database_keeps_players_above_zero_without_the_services_help(pool: Pool) -> None:
    """Sessions that decide nothing and take no locks: overdrafts fail in the database."""
    await outcomes(pool, give("grant", ALICE, 100))

    async def blind(number: int) -> bool:
        try:
            await pool.execute(
                """
                with e as (
                    insert into entry (key, input_hash, kind, cause_kind, cause_id, what)
                    values ($1, sha256(''), 'posted', 'game', '', '') returning number
                )
                insert into transfer
                select number, 0, $2::uuid, $3::uuid, 'coin', 30 from e""",
                f"blind {number}",
                ALICE,
                House.ENTRIES.value,
            )
        except asyncpg.CheckViolationError:
            return False
        return True

    assert Counter(await asyncio.gather(*map(blind, range(10)))) == {True: 3, False: 7}
    assert (await balances(pool))[ALICE, COIN] == Balance(10)
    await assert_adds_up(pool)
