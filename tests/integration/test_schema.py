"""Migrations on a real Postgres: once each, in order, unchanged, and by two at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from chassis.schema import OWNER_ROLE, MigrationRefused, migrate
from tools.embedded.postgres import ADMIN, EmbeddedPostgres

ROLE = "levata_schema_test"
FUNCTION = """
create table thing (id int);
create function guard() returns trigger language plpgsql as $body$
begin
    raise exception 'no; not % of it', old.id;
end
$body$;
create trigger guard before delete on thing for each row execute function guard();
grant select, insert, delete on thing to levata_schema_test;
"""


@pytest.fixture
def dsn(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The admin's DSN of an empty database."""
    name = f"schema_{uuid4().hex}"
    with psycopg.connect(postgres.dsn(ADMIN, "postgres"), autocommit=True) as admin:
        admin.execute(f"create database {name}")
        yield postgres.dsn(ADMIN, name)
        admin.execute(f"drop database {name} with (force)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0001_thing.sql").write_text(FUNCTION)
    (tmp_path / "0002_more.sql").write_text("alter table thing add column name text;")
    return tmp_path


def run(dsn: str, folder: Path, password: str | None = None) -> list[str]:
    files = sorted(folder.glob("*.sql"))
    return migrate(dsn, "thing", "things", OWNER_ROLE, ROLE, files, password=password)


def test_each_file_runs_once_and_all_belongs_to_the_owner(dsn: str, folder: Path) -> None:
    first = run(dsn, folder)
    assert first[-2:] == ["thing/0001_thing.sql", "thing/0002_more.sql"]
    assert all(name.startswith("chassis/") for name in first[:-2])
    assert run(dsn, folder) == []
    (folder / "0003_later.sql").write_text("alter table thing add column later text;")
    assert run(dsn, folder) == ["thing/0003_later.sql"]
    with psycopg.connect(dsn) as connection:
        owners = connection.execute("select distinct tableowner from pg_tables where schemaname = 'things'").fetchall()
        [row] = connection.execute("select rolcanlogin from pg_roles where rolname = %s", (OWNER_ROLE,)).fetchall()
    assert owners == [(OWNER_ROLE,)]
    assert row == (False,)


def test_the_service_works_in_its_schema_with_what_it_was_granted(dsn: str, folder: Path) -> None:
    password = 'it\'s "quoted" % \\'
    run(dsn, folder, password)
    with psycopg.connect(dsn, user=ROLE, password=password, autocommit=True) as service:
        service.execute("insert into thing values (1)")
        with pytest.raises(psycopg.errors.RaiseException, match="no; not 1 of it"):
            service.execute("delete from thing")
        for statement in ("update thing set id = 2", "create table mine (x int)", "select * from migration"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                service.execute(statement)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            service.execute(f"set role {OWNER_ROLE}")


def test_two_at_once_apply_each_file_once(dsn: str, folder: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        runs = list(threads.map(lambda _: run(dsn, folder), range(4)))
    assert sorted(map(len, runs))[:3] == [0, 0, 0]
    assert max(map(len, runs)) > 2


def test_a_file_that_fails_leaves_nothing_and_is_run_again(dsn: str, folder: Path) -> None:
    broken = folder / "0003_broken.sql"
    broken.write_text("create table half (id int); select 1 / 0;")
    with pytest.raises(psycopg.errors.DivisionByZero):
        run(dsn, folder)
    broken.write_text("create table half (id int);")
    assert run(dsn, folder) == ["thing/0003_broken.sql"]


def test_what_was_applied_is_not_edited(dsn: str, folder: Path) -> None:
    run(dsn, folder)
    (folder / "0002_more.sql").write_text("alter table thing add column other text;")
    with pytest.raises(MigrationRefused, match=r"thing/0002_more.sql was edited"):
        run(dsn, folder)


def test_an_older_program_refuses_a_newer_schema(dsn: str, folder: Path) -> None:
    run(dsn, folder)
    (folder / "0002_more.sql").unlink()
    with pytest.raises(MigrationRefused, match=r"newer than this program: it has thing/0002_more.sql"):
        run(dsn, folder)


def test_no_file_is_slipped_in_before_what_was_applied(dsn: str, folder: Path) -> None:
    run(dsn, folder)
    (folder / "0001_a_late_one.sql").write_text("select 1;")
    with pytest.raises(MigrationRefused, match=r"0001_a_late_one.sql is missing or came too late"):
        run(dsn, folder)


def test_a_role_without_superuser_can_migrate(dsn: str, folder: Path) -> None:
    role, password = f"operator_{uuid4().hex}", "secret"
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"create role {role} login createrole password '{password}'")
        admin.execute(f"grant create on database {admin.info.dbname} to {role}")
        # On a server of one's own it made the roles itself.
        admin.execute(f"do $$begin create role {OWNER_ROLE}; exception when duplicate_object then null; end$$")
        admin.execute(f"do $$begin create role {ROLE} login; exception when duplicate_object then null; end$$")
        admin.execute(f"grant {OWNER_ROLE}, {ROLE} to {role} with admin option")
    operator = psycopg.conninfo.make_conninfo(dsn, user=role, password=password)
    assert len(run(operator, folder)) > 2
    assert run(operator, folder, "new") == []
