"""`./levata edge`: what it prints is taken by the same Envoy that `up` runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.edge.certificate import self_made
from tools.embedded.envoy import binary

COMMAND = [sys.executable, "-P", "-c", "from tools.cli import main; main()", "edge"]
SERVICES = [
    "accounts=accounts.cards:7000",
    "table=table.cards:7000",
    "table=192.0.2.7:7000",
    "ledger=ledger.cards:7000",
    "league=league.cards:7000",
    "matchmaker=matchmaker.cards:7000",
]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_envoy_takes_what_is_printed(tmp_path: Path) -> None:
    certificate = self_made(tmp_path / "with a blank", ["cards.example"])
    printed = run(
        *SERVICES, "--listen", "[::]:8443", "--certificate", certificate.chain, "--key", certificate.key,
        "--origin", "https://cards.example", "--trusted-hops", 1,
    )  # fmt: skip
    assert printed.returncode == 0, printed.stderr
    configuration = tmp_path / "envoy.yaml"
    configuration.write_text(printed.stdout)
    validated = subprocess.run(
        [binary(), "--mode", "validate", "--config-path", configuration], capture_output=True, text=True, check=False
    )
    assert validated.returncode == 0, validated.stderr
    assert "https://cards.example" in printed.stdout
    assert "/dev/stdout" in printed.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["casino=localhost:1"],
        ["table=localhost"],
        ["table=localhost:1", "--certificate", "chain.pem"],
        ["table=localhost:1", "--listen", "everywhere"],
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str]) -> None:
    refused = run(*arguments)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert refused.stdout == ""
