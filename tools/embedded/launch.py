"""Run a command that dies with its parent; `process.launched` builds the call.

    launch.py PARENT_PID SIGNAL IDENTITY COMMAND...

IDENTITY is `self`, `namespace:UID:GID` (the same user, seen as UID inside a user namespace) or `user:UID:GID` (another
user). The command may open as many files as the system lets it, because each connection is one. Kept to the standard
library and run with -I -S, so that it costs a few milliseconds and no memory: it becomes the command by exec.
"""

import ctypes
import os
import resource
import sys

CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    parent, death_signal, identity, *command = arguments
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "linux":
        _allow_many_files()
    _take_on(identity, libc)
    # After the change of identity, because the kernel forgets the death signal when credentials change.
    if sys.platform == "linux" and libc.prctl(PR_SET_PDEATHSIG, int(death_signal)) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != int(parent):
        sys.exit(0)  # The parent died before the signal was armed.
    os.execvp(command[0], command)


def _allow_many_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _take_on(identity: str, libc: ctypes.CDLL) -> None:
    kind, _, ids = identity.partition(":")
    if kind == "self":
        return
    uid, gid = (int(part) for part in ids.split(":"))
    if kind == "user":
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        return
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    # The kernel takes a group map from the unprivileged only once setgroups is denied.
    for name, content in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {outer_uid} 1"),
        ("gid_map", f"{gid} {outer_gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 - pathlib takes longer to import than all of this
            file.write(content)


if __name__ == "__main__":
    main(sys.argv[1:])
