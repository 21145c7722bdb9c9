"""The levata command: what there is, and the way to it.

A command is a module of this package with a line in `COMMANDS`. It is imported only when it is called, and holds either
`main`, a function whose signature typer turns into options, or `app`, a typer application of its own. Help is printed
without importing any of them.
"""

import difflib
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """One line of the help."""

    name: str
    summary: str
    # What follows the name, as the help shows it.
    arguments: str = ""

    @property
    def module(self) -> str:
        """Where the command is."""
        return f"tools.{self.name}"


COMMANDS: dict[str, tuple[Command, ...]] = {
    "Run it": (
        Command("up", "start the whole backend on this machine; Ctrl-C stops it"),
        Command("play", "play in the terminal: quick play, or a table of your own", "[--game GAME] [--solo]"),
        Command(
            "demo", "play whole games through the public port and check them from their log", "[--game GAME] [--week]"
        ),
        Command("replay", "show a game from its log, trick by trick", "GAME_ID"),
        Command("mail", "the mails that were written instead of sent, the newest first", "[--follow]"),
        Command("facts", "how far consumers are, and what to do about parked facts", "COMMAND"),
        Command("keys", "the keys that tokens are signed with: list, rotate, withdraw a stolen one", "COMMAND"),
        Command("edge", "print Envoy's configuration for services of one's own", "SERVICE=HOST:PORT..."),
        Command("rebuild", "make a projection anew beside the live one, compare, switch", "league|ledger"),
        Command("audit", "compute anew what games moved in the ledger, and compare", "ledger"),
        Command("money", "give an account something, or put its balances right", "COMMAND"),
    ),
    "Work on it": (
        Command("check", "format, lint, types, import contracts, protos, locks; --fix formats", "[--fix]"),
        Command("test", "run the tests; what follows goes to pytest", "[ARGUMENT...]"),
        Command("faults", "kill, stall and cut off real processes while games are played, and check", "[--seed N]"),
        Command("bench", "measure against a bare server in the same run; `all` runs every bench", "NAME"),
        Command("seating", "simulate who is seated with whom in quick play, by how many come", "[--write]"),
        Command("gen", "make the stubs in gen/ from protos/ anew"),
        Command("web", "check and bundle the browser's page of web/"),
    ),
}
HELP_NAMES = frozenset({"help", "--help", "-h"})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that `arguments` (default: the process's) ask for, and exit."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments and arguments[0] in HELP_NAMES:
        # `help up` is `up --help`.
        arguments = [arguments[1], "--help"] if len(arguments) > 1 else []
    if not arguments:
        print(help_text(is_terminal=sys.stdout.isatty()))
        return
    name, *rest = arguments
    command = find(name)
    if command is None:
        sys.exit(_unknown(name))
    _run(command, rest)


def find(name: str) -> Command | None:
    """The command of this name."""
    return next((command for command in _all() if command.name == name), None)


def help_text(*, is_terminal: bool) -> str:
    """All commands, by purpose."""
    bold, plain = ("\033[1m", "\033[0m") if is_terminal else ("", "")
    calls = {command: f"{command.name} {command.arguments}".rstrip() for command in _all()}
    width = max(len(call) for call in calls.values())
    lines = ["Levata, a backend for trick-taking card games.", "", f"{bold}./levata COMMAND{plain}"]
    for purpose, commands in COMMANDS.items():
        lines += ["", f"{bold}{purpose}{plain}"]
        lines += [f"  {calls[command]:<{width}}  {command.summary}" for command in commands]
    lines += ["", "./levata help COMMAND tells its options. README.md has a walk of five minutes."]
    return "\n".join(lines)


def _all() -> list[Command]:
    return [command for commands in COMMANDS.values() for command in commands]


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, [command.name for command in _all()], n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"levata: there is no command {name!r}.{hint} ./levata help lists them."


def _run(command: Command, arguments: list[str]) -> None:
    # Typer costs more time than all the rest of a command's start: help and mistakes do without.
    import typer

    module = importlib.import_module(command.module)
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(name=command.name)(module.main)
    app(arguments, prog_name=f"levata {command.name}")
