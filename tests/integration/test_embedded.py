"""The embedded servers: passwords, rights, crashes, and nothing left behind."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import nats as nats_client
import psycopg
import pytest
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from tests.conftest import Database
from tools.embedded import identity
from tools.embedded.nats import USERS, EmbeddedNats
from tools.embedded.part import PartFailed
from tools.embedded.postgres import ADMIN, EmbeddedPostgres
from tools.embedded.process import Child
from tools.migrate import SCHEMAS

START_AND_WAIT = """
import sys, time
from pathlib import Path
from tools.embedded.{module} import {kind}
server = {kind}(Path(sys.argv[1]))
server.start()
print(server.child.pid, flush=True)
time.sleep(600)
"""


def is_gone(pid: int) -> bool:
    """Whether the process has ended, waiting for it a while."""
    for _ in range(3000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def start_elsewhere(module: str, kind: str, folder: Path) -> tuple[subprocess.Popen[str], int]:
    """Start a server from a process of its own; that process and the server's pid."""
    program = START_AND_WAIT.format(module=module, kind=kind)
    root = Path(__file__).parents[2]
    owner = subprocess.Popen([sys.executable, "-c", program, str(folder)], cwd=root, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    return owner, int(owner.stdout.readline())


class TestPostgres:
    def test_every_role_is_asked_for_its_password(self, postgres: EmbeddedPostgres) -> None:
        password = postgres.passwords.of(ADMIN)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(postgres.admin_dsn.replace(password, "wrong"))
        with pytest.raises(psycopg.OperationalError, match="no password supplied"):
            psycopg.connect(postgres.admin_dsn.replace(f":{password}", ""))

    def test_password_files_are_their_owners_only(self, postgres: EmbeddedPostgres) -> None:
        path = postgres.data_dir / "passwords" / ADMIN
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    def test_it_listens_on_this_machine_only(self, postgres: EmbeddedPostgres) -> None:
        with psycopg.connect(postgres.admin_dsn) as connection:
            assert connection.execute("show listen_addresses").fetchone() == ("127.0.0.1",)
            assert connection.execute("show unix_socket_directories").fetchone() == ("",)

    def test_what_is_committed_is_on_disk_and_survives_a_crash(self, tmp_path: Path) -> None:
        server = EmbeddedPostgres(tmp_path / "with a space")
        server.start()
        with psycopg.connect(server.admin_dsn) as connection:
            for setting in ("fsync", "synchronous_commit", "full_page_writes", "data_checksums"):
                assert connection.execute(f"show {setting}").fetchone() == ("on",), setting
            connection.execute("create table kept as select 42 as answer")
        dsn = server.admin_dsn
        server.kill()
        server.start()
        with psycopg.connect(dsn) as connection:
            assert connection.execute("select answer from kept").fetchone() == (42,)
        server.stop()

    def test_a_stale_lock_file_does_not_stop_it(self, tmp_path: Path) -> None:
        server = EmbeddedPostgres(tmp_path / "pg")
        server.start()
        lock = tmp_path / "pg" / "cluster" / "postmaster.pid"
        lines = lock.read_text().splitlines()
        server.kill()
        # After a reboot another process may have the number: this one, here.
        lock.write_text("\n".join([str(os.getpid()), *lines[1:]]))
        server.start()
        server.stop()

    def test_an_interrupted_initdb_is_done_again(self, tmp_path: Path) -> None:
        cluster = tmp_path / "pg" / "cluster"
        (cluster / "base").mkdir(parents=True)
        (cluster / "PG_VERSION").write_text("18\n")
        server = EmbeddedPostgres(tmp_path / "pg")
        server.start()
        server.stop()

    def test_data_of_another_major_version_is_refused_and_kept(self, tmp_path: Path) -> None:
        server = EmbeddedPostgres(tmp_path / "pg")
        server.start()
        server.stop()
        (tmp_path / "pg" / "cluster" / "PG_VERSION").write_text("17\n")
        with pytest.raises(PartFailed, match="is of Postgres 17"):
            server.start()
        assert (tmp_path / "pg" / "cluster" / "base").is_dir()

    def test_a_taken_port_is_said(self, tmp_path: Path, postgres: EmbeddedPostgres) -> None:
        server = EmbeddedPostgres(tmp_path / "pg", port=postgres.port)
        with pytest.raises(PartFailed, match="did not start"):
            server.start()

    def test_it_dies_with_its_killed_parent_and_starts_again(self, tmp_path: Path) -> None:
        owner, server_pid = start_elsewhere("postgres", "EmbeddedPostgres", tmp_path / "pg")
        owner.kill()
        owner.wait()
        # At once, while the old one may still be stopping.
        server = EmbeddedPostgres(tmp_path / "pg")
        server.start()
        assert is_gone(server_pid)
        server.stop()

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
    def test_where_namespaces_are_refused_it_runs_as_a_plain_user(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> None:
        works = identity._works
        monkeypatch.setattr(
            identity, "_works", lambda who, *command: not who.startswith("namespace") and works(who, *command)
        )
        place = Path(tempfile.mkdtemp(prefix="levata-everybody-"))
        place.chmod(0o755)
        request.addfinalizer(lambda: shutil.rmtree(place))
        monkeypatch.setattr(identity, "REACHABLE_PLACE", place)
        server = EmbeddedPostgres(tmp_path / "pg")
        server.start()
        assert "namespaces are refused" in server.remark
        assert Path(f"/proc/{server.child.pid}").stat().st_uid != 0
        with psycopg.connect(server.admin_dsn) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
        server.stop()
        server.start()
        server.stop()


class TestNats:
    async def test_a_service_may_use_its_own_subjects_only(self, nats: EmbeddedNats) -> None:
        refusals: list[str] = []

        async def note(error: Exception) -> None:
            refusals.append(str(error).lower())

        league = await nats_client.connect(nats.url("league"), inbox_prefix="_INBOX.league", error_cb=note)
        for subject in ("levata.games.finished.x", "levata.table.host.x", "$JS.API.STREAM.DELETE.GAMES"):
            await league.publish(subject, b"forged")
        for subject in ("levata.table.live.x", "_INBOX.table.>", "levata.me.x", ">"):
            await league.subscribe(subject)
        await league.flush()
        for _ in range(100):
            if len(refusals) == 7:
                break
            await league.flush()
        assert len(refusals) == 7
        assert all("permissions violation" in refusal for refusal in refusals)
        await league.close()

    async def test_facts_of_games_reach_the_league_and_no_further(self, nats: EmbeddedNats) -> None:
        table = await nats_client.connect(nats.url("table"), inbox_prefix="_INBOX.table")
        league = await nats_client.connect(nats.url("league"), inbox_prefix="_INBOX.league")
        operator = await nats_client.connect(nats.admin_url)
        # The server is shared, and other tests leave their stream.
        with suppress(NotFoundError):
            await operator.jetstream().delete_stream("GAMES")
        await table.jetstream().add_stream(name="GAMES", subjects=["levata.games.>"])
        consumer = await league.jetstream().pull_subscribe("levata.games.>", durable="league", stream="GAMES")
        await table.jetstream().publish("levata.games.finished.x", b"fact")
        [message] = await consumer.fetch(1, timeout=60)
        await message.ack_sync()
        assert message.data == b"fact"
        await operator.jetstream().delete_stream("GAMES")
        for connection in (table, league, operator):
            await connection.close()

    @pytest.mark.parametrize("user", USERS)
    async def test_every_user_is_asked_for_its_password(self, nats: EmbeddedNats, user: str) -> None:
        url = nats.url(user).replace(nats.passwords.of(user), "wrong")
        with pytest.raises(NatsError, match=r"(?i)authorization"):
            await nats_client.connect(url, allow_reconnect=False)

    async def test_streams_and_port_survive_a_crash(self, tmp_path: Path) -> None:
        server = EmbeddedNats(tmp_path / "with a space")
        server.start()
        connection = await nats_client.connect(server.admin_url)
        await connection.jetstream().add_stream(name="GAMES", subjects=["levata.games.>"])
        await connection.jetstream().publish("levata.games.x", b"kept")
        await connection.close()
        url = server.admin_url
        server.kill()
        server.start()
        connection = await nats_client.connect(url)
        message = await connection.jetstream().get_msg("GAMES", 1)
        assert message.data == b"kept"
        await connection.close()
        server.stop()

    def test_a_taken_port_is_said(self, tmp_path: Path, nats: EmbeddedNats) -> None:
        server = EmbeddedNats(tmp_path / "nats", port=nats.port)
        with pytest.raises(PartFailed, match="did not start"):
            server.start()

    def test_it_dies_with_its_killed_parent(self, tmp_path: Path) -> None:
        owner, server_pid = start_elsewhere("nats", "EmbeddedNats", tmp_path / "nats")
        owner.kill()
        owner.wait()
        assert is_gone(server_pid)


class TestChild:
    def test_what_does_not_listen_is_killed(self) -> None:
        deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
        child = Child([sys.executable, "-c", deaf], death_signal=signal.SIGKILL)
        child.output.readline()
        assert child.stop((signal.SIGTERM, 0.2)) == -signal.SIGKILL

    async def test_its_end_is_reported(self) -> None:
        child = Child([sys.executable, "-c", "raise SystemExit(3)"], death_signal=signal.SIGKILL)
        assert await child.exited() == 3
        child.output.close()


class TestDatabases:
    def test_a_service_logs_in_with_its_own_schema(self, database: Database) -> None:
        for service, schema in SCHEMAS.items():
            with psycopg.connect(database.dsn(service)) as connection:
                row = connection.execute("select current_user, current_schema()").fetchone()
                assert row == (schema.role, schema.name)

    def test_each_has_logs_of_its_own(self, make_database: Callable[[], Database]) -> None:
        incarnations = set()
        for database in (make_database(), make_database()):
            for service in SCHEMAS:
                with psycopg.connect(database.dsn(service)) as connection:
                    incarnations.add(connection.execute("select incarnation from fact_head").fetchone())
        assert len(incarnations) == 2 * len(SCHEMAS)
