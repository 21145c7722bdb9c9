"""Keys and tokens that are replaced while a process uses them."""

import asyncio
import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from chassis import files as files_module
from chassis import keys as rotation
from chassis.auth import KeyFiles, Signer, Verifier, make_keys
from chassis.clock import Clock
from chassis.errors import Refused
from chassis.files import TokenFile, followed, write_whole
from chassis.keys import Key, NoSuchKey, publish_next, sign_with, withdraw
from tools import keys as keys_command
from tools.tokens import Tokens

ACCOUNT = "0199bbbb-0000-7000-8000-000000000000"


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "LOOK_SECONDS", 0.01)


@pytest.fixture
def files(tmp_path: Path) -> KeyFiles:
    return make_keys(tmp_path)


async def until(true: Callable[[], bool]) -> None:
    """Wait until it is so; the test's own time-out is the bound."""
    while not true():
        await asyncio.sleep(0.005)


def is_good(verifier: Verifier, token: str) -> bool:
    try:
        verifier.verify(token)
    except Refused as refused:
        if refused.reason != "TOKEN_INVALID":
            raise
        return False
    return True


async def test_a_rotation_refuses_no_token(files: KeyFiles) -> None:
    clock = Clock()
    async with Signer.following(files.signing_key, clock) as signer, Verifier.following(files.jwks, clock) as verifier:
        old = signer.service_token("table", 60)
        private = publish_next(files)
        await until(lambda: is_good(verifier, Signer(private).service_token("table", 60)))
        # Published, it does not sign yet.
        assert [(key.signs, key.retired_at) for key in rotation.keys(files)] == [(True, None), (False, None)]
        sign_with(files, private)
        await until(lambda: signer._headers["kid"] == private["kid"])
        assert is_good(verifier, signer.player_token(ACCOUNT, False, 60))
        assert is_good(verifier, old)
        # Not remembered only: a replica that starts now takes it too.
        assert is_good(Verifier.from_file(files.jwks), old)
        [before, now] = rotation.keys(files)
        assert (before.signs, now) == (False, Key(private["kid"], True, None))
        assert before.retired_at is not None


def test_a_retired_key_is_forgotten_when_its_last_token_has_run_out(
    files: KeyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000.0
    monkeypatch.setattr("chassis.keys.time.time", lambda: now)
    names = [rotation.keys(files)[0].key_id]
    for _ in range(2):
        private = publish_next(files)
        sign_with(files, private)
        names.append(private["kid"])
        now += rotation.TOKEN_SECONDS_MAX - 1
    assert [key.key_id for key in rotation.keys(files)] == names
    publish_next(files)
    # The first has been retired for nearly twice as long by then, the second for a second less than once.
    assert [key.key_id for key in rotation.keys(files)][:2] == names[1:]


async def test_a_withdrawn_keys_tokens_are_refused_though_they_were_good(files: KeyFiles) -> None:
    async with Verifier.following(files.jwks, Clock()) as verifier:
        old = Signer.from_file(files.signing_key).service_token("table", 60)
        stolen = rotation.keys(files)[0].key_id
        with pytest.raises(NoSuchKey, match="rotate first"):
            withdraw(files, stolen)
        sign_with(files, publish_next(files))
        new = Signer.from_file(files.signing_key).service_token("table", 60)
        await until(lambda: is_good(verifier, new))
        assert is_good(verifier, old)
        withdraw(files, stolen)
        await until(lambda: not is_good(verifier, old))
        assert is_good(verifier, new)
        with pytest.raises(NoSuchKey):
            withdraw(files, stolen)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"keys": []}', '{"keys": [{"kid": "a"}]}', '{"keys": 7}'])
async def test_a_key_set_that_is_none_changes_nothing(files: KeyFiles, text: str) -> None:
    token = Signer.from_file(files.signing_key).service_token("table", 60)
    async with Verifier.following(files.jwks, Clock()) as verifier:
        with structlog.testing.capture_logs() as logged:
            write_whole(files.jwks, text, 0o644)
            await until(lambda: bool(logged))
        assert is_good(verifier, token)
        assert [entry["log_level"] for entry in logged] == ["error"]
    with pytest.raises(ValueError, match=r"Expecting|key set|Key Set"):
        async with Verifier.following(files.jwks, Clock()):
            raise AssertionError("a service does not start without keys")


