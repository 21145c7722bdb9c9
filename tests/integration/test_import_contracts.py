"""Each contract in .importlinter, broken once in a small tree of the same shape, is seen to break."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOUND = {
    "rules/game.py": "",
    "rules/values.py": "import os\n",
    "rules/calendar.py": "import datetime\n",
    "chassis/log.py": "import asyncio\n",
    "services/accounts/domain.py": "from rules import game\n",
    "services/accounts/app.py": "from services.accounts import domain\n",
    "services/table/domain.py": "from rules import values\n",
    "services/table/app.py": "from services.table import domain\n",
    "services/table/rpc.py": "import grpc\nfrom services.table import app\n",
    "services/table/store.py": "import asyncpg\nfrom chassis import log\nfrom services.table import app, domain\n",
    "services/table/__main__.py": "from services.table import rpc, store\n",
}


def kept(tree: Path, **changed: str) -> tuple[bool, str]:
    """Whether all contracts hold in the sound tree with these changes, and what was said."""
    for name, content in {**SOUND, **changed}.items():
        path = tree / name
        for package in [*path.relative_to(tree).parents][:-1]:
            (tree / package).mkdir(parents=True, exist_ok=True)
            (tree / package / "__init__.py").touch()
        path.write_text(content)
    program = Path(sys.executable).parent / "lint-imports"
    # The tree's packages come before ours, which this environment has on its path.
    done = subprocess.run(
        [program, "--no-logo", "--no-cache", ROOT / ".importlinter"],
        cwd=tree,
        env={"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    return done.returncode == 0, done.stdout + done.stderr


def test_a_sound_tree_keeps_them_all(tmp_path: Path) -> None:
    holds, said = kept(tmp_path)
    assert holds, said


@pytest.mark.parametrize(
    ("module", "content", "broken"),
    [
        ("rules/game.py", "from chassis import log\n", "rules is pure"),
        ("rules/game.py", "import random\n", "rules is pure"),
        ("rules/game.py", "from levata.table.v1 import table_pb2\n", "rules is pure"),
        ("chassis/log.py", "from rules import game\n", "chassis knows neither"),
        ("chassis/log.py", "from services.table import domain\n", "chassis knows neither"),
        ("services/accounts/store.py", "from services.table import store\n", "services never import each other"),
        ("services/table/domain.py", "from services.table import app\n", "domain, app, then"),
        ("services/table/app.py", "from services.table import rpc\n", "domain, app, then"),
        ("services/table/store.py", "from services.table import __main__\n", "domain, app, then"),
        ("services/table/domain.py", "import time\n", "a domain is pure"),
        ("services/table/domain.py", "from chassis import log\n", "a domain is pure"),
        ("services/table/app.py", "from levata.table.v1 import log_pb2\n", "an app speaks neither"),
        ("services/table/store.py", "from tools import migrate\n", "nothing that runs in production"),
        ("chassis/log.py", "import tests\n", "nothing that runs in production"),
    ],
)
def test_each_contract_can_break(tmp_path: Path, module: str, content: str, broken: str) -> None:
    holds, said = kept(tmp_path, **{module: content})
    assert not holds
    assert [line for line in said.splitlines() if line.startswith(broken) and " BROKEN" in line], said
