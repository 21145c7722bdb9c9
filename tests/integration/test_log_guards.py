"""The log is append-only for real: attacked with the service's own role, and with the owner's."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import psycopg
import pytest

from chassis.log import GroupWriter
from chassis.schema import OWNER_ROLE
from tests.conftest import Database
from tests.streams import Stream

PARTITION = "(select inhrelid::regclass::text from pg_inherits where inhparent = 'tables.game_log'::regclass and {})"


@pytest.fixture(scope="module")
def attacked(module_database: Database) -> Database:
    """A database with a game of two rows and two facts in it."""

    async def fill() -> None:
        async with GroupWriter(module_database.dsn("table")) as writer:
            stream = Stream()
            for _ in range(2):
                row = stream.next(facts=1)
                await writer.append(row)
                stream.follow(row)

    asyncio.run(fill())
    return module_database


@pytest.fixture
async def service(attacked: Database) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(attacked.dsn("table"))
    yield connection
    await connection.close()


@pytest.fixture
async def owner(attacked: Database) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(attacked.admin_dsn)
    await connection.execute(f"set role {OWNER_ROLE}; set search_path = tables")
    yield connection
    await connection.close()


@pytest.fixture(scope="module")
def partition(attacked: Database) -> str:
    """The partition that has the rows."""
    with psycopg.connect(attacked.admin_dsn) as connection:
        row = connection.execute("select distinct tableoid::regclass::text from tables.game_log").fetchone()
    assert row is not None
    return str(row[0])


CHANGES = [
    "update {table} set payload = ''",
    "update {table} set payload = payload || payload",
    "delete from {table}",
    "truncate {table}",
    "truncate {table} cascade",
    "insert into {table} select * from {table} on conflict (game_id, version) do update set payload = ''",
    "merge into {table} t using {table} s on t.game_id = s.game_id when matched then delete",
]
OWNERS_ACTS = [
    "alter table {table} disable trigger all",
    "alter table {table} disable trigger keep",
    "drop trigger keep on {table}",
    "drop trigger keep_all on {table}",
    "alter table {table} drop column payload",
    "alter table {table} owner to levata_table",
    "alter table {table} rename to gone",
    "drop table {table}",
    "create trigger mine before insert on {table} for each row execute function refuse_change()",
    "create rule mine as on insert to {table} do instead nothing",
]
SESSION_ACTS = [
    "set session_replication_role = replica",
    "set role levata_owner",
    "set session authorization levata_owner",
    "create or replace function refuse_change() returns trigger language plpgsql as $$begin return new; end$$",
    "alter function refuse_change() rename to gone",
    "drop function guard_fact_head() cascade",
    "create table tables.mine (x int)",
    "alter table game_log detach partition {partition}",
    "update clock_offset set amount = '1 day'",
    "select begin_incarnation()",
    "update fact_head set incarnation = gen_random_uuid()",
    "delete from fact_head",
    "truncate fact_head",
    "insert into fact_head (singleton) values (true)",
    "delete from fact_incarnation",
    "delete from migration",
]

MOVE_HEAD_BY_TWO = "with head as (update fact_head set last = last + 2 returning last)"


@pytest.mark.parametrize("change", CHANGES + OWNERS_ACTS)
@pytest.mark.parametrize("table", ["game_log", "partition", "facts"])
async def test_a_service_can_only_append(
    service: "asyncpg.Connection[asyncpg.Record]", partition: str, change: str, table: str
) -> None:
    if table == "facts" and "game_id" in change:
        pytest.skip("facts have no game_id")
    name = f"tables.{partition.removeprefix('tables.')}" if table == "partition" else f"tables.{table}"
    before = await _contents(service)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await service.execute(change.format(table=name))
    assert await _contents(service) == before


@pytest.mark.parametrize("act", SESSION_ACTS)
async def test_a_service_cannot_get_around_the_guards(
    service: "asyncpg.Connection[asyncpg.Record]", partition: str, act: str
) -> None:
    before = await _contents(service)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await service.execute(act.format(partition=partition))
    assert await _contents(service) == before


async def test_a_service_cannot_grant_itself_more(service: "asyncpg.Connection[asyncpg.Record]") -> None:
    # Postgres only warns here.
    await service.execute("grant update, delete, truncate on game_log, facts to levata_table")
    privileges = await service.fetch(
        "select distinct table_name, privilege_type from information_schema.table_privileges"
        " where grantee = 'levata_table' and table_name in ('game_log', 'facts')"
    )
    assert {privilege[1] for privilege in privileges} == {"SELECT", "INSERT"}


async def test_a_service_cannot_read_or_write_a_partition_behind_the_log(
    service: "asyncpg.Connection[asyncpg.Record]", partition: str
) -> None:
    for statement in (f"select * from {partition}", f"insert into {partition} select * from game_log"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.execute(statement)


@pytest.mark.parametrize("table", ["game_log", "partition", "facts", "fact_head"])
@pytest.mark.parametrize("change", ["delete from {table}", "truncate {table}"])
async def test_triggers_refuse_even_the_owner(
    owner: "asyncpg.Connection[asyncpg.Record]", partition: str, table: str, change: str
) -> None:
    """What privileges would let through, a trigger still stops: a later grant by mistake opens nothing."""
    name = partition.removeprefix("tables.") if table == "partition" else table
    with pytest.raises(asyncpg.RestrictViolationError):
        await owner.execute(change.format(table=name))


@pytest.mark.parametrize("table", ["game_log", "partition", "facts"])
async def test_triggers_refuse_an_update_by_the_owner(
    owner: "asyncpg.Connection[asyncpg.Record]", partition: str, table: str
) -> None:
    name = partition.removeprefix("tables.") if table == "partition" else table
    with pytest.raises(asyncpg.RestrictViolationError):
        await owner.execute(f"update {name} set payload = ''")


async def test_every_partition_has_its_guards(owner: "asyncpg.Connection[asyncpg.Record]") -> None:
    partitions = await owner.fetch("select inhrelid from pg_inherits where inhparent = 'game_log'::regclass")
    assert len(partitions) == 4
    for (partition,) in partitions:
        triggers = await owner.fetch(
            "select tgname from pg_trigger where tgrelid = $1 and tgenabled = 'O' order by tgname", partition
        )
        assert [trigger[0] for trigger in triggers] == ["keep", "keep_all"]


@pytest.mark.parametrize(
    "change",
    [
        "update fact_head set last = last - 1",
        "update fact_head set at = at - interval '1 second'",
        # Facts that the head does not lead to.
        "insert into facts values (1000, 'levata.games.x.y', '', now())",
        "insert into facts select last, 'levata.games.x.y', '', now() from fact_head",
        # A head that leads to no fact, or past one.
        "update fact_head set last = last + 1",
        f"{MOVE_HEAD_BY_TWO} insert into facts select last - 1, 'levata.games.x.y', '', now() from head",
        f"{MOVE_HEAD_BY_TWO} insert into facts select last, 'levata.games.x.y', '', now() from head",
    ],
)
async def test_numbers_cannot_be_forged(service: "asyncpg.Connection[asyncpg.Record]", change: str) -> None:
    before = await _contents(service)
    with pytest.raises((asyncpg.RestrictViolationError, asyncpg.UniqueViolationError)):
        await service.execute(change)
    assert await _contents(service) == before


async def test_partitions_are_made_by_the_service_through_the_function_only(
    service: "asyncpg.Connection[asyncpg.Record]", attacked: Database
) -> None:
    assert await service.fetchval("select make_game_log_partitions()") == 0
    admin = await asyncpg.connect(attacked.admin_dsn)
    await admin.execute("update tables.clock_offset set amount = '60 days'")
    try:
        made = await asyncio.gather(_make_partitions(attacked), _make_partitions(attacked))
        # Only one of them made what was missing: how many months, the calendar decides.
        assert min(made) == 0 and max(made) in (1, 2)
    finally:
        await admin.execute("update tables.clock_offset set amount = '0'")
        await admin.close()
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await service.execute(
            "create table tables.game_log_mine partition of game_log for values from"
            " ('00000000-0000-0000-0000-000000000000') to ('00000000-0000-0000-0000-000000000001')"
        )


async def _make_partitions(database: Database) -> int:
    connection = await asyncpg.connect(database.dsn("table"))
    try:
        made = await connection.fetchval("select make_game_log_partitions()")
        assert isinstance(made, int)
        return made
    finally:
        await connection.close()


async def _contents(connection: "asyncpg.Connection[asyncpg.Record]") -> list[object]:
    return [
        await connection.fetch("select * from game_log order by game_id, version"),
        await connection.fetch("select * from facts order by fact_no"),
        await connection.fetch("select * from fact_head"),
    ]
