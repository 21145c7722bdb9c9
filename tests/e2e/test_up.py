"""`./levata up` as a process: what it starts, what it survives, what it refuses, and that it leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import grpc
import psycopg
import pytest
from levata.accounts.v1 import accounts_pb2
from levata.ledger.v1 import ledger_pb2
from levata.table.v1 import games_pb2

from chassis.rpc import channel, stub
from tests.e2e.running import ACCOUNTS, WAIT_SECONDS, Up, account_of, new_guest, wait_for
from tools.data import NotRunning
from tools.embedded.nats import EmbeddedNats
from tools.embedded.postgres import EmbeddedPostgres
from tools.up.service import KINDS

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-P", "-c", "from tools.cli import main; main()", "up"]
GAMES = games_pb2.DESCRIPTOR.services_by_name["Games"]
LEDGER = ledger_pb2.DESCRIPTOR.services_by_name["Ledger"]


@pytest.fixture
def start_up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    """Start an `up` over a folder with a blank in its name; it is killed at the test's end if it still runs."""
    started: list[Up] = []

    def start(*arguments: str, env: Mapping[str, str] | None = None) -> Up:
        data = tmp_path / "the data"
        command: list[str | Path] = [*COMMAND, "--data", data, "--port", "0", *arguments]
        started.append(Up(command, data, tmp_path / "up.log", env or {}))
        return started[-1]

    yield start
    for up in started:
        if up.process.poll() is None:
            up.stop(signal.SIGKILL)


def refusal(*arguments: object) -> str:
    """The sentence with which `up` refuses to start."""
    ended = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert ended.returncode == 1
    assert ended.stdout == ""
    # One line, and no traceback.
    assert ended.stderr.startswith("levata: ")
    assert ended.stderr.count("\n") == 1
    return ended.stderr


async def test_it_runs_stops_on_ctrl_c_and_goes_on_where_it_was(start_up: Callable[..., Up]) -> None:
    """All over TLS."""
    up = start_up("--tls")
    endpoints = up.endpoints()
    account_id, token = await new_guest(endpoints)
    # The tools' token opens the internal services, at their own address.
    [table] = endpoints.services["table"]
    async with channel(table, up.data.tools_token()) as internal:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub(internal, GAMES).Cancel(games_pb2.CancelRequest(), timeout=10)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (up.data.path / "tokens" / "tools.token").stat().st_mode & 0o777 == 0o600
    for part in ("Postgres", "NATS", "accounts", "table", "ledger", "league", "matchmaker", "Envoy"):
        assert f"✓ {part}" in up.output
    # The file that tells the endpoints is there a moment earlier.
    wait_for(lambda: f"Call {endpoints.public} with gRPC or gRPC-Web, over TLS" in up.output, lambda: up.output)
    certificate = endpoints.trusted()
    assert certificate.startswith(b"-----BEGIN CERTIFICATE-----")
    async with channel(endpoints.public, token, trusted=certificate) as public:
        owned = await stub(public, LEDGER).GetBalances(ledger_pb2.GetBalancesRequest(), timeout=10)
        assert {each.free for each in owned.balances} == {0}
    async with channel(endpoints.public) as plain:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub(plain, ACCOUNTS).GetSelf(accounts_pb2.GetSelfRequest(), timeout=10)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE

    assert "already runs" in refusal("--data", up.data.path, "--port", 0)
    assert "Port" in refusal("--data", up.data.path.with_name("other"), "--port", endpoints.public.rpartition(":")[2])

    assert up.stop(signal.SIGINT) == 0
    with pytest.raises(NotRunning):
        up.data.endpoints()

    again = start_up("--tls")
    assert await account_of(again.endpoints(), token) == account_id
    assert again.endpoints().trusted() == certificate
    assert again.stop(signal.SIGTERM) == 0


async def test_a_part_that_is_killed_comes_back(start_up: Callable[..., Up]) -> None:
    up = start_up()
    endpoints = up.endpoints()
    account_id, token = await new_guest(endpoints)
    for words in ("services.accounts", "bin/postgres", "nats-server", "_bin/envoy"):
        killed = up.child(words)
        os.kill(killed, signal.SIGKILL)
        wait_for(partial(_is_new, up, words, killed), lambda: up.output)
        await new_guest(endpoints)
        assert await account_of(endpoints, token) == account_id
    assert up.output.count("starts again in") == 4
    assert "killed by SIGKILL" in up.output
    assert up.stop(signal.SIGTERM) == 0


async def test_killed_it_leaves_nothing_behind_and_starts_again(start_up: Callable[..., Up]) -> None:
    up = start_up()
    account_id, token = await new_guest(up.endpoints())
    assert up.stop(signal.SIGKILL) == -signal.SIGKILL
    again = start_up()
    assert await account_of(again.endpoints(), token) == account_id
    assert again.stop(signal.SIGINT) == 0


async def test_fresh_begins_anew_and_logs_for_machines(start_up: Callable[..., Up]) -> None:
    up = start_up("--replicas", "accounts=2", "--replicas", "table=2")
    endpoints = up.endpoints()
    assert [len(endpoints.services[service]) for service in ("accounts", "table")] == [2, 2]
    _, token = await new_guest(endpoints)
    assert up.stop(signal.SIGINT) == 0

    fresh = start_up("--fresh", "--log-format", "json")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await account_of(fresh.endpoints(), token)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert fresh.stop(signal.SIGINT) == 0
    entries = [json.loads(line) for line in fresh.output.splitlines()]
    assert {"up", "accounts", "table"} <= {entry["service"] for entry in entries}


async def test_it_uses_servers_of_ones_own(start_up: Callable[..., Up], tmp_path: Path) -> None:
    # Servers of this test alone, because passwords of roles are set anew.
    postgres, nats = EmbeddedPostgres(tmp_path / "own postgres"), EmbeddedNats(tmp_path / "own nats")
    postgres.start()
    nats.start()
    with psycopg.connect(postgres.admin_dsn, autocommit=True) as connection:
        connection.execute(f"create role operator login createrole password '{postgres.passwords.of('operator')}'")
        connection.execute("create database cards owner operator")
    urls = {f"LEVATA_NATS_URL_{user.upper()}": nats.url(user) for user in KINDS}
    env = {
        "LEVATA_POSTGRES_DSN": postgres.dsn("operator", "cards"),
        "LEVATA_NATS_URL": f"nats://127.0.0.1:{nats.port}",
        **urls,
    }
    up = start_up(env=env)
    await new_guest(up.endpoints())
    assert not any("bin/postgres" in command or "nats-server" in command for command in up.children())
    with psycopg.connect(postgres.dsn("operator", "cards")) as connection:
        owners = connection.execute("select nspname, nspowner::regrole::text from pg_namespace").fetchall()
        assert {("accounts", "levata_owner"), ("tables", "levata_owner"), ("league", "levata_owner")} <= set(owners)
    assert up.stop(signal.SIGINT) == 0
    postgres.stop()
    nats.stop()


def _is_new(up: Up, words: str, killed: int) -> bool:
    """Whether another process has taken the place of the killed one."""
    return any(words in command and pid != killed for command, pid in up.children().items())
