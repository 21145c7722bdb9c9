"""`./levata facts`: what an operator sees and decides, on a real database."""

from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.conftest import Database
from tools import facts
from tools.data import DataFolder, Endpoints


@pytest.fixture
def folder(tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder as `up` leaves it while it runs, on the test's own database."""
    with psycopg.connect(database.admin_dsn, autocommit=True) as connection:
        connection.execute("set search_path = league")
        source = connection.execute("select incarnation from tables.fact_head").fetchone()
        assert source is not None
        connection.execute(
            "insert into consumer_checkpoint (consumer, source, incarnation, last) values ('league', 'games', %s, 7)",
            source,
        )
        for number, error in ((4, "boom"), (6, None)):
            connection.execute(
                "insert into parked_fact (consumer, fact_no, key, subject, payload, at, error)"
                " values ('league', %s, 'a game', 'levata.games.finished.x', '', now(), %s)",
                (number, error),
            )
    monkeypatch.setattr(facts, "service_dsn", lambda _, service: database.dsn(service))
    monkeypatch.setattr(facts, "admin_dsn", lambda _: database.admin_dsn)
    monkeypatch.setattr(DataFolder, "endpoints", lambda _: Endpoints("127.0.0.1:1", {}))
    return tmp_path


def parked(database: Database) -> list[tuple[object, ...]]:
    """Number, whether it is to be retried, and why it was discarded."""
    with psycopg.connect(database.admin_dsn) as connection:
        return connection.execute(
            "select fact_no, retry, discarded from league.parked_fact order by fact_no"
        ).fetchall()


def test_list_shows_checkpoints_and_parked_facts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts.console.width = 200
    facts.list_(folder)
    shown = capsys.readouterr().out
    assert "league" in shown
    assert "boom" in shown
    assert "waits behind the one before" in shown


def test_retry_marks_all_facts_of_the_key(folder: Path, database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    facts.retry("league", "another game", folder)
    assert "No such fact" in capsys.readouterr().out
    assert parked(database) == [(4, False, None), (6, False, None)]
    facts.retry("league", "a game", folder)
    assert parked(database) == [(4, True, None), (6, True, None)]


def test_discard_keeps_the_reason_and_tries_those_behind(folder: Path, database: Database) -> None:
    facts.discard_("league", 4, "never happened", folder)
    assert parked(database) == [(4, False, "never happened"), (6, True, None)]
    with pytest.raises(SystemExit, match="Fact 5 is not parked"):
        facts.discard_("league", 5, "no such", folder)


def test_accept_goes_on_where_the_restored_log_began(folder: Path, database: Database) -> None:
    with pytest.raises(SystemExit, match="nothing to accept"):
        facts.accept("league", folder)
    with psycopg.connect(database.admin_dsn) as connection:
        connection.execute("update tables.fact_head set last = 5")
        connection.execute(
            "insert into tables.facts select n, 'levata.games.x.y', '', now() from generate_series(1, 5) n"
        )
    facts.restored("table", folder)
    facts.accept("league", folder)
    with psycopg.connect(database.admin_dsn) as connection:
        checkpoint = connection.execute("select incarnation, last from league.consumer_checkpoint").fetchone()
        restored = connection.execute("select incarnation, last from tables.fact_head").fetchone()
    assert checkpoint == restored
    assert checkpoint is not None and checkpoint[1] == 5
    # What was parked beyond the end of the restored log is gone with it.
    assert [number for number, _, _ in parked(database)] == [4]


def test_a_consumer_that_is_none_is_named(folder: Path) -> None:
    with pytest.raises(
        SystemExit, match="There is no consumer 'accounts', but league, league-ledger, league-accounts, ledger"
    ):
        facts.retry("accounts", str(uuid4()), folder)
