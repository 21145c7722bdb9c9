"""`./levata demo`, `replay` and `rebuild` against a running `up`, as a person would call them."""

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from services.ledger.domain.journal import House
from tests.e2e.running import LEVATA, WAIT_SECONDS, Up
from tools.databases import service_dsn

pytestmark = pytest.mark.slow

# By the ledger's own role: a prize of a game that never was.
FORGED_ENTRY = """
    insert into entry (key, input_hash, kind, cause_kind, cause_id, what)
    values (%(key)s, sha256('forged'), 'posted', 'game', %(game)s, 'prize')"""
FORGED_TRANSFER = f"""
    insert into transfer (number, line, debit, credit, currency, amount)
    select number, 0, '{House.PRIZES.value}', %(account)s, 'coin', 500 from entry where key = %(key)s"""
GAME_ID = re.compile(r"replay ([0-9a-f-]{36})")


def levata(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run([*LEVATA, *arguments], capture_output=True, text=True, timeout=2 * WAIT_SECONDS, check=False)


@pytest.fixture(scope="module")
def demo(up: Up) -> str:
    """What the demo prints; it is run once."""
    ended = levata("demo", "--data", up.data.path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_the_demo_plays_two_games_whose_logs_agree(demo: str) -> None:
    assert demo.count("✓ result") == demo.count("✓ chain") == demo.count("✓ deals") == 2
    assert "✗" not in demo
    assert "30/30 deals" in demo
    assert "6/6" in demo
    # Two among bots and a full table, as the league has heard it.
    assert demo.count("Romanian whist: 1 game, placed") == 8
    assert demo.count("steady bot") == 4


def test_its_games_can_be_replayed(demo: str, up: Up) -> None:
    for game_id in GAME_ID.findall(demo):
        ended = levata("replay", game_id, "--data", up.data.path)
        assert ended.returncode == 0, ended.stderr
        assert "Round 6 of " in ended.stdout
        assert "Standings" in ended.stdout
        assert "\033[" not in ended.stdout
        assert max(map(len, ended.stdout.splitlines())) <= 80


def test_a_replay_as_json_has_every_commit_on_a_line(demo: str, up: Up) -> None:
    game_id = GAME_ID.findall(demo)[0]
    lines = levata("replay", game_id, "--json", "--seat", "1", "--data", up.data.path).stdout.splitlines()
    commits = [json.loads(line)["commit"] for line in lines]
    assert [commit["version"] for commit in commits] == list(range(1, len(commits) + 1))
    assert "finished" in commits[-1]["events"][-1]


def test_the_league_is_rebuilt_to_the_same_rows(demo: str, up: Up) -> None:
    assert demo
    ended = levata("rebuild", "league", "--data", up.data.path)
    assert ended.returncode == 0, ended.stderr
    assert "rows are alike. The new one answers now." in ended.stdout


def test_what_games_moved_is_audited_and_a_forged_prize_is_told_of(demo: str, up: Up) -> None:
    assert demo
    sound = levata("audit", "ledger", "--data", up.data.path)
    assert sound.returncode == 0, sound.stdout + sound.stderr
    assert "all as they should be" in sound.stdout

    dsn, game_id, account = service_dsn(up.data, "ledger"), uuid4(), uuid4()
    assert dsn is not None
    with psycopg.connect(dsn) as ledger:
        ledger.execute(FORGED_ENTRY, {"key": f"prize:{game_id}:0", "game": str(game_id)})
        ledger.execute(FORGED_TRANSFER, {"key": f"prize:{game_id}:0", "account": account})
    forged = levata("audit", "ledger", "--data", up.data.path)
    assert forged.returncode == 1
    assert f"prize:{game_id}:0" in forged.stdout and f"500 coin from {House.PRIZES.value}" in forged.stdout
    assert "1 of them differ" in forged.stdout
    # It is in the books all the same: balances follow from what is there.
    rebuilt = levata("rebuild", "ledger", "--data", up.data.path)
    assert rebuilt.returncode == 0, rebuilt.stdout + rebuilt.stderr
    assert "all are alike" in rebuilt.stdout


def test_the_other_games_are_played_and_checked_as_well(up: Up) -> None:
    # At once, as each waits ten seconds for more people.
    with ThreadPoolExecutor() as together:
        for ended in together.map(
            lambda game: levata("demo", "--game", game, "--data", up.data.path), ("euchre", "oh_hell", "klaverjas")
        ):
            assert ended.returncode == 0, ended.stdout + ended.stderr
            assert "✓ deals" in ended.stdout and "✗" not in ended.stdout


@pytest.mark.parametrize(
    "command",
    [
        ["demo"],
        ["replay", "00000000-0000-7000-8000-000000000000"],
        ["rebuild", "league"],
        ["rebuild", "ledger"],
        ["audit", "ledger"],
    ],
)
def test_without_an_up_each_says_so_in_one_sentence(command: list[str], tmp_path: Path) -> None:
    ended = levata(*command, "--data", tmp_path)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr == f"Nothing runs on {tmp_path}; start it with ./levata up.\n"


def test_what_there_is_not_is_said_in_one_sentence(up: Up) -> None:
    for command, sentence in (
        (["replay", "00000000-0000-7000-8000-000000000000"], "There is no such game."),
        (["replay", "mine"], "mine is not a game's id."),
        (["demo", "--game", "poker"], "There is no game poker; "),
    ):
        ended = levata(*command, "--data", up.data.path)
        assert ended.returncode == 1
        assert ended.stderr.startswith(sentence)
        assert ended.stderr.count("\n") == 1
