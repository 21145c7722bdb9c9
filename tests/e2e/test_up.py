"""`./levata up` as a process: what it starts, what it survives, what it refuses, and that it leaves nothing behind."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import grpc
import psycopg
import pytest
from levata.accounts.v1 import accounts_pb2
from levata.table.v1 import games_pb2

from chassis.rpc import channel, stub
from tools.data import DataFolder, Endpoints, NotRunning
from tools.embedded.nats import EmbeddedNats
from tools.embedded.postgres import EmbeddedPostgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

COMMAND = [sys.executable, "-P", "-c", "from tools.cli import main; main()", "up"]
ACCOUNTS = accounts_pb2.DESCRIPTOR.services_by_name["Accounts"]
GAMES = games_pb2.DESCRIPTOR.services_by_name["Games"]
WAIT_SECONDS = 90.0

T = TypeVar("T")


class Up:
    """A running `up` over a data folder."""

    def __init__(self, command: Sequence[str | Path], data: Path, log_path: Path, env: Mapping[str, str]) -> None:
        self.data = DataFolder(data)
        self.log_path = log_path
        with self.log_path.open("wb") as log:
            # As a new user would: from some other folder.
            self.process = subprocess.Popen(
                command, cwd=log_path.parent, stdout=log, stderr=log, env={**os.environ, **env}
            )

    @property
    def output(self) -> str:
        """All that it has printed so far."""
        return self.log_path.read_text()

    def endpoints(self) -> Endpoints:
        """Wait until it is up; where to call."""
        return wait_for(self._endpoints_if_up, lambda: self.output)

    def _endpoints_if_up(self) -> Endpoints | None:
        assert self.process.poll() is None, self.output
        with contextlib.suppress(NotRunning):
            return self.data.endpoints()
        return None

    def children(self) -> dict[str, int]:
        """Process ids of its children, by their command line."""
        found = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(stat.read_text().rpartition(")")[2].split()[1]) == self.process.pid:
                    command = stat.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[command] = int(stat.parent.name)
        return found

    def child(self, words: str) -> int:
        """The process id of the child whose command line has these words."""
        [pid] = [pid for command, pid in self.children().items() if words in command]
        return pid

    def stop(self, number: signal.Signals) -> int:
        """Send the signal, wait for the end, and see that nothing is left."""
        children = set(self.children().values())
        self.process.send_signal(number)
        code = self.process.wait(WAIT_SECONDS)
        wait_for(lambda: not children & set(alive()) and not users_of(self.data.path), lambda: str(children))
        return code


def wait_for(condition: Callable[[], T | None], story: Callable[[], str]) -> T:
    """The condition's first true answer; fails with the story when none comes."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (answer := condition()):
        assert time.monotonic() < deadline, story()
        time.sleep(0.05)
    return answer


def alive() -> Iterator[int]:
    """All processes, but for those that only wait to be buried."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[0] not in "ZX":
                yield int(stat.parent.name)


def users_of(folder: Path) -> list[int]:
    """Processes that work in the folder or name it in their command line."""
    found = []
    for pid in alive():
        process = Path(f"/proc/{pid}")
        with contextlib.suppress(OSError):
            cwd = (process / "cwd").readlink()
            if folder in (cwd, *cwd.parents) or os.fsencode(folder) in (process / "cmdline").read_bytes():
                found.append(pid)
    return found


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


async def new_guest(endpoints: Endpoints) -> tuple[str, str]:
    """A guest's account id and token, got through the public port; repeats as a client does while a part is away."""
    request = accounts_pb2.CreateGuestRequest(request_id=str(uuid.uuid4()))
    async with channel(endpoints.public) as public:
        for _ in range(int(WAIT_SECONDS)):
            try:
                answer = await stub(public, ACCOUNTS).CreateGuest(request, timeout=5)
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.5)
            else:
                return answer.account.account_id, answer.access_token
    pytest.fail("no guest could be made")


async def account_of(endpoints: Endpoints, token: str) -> str:
    """The account id that the service knows the token's bearer by."""
    async with channel(endpoints.public, token) as public:
        answer = await stub(public, ACCOUNTS).GetSelf(accounts_pb2.GetSelfRequest(), timeout=10)
        return str(answer.account.account_id)


async def test_it_runs_stops_on_ctrl_c_and_goes_on_where_it_was(start_up: Callable[..., Up]) -> None:
    up = start_up()
    endpoints = up.endpoints()
    account_id, token = await new_guest(endpoints)
    # The tools' token opens the internal services, at their own address.
    [table] = endpoints.services["table"]
    async with channel(table, up.data.tools_token()) as internal:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub(internal, GAMES).Cancel(games_pb2.CancelRequest(), timeout=10)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (up.data.path / "tools.token").stat().st_mode & 0o777 == 0o600
    for part in ("Postgres", "NATS", "accounts", "table", "league", "Envoy"):
        assert f"✓ {part}" in up.output
    assert f"Call {endpoints.public}" in up.output

    assert "already runs" in refusal("--data", up.data.path, "--port", 0)
    assert "Port" in refusal("--data", up.data.path.with_name("other"), "--port", endpoints.public.rpartition(":")[2])

    assert up.stop(signal.SIGINT) == 0
    with pytest.raises(NotRunning):
        up.data.endpoints()

    again = start_up()
    assert await account_of(again.endpoints(), token) == account_id
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
    up = start_up("--replicas", "accounts=2")
    endpoints = up.endpoints()
    assert len(endpoints.services["accounts"]) == 2
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
    urls = {f"LEVATA_NATS_URL_{user.upper()}": nats.url(user) for user in ("accounts", "table", "league")}
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


def test_refusals_are_one_sentence_and_break_nothing(tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    newer.mkdir()
    (newer / "version").write_text("99\n")
    (newer / "games").write_text("precious")
    assert "of a newer Levata" in refusal("--data", newer, "--port", 0)

    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("precious")
    for arguments in ([], ["--fresh"]):
        assert "not a data folder of Levata" in refusal("--data", foreign, "--port", 0, *arguments)
    assert (newer / "games").exists()
    assert (foreign / "thesis.txt").exists()

    assert "cannot be used" in refusal("--data", foreign / "thesis.txt", "--port", 0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "cannot be had" in refusal("--data", tmp_path / "a", "--port", taken.getsockname()[1])
    for replicas, sentence in (
        ("table=2", "handed over"),
        ("tables=2", "no service"),
        ("accounts=none", "write it as"),
        ("accounts=0", "at least 1"),
    ):
        assert sentence in refusal("--data", tmp_path / "b", "--port", 0, "--replicas", replicas)


def test_servers_of_ones_own_that_are_not_there_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVATA_POSTGRES_DSN", "postgresql://nobody:secret@127.0.0.1:1/nowhere")
    sentence = refusal("--data", tmp_path / "a", "--port", 0)
    assert "LEVATA_POSTGRES_DSN does not work" in sentence
    assert "secret" not in sentence
    monkeypatch.delenv("LEVATA_POSTGRES_DSN")
    monkeypatch.setenv("LEVATA_NATS_URL", "nats://127.0.0.1:1")
    assert "LEVATA_NATS_URL does not work" in refusal("--data", tmp_path / "b", "--port", 0)


def _is_new(up: Up, words: str, killed: int) -> bool:
    """Whether another process has taken the place of the killed one."""
    return any(words in command and pid != killed for command, pid in up.children().items())
