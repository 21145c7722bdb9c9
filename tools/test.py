"""Run the tests: pytest with this checkout's settings. Servers that tests need are started by the tests themselves."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parent.parent
# Most tests wait for servers of their own most of the time. A file's tests share theirs, and stay together. Files go in
# the order of tests/conftest.py, and not those with the most tests first: these are the quickest ones.
IN_SEVERAL_PROCESSES = ["-n", str((os.cpu_count() or 1) + 1), "--dist", "loadfile", "--no-loadscope-reorder"]

# Everything that follows is pytest's, its --help included.
app = typer.Typer(add_completion=False)


@app.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
def main(arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGUMENT...")] = None) -> None:
    """Run the tests; what follows goes to pytest."""
    here = Path.cwd()
    given = [_from_anywhere(argument, here) for argument in arguments or []]
    # Who names tests wants to see them one after another, perhaps in a debugger.
    together = [] if any(not argument.startswith("-") for argument in given) else IN_SEVERAL_PROCESSES
    call = [sys.executable, "-m", "pytest", *together, *given]
    os.chdir(ROOT)
    os.execv(sys.executable, call)


def _from_anywhere(argument: str, here: Path) -> str:
    """A path as seen from `here`, made absolute; anything else as it is."""
    path, colons, test = argument.partition("::")
    if not argument.startswith("-") and (here / path).exists():
        return f"{here / path}{colons}{test}"
    return argument
