"""The wheel has what a service needs: its modules, the stubs of the protos, its SQL."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_wheel_carries_code_stubs_and_migrations(tmp_path: Path) -> None:
    call: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        tmp_path,
        ROOT,
    ]
    built = subprocess.run(call, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr

    (wheel,) = tmp_path.glob("levata-*.whl")
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
        (metadata,) = [content.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")]
    for source in [*ROOT.glob("rules/**/*.py"), *ROOT.glob("chassis/**/*.py"), *ROOT.glob("services/**/*.sql")]:
        assert source.relative_to(ROOT).as_posix() in names
    for proto in (ROOT / "protos").rglob("*.proto"):
        assert proto.relative_to(ROOT / "protos").with_suffix("").as_posix() + "_pb2.py" in names
    assert "buf/validate/validate_pb2.py" in names
    assert not [name for name in names if name.startswith(("gen/", "tests/", "bench/"))]
    assert "Requires-Dist: grpcio\n" in metadata
