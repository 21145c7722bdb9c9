"""`./levata check` compares the protos with what was published (tools/check.py)."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tools import check

ROOT = Path(__file__).resolve().parents[2]
ACCOUNT = "  bool guest = 3;\n}\n"


@pytest.fixture
def accounts_proto(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The proto of accounts in a repository of its own, whose first commit is what was published."""
    shutil.copytree(ROOT / "protos", tmp_path / "protos")
    shutil.copytree(ROOT / "third_party" / "protos", tmp_path / "third_party" / "protos")
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org"]
    for call in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "published"], ["tag", "published"]):
        subprocess.run([*git, *call], cwd=tmp_path, check=True)
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "BASELINE", "published")
    return tmp_path / "protos" / "levata" / "accounts" / "v1" / "accounts.proto"


def changed(proto: Path, before: str, after: str) -> check.Verdict:
    text = proto.read_text()
    assert before in text
    proto.write_text(text.replace(before, after))
    return check._protos_stay_compatible()


def test_a_new_field_is_compatible(accounts_proto: Path) -> None:
    verdict = changed(accounts_proto, ACCOUNT, "  bool guest = 3;\n  string picture = 9;\n}\n")
    assert verdict.passed, verdict.output


@pytest.mark.parametrize("after", ["}\n", "  string guest = 3;\n}\n"], ids=["removed", "of another type"])
def test_a_field_that_clients_rely_on_must_stay(accounts_proto: Path, after: str) -> None:
    verdict = changed(accounts_proto, ACCOUNT, after)
    assert not verdict.passed
    assert "accounts.proto" in verdict.output


def test_before_anything_was_published_nothing_can_break(accounts_proto: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "BASELINE", "origin/main")
    assert changed(accounts_proto, ACCOUNT, "}\n").passed
