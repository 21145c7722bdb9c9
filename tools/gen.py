"""The stubs in gen/, made from protos/: messages and their types only.

There are no gRPC classes: `chassis.rpc` serves and calls services by their descriptors.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Changes when the way of making stubs does, so that existing ones are made anew.
RECIPE = "1"
STAMP = ".stamp"


class StubsFailed(Exception):
    """protoc refused the protos; the message is what it said."""


def main() -> None:
    """Make the stubs in gen/ anew, whether or not the protos changed."""
    try:
        make(ROOT, ROOT / "gen")
    except StubsFailed as failed:
        raise SystemExit(str(failed)) from None
    print("✓ gen/ is made from protos/")


def are_current(root: Path, gen: Path) -> bool:
    """Whether `gen` holds the stubs of the protos as they are now."""
    try:
        return (gen / STAMP).read_text() == _fingerprint(root)
    except FileNotFoundError:
        return False


def make(root: Path, gen: Path) -> None:
    """Write the stubs of root's protos into `gen`, file by file, so that who reads them meanwhile finds whole files."""
    fingerprint = _fingerprint(root)
    gen.mkdir(exist_ok=True)
    for leftover in gen.glob(".new-*"):  # of a run that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=gen) as folder:
        fresh = Path(folder)
        _run_protoc(root, fresh)
        made = {path.relative_to(fresh) for path in fresh.rglob("*_pb2.py*")}
        for path in sorted(made):
            (gen / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).replace(gen / path)
    for path in [path for path in gen.rglob("*_pb2.py*") if path.relative_to(gen) not in made]:
        path.unlink()
    (gen / STAMP).write_text(fingerprint)


def _run_protoc(root: Path, target: Path) -> None:
    own, foreign = root / "protos", root / "third_party" / "protos"
    names = [path.relative_to(own).as_posix() for path in sorted(own.rglob("*.proto"))]
    # google.rpc comes with its own package; of the foreign protos only the validation rules need stubs.
    names.append("buf/validate/validate.proto")
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    plugin = shutil.which("protoc-gen-mypy", path=programs)
    call = [sys.executable, "-m", "grpc_tools.protoc", f"-I{own}", f"-I{foreign}"]
    call += [f"--python_out={target}", f"--mypy_out=quiet:{target}", f"--plugin=protoc-gen-mypy={plugin}", *names]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StubsFailed(f"{done.stdout}{done.stderr}".strip())


def _fingerprint(root: Path) -> str:
    digest = hashlib.sha256(RECIPE.encode())
    # Another protoc makes other stubs.
    digest.update((root / "requirements" / "runtime.txt").read_bytes())
    for folder in (root / "protos", root / "third_party" / "protos"):
        for path in sorted(folder.rglob("*.proto")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
