"""The self-made certificate: what it says, and when it is made anew."""

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from tools.edge import certificate as subject
from tools.edge.certificate import self_made


def names(chain: Path) -> set[str]:
    certificate = x509.load_pem_x509_certificate(chain.read_bytes())
    covered = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in covered}


def test_it_names_this_machine_and_stays_the_same(tmp_path: Path) -> None:
    made = self_made(tmp_path / "tls")
    assert names(made.chain) == {"localhost", "127.0.0.1", "::1", socket.gethostname()}
    before = made.chain.read_bytes(), made.key.read_bytes()
    assert self_made(tmp_path / "tls") == made
    assert (made.chain.read_bytes(), made.key.read_bytes()) == before


def test_it_is_made_anew_for_another_name(tmp_path: Path) -> None:
    before = self_made(tmp_path).chain.read_bytes()
    made = self_made(tmp_path, ["cards.example", "192.0.2.7"])
    assert made.chain.read_bytes() != before
    assert {"cards.example", "192.0.2.7"} <= names(made.chain)
    # It is good for the fewer names as well.
    kept = made.chain.read_bytes()
    assert self_made(tmp_path).chain.read_bytes() == kept


@pytest.mark.parametrize("days", [subject.VALID_DAYS - subject.RENEW_DAYS + 1, subject.VALID_DAYS + 1])
def test_it_is_made_anew_before_it_runs_out(tmp_path: Path, days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = self_made(tmp_path).chain.read_bytes()

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) + timedelta(days=days)

    monkeypatch.setattr(subject, "datetime", Later)
    assert self_made(tmp_path).chain.read_bytes() != before


@pytest.mark.parametrize("broken", ["certificate.pem", "key.pem"])
def test_it_is_made_anew_when_it_does_not_fit_its_key(tmp_path: Path, broken: str) -> None:
    self_made(tmp_path / "one")
    self_made(tmp_path / "two")
    (tmp_path / "two" / broken).replace(tmp_path / "one" / broken)
    before = (tmp_path / "one" / "certificate.pem").read_bytes()
    assert self_made(tmp_path / "one").chain.read_bytes() != before
    (tmp_path / "one" / broken).write_text("nonsense")
    again = self_made(tmp_path / "one")
    assert self_made(tmp_path / "one").chain.read_bytes() == again.chain.read_bytes()