async def test_a_public_key_does_not_sign(files: KeyFiles) -> None:
    [public] = json.loads(files.jwks.read_text())["keys"]
    with pytest.raises(ValueError, match="private"):
        Signer(public)


async def test_a_file_is_taken_once_for_each_version_and_outlives_its_absence(tmp_path: Path) -> None:
    file, taken = tmp_path / "file", list[str]()
    write_whole(file, "one", 0o600)
    async with followed(file, taken.append):
        assert taken == ["one"]
        file.unlink()
        await asyncio.sleep(0.05)
        write_whole(file, "two", 0o600)
        await until(lambda: taken == ["one", "two"])
        await asyncio.sleep(0.05)
        assert taken == ["one", "two"]
        # Of the same size.
        write_whole(file, "six", 0o600)
        await until(lambda: taken == ["one", "two", "six"])
    tasks = [task for task in asyncio.all_tasks() if task.get_name().startswith("follow")]
    assert tasks == []


def test_a_token_is_the_one_that_is_in_the_file_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "LOOK_SECONDS", 0)
    token = TokenFile(tmp_path / "token")
    with pytest.raises(OSError, match="token"):
        token()
    write_whole(tmp_path / "token", "first\n", 0o600)
    assert token() == "first"
    write_whole(tmp_path / "token", "second\n", 0o600)
    assert token() == "second"
    # What was there goes on being good.
    (tmp_path / "token").unlink()
    assert token() == "second"


def test_tokens_are_for_their_owner_and_due_in_time_and_with_another_key(
    files: KeyFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, verifier = Tokens(tmp_path / "tokens"), Verifier.from_file(files.jwks)
    assert tokens.are_due(files.signing_key)
    tokens.issue(files.signing_key, ["table"])
    assert not tokens.are_due(files.signing_key)
    callers = {name: verifier.verify(tokens.file(name).read_text().strip()) for name in ("table", "tools", "operator")}
    assert {name: (caller.subject, caller.role.value) for name, caller in callers.items()} == {
        "table": ("table", "service"),
        "tools": ("tools", "service"),
        "operator": ("operator", "operator"),
    }
    assert stat.S_IMODE(tokens.file("table").stat().st_mode) == 0o600
    sign_with(files, publish_next(files))
    assert tokens.are_due(files.signing_key)
    tokens.issue(files.signing_key, ["table"])
    assert not tokens.are_due(files.signing_key)
    for later in (3600, -60):
        moved = tokens._issued_at + later
        monkeypatch.setattr("tools.tokens.time.time", lambda moved=moved: moved)
        assert tokens.are_due(files.signing_key)


def test_the_command_lists_rotates_and_withdraws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_command, "PUBLISHED_SECONDS", 0)

    def levata_keys(*arguments: str) -> str:
        result = CliRunner().invoke(keys_command.app, [*arguments, "--data", str(tmp_path)])
        return result.output if result.exit_code == 0 else f"{result.exit_code}: {result.exception}"

    assert "./levata up makes them" in levata_keys("list")
    (tmp_path / "keys").mkdir()
    files = make_keys(tmp_path / "keys")
    first = rotation.keys(files)[0].key_id
    assert levata_keys("list") == f"{first}  signs\n"
    assert "It signs now." in levata_keys("rotate")
    [retired, signing] = levata_keys("list").splitlines()
    assert retired.startswith(f"{first}  retired")
    assert signing.endswith("  signs")
    assert "rotate first" in levata_keys("withdraw", signing.split()[0])
    # One in 64 ids looks like an option.
    write_whole(files.jwks, files.jwks.read_text().replace(first, "-a"), 0o644)
    assert "refused within seconds" in " ".join(levata_keys("withdraw", "-a").split())
    assert levata_keys("list") == f"{signing}\n"
