"""What `up` refuses before it starts anything: in one sentence, and breaking nothing."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.up import main


def refusal(data: Path, port: int = 0, *, fresh: bool = False, replicas: str | None = None) -> str:
    """The sentence with which `up` refuses; a process ends with exit code 1 by it."""
    with pytest.raises(SystemExit) as ended:
        main(data=data, port=port, fresh=fresh, replicas=[replicas] if replicas else None)
    sentence = ended.value.code
    assert isinstance(sentence, str)
    assert sentence.startswith("levata: ")
    assert "\n" not in sentence
    return sentence


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with something in it that must not be lost."""
    (tmp_path / "precious.txt").write_text("precious")
    return tmp_path


@pytest.fixture(autouse=True)
def _nothing_is_lost(folder: Path) -> Iterator[None]:
    yield
    assert (folder / "precious.txt").read_text() == "precious"


def test_a_data_folder_of_a_newer_version(folder: Path) -> None:
    (folder / "version").write_text("99\n")
    assert "of a newer Levata" in refusal(folder)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_folder_of_something_else(folder: Path, fresh: bool) -> None:
    assert "not a data folder of Levata" in refusal(folder, fresh=fresh)


def test_a_path_that_is_no_folder(folder: Path) -> None:
    assert "cannot be used" in refusal(folder / "precious.txt")


def test_a_taken_port(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "cannot be had" in refusal(folder / "data", taken.getsockname()[1])


@pytest.mark.parametrize(
    ("replicas", "sentence"),
    [
        ("tables=2", "there is no service 'tables'"),
        ("accounts=many", "write it as accounts=N"),
        ("accounts=0", "N of at least 1"),
        ("accounts", "write it as accounts=N"),
    ],
)
def test_replicas_that_cannot_be(folder: Path, replicas: str, sentence: str) -> None:
    assert sentence in refusal(folder / "data", replicas=replicas)
    assert not (folder / "data").exists()


def test_a_postgres_of_ones_own_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVATA_POSTGRES_DSN", "postgresql://nobody:secret@127.0.0.1:1/nowhere")
    sentence = refusal(folder / "data")
    assert "LEVATA_POSTGRES_DSN does not work" in sentence
    assert "secret" not in sentence


def test_a_nats_of_ones_own_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Asked before the embedded Postgres is started.
    monkeypatch.setenv("LEVATA_NATS_URL", "nats://user:secret@127.0.0.1:1")
    sentence = refusal(folder / "data")
    assert "LEVATA_NATS_URL does not work" in sentence
    assert "secret" not in sentence
    assert not (folder / "data" / "postgres").exists()
