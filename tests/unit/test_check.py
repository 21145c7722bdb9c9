"""What `./levata check` finds in locks and texts (tools/check.py)."""

from pathlib import Path

import pytest

from tools import check

HASH = "\\\n    --hash=sha256:00"


def written(folder: Path, *, runtime: str, dev: str, asked: str = "grpcio\n") -> Path:
    (folder / "runtime.in").write_text(asked)
    (folder / "dev.in").write_text("# What developers need on top.\n-r runtime.in\nruff\n")
    (folder / "runtime.txt").write_text(runtime)
    (folder / "dev.txt").write_text(dev)
    return folder


def test_sound_locks_have_no_faults(tmp_path: Path) -> None:
    runtime = f"grpcio==1.0 {HASH}\n    # via -r runtime.in\npsycopg[binary]==3.0 ; python_version > '3.0' {HASH}\n"
    folder = written(
        tmp_path, runtime=runtime, dev=f"{runtime}ruff==2.0 {HASH}\n", asked="grpcio\npsycopg[binary]>=2\n"
    )
    assert check.lock_faults(folder) == []


@pytest.mark.parametrize(
    ("runtime", "fault"),
    [
        ("grpcio==1.0\n", "runtime.txt: grpcio has no hash"),
        (f"--index-url https://example.org/simple\ngrpcio==1.0 {HASH}\n", "runtime.txt names an index: --index-url"),
        (f"grpcio==2.0 {HASH}\n", "dev.txt has another grpcio than runtime.txt (2.0)"),
        (f"grpcio==1.0 {HASH}\nnumpy>=1\n", "runtime.txt: not pinned: numpy>=1"),
        ("", "runtime.txt lacks grpcio: lock it again"),
    ],
)
def test_a_faulty_lock_is_told(tmp_path: Path, runtime: str, fault: str) -> None:
    folder = written(tmp_path, runtime=runtime, dev=f"grpcio==1.0 {HASH}\nruff==2.0 {HASH}\n")
    assert check.lock_faults(folder) == [fault]


def test_our_own_locks_are_sound() -> None:
    assert check.lock_faults(check.ROOT / "requirements") == []


def test_a_registry_that_is_named_is_told_with_its_place() -> None:
    host = "files.python" + "hosted.org"
    texts = [("a.md", "see the docs\n"), ("b/c.txt", f"one\ntwo https://{host}/x\n")]
    assert check.registry_names(texts) == [f"b/c.txt:2: {host.removeprefix('files.')}"]
