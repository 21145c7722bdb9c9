"""What `up` shows: a line per part, the address to call, and the services' logs, for people or for machines."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

NAME_WIDTH = 10
COLOURS = ("cyan", "magenta", "blue", "yellow", "green")


class Screen:
    """For people: in colour on a terminal, plain anywhere else."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._colours: dict[str, str] = {}

    @contextmanager
    def starting(self, part: str) -> Iterator[None]:
        """While a part starts; a terminal shows that something happens."""
        if not self._console.is_terminal:
            yield
            return
        with self._console.status(f"starting {part} …"):
            yield

    def ready(self, part: str, where: str, seconds: float) -> None:
        """A part is up."""
        line = Text.assemble(("✓ ", "bold green"), (f"{part:<{NAME_WIDTH}}", "bold"), f" {where:<32}")
        line.append(f" {seconds:.1f} s", style="dim")
        self._print(line)

    def up(self, address: str, certificate: str, data: str) -> None:
        """All parts are up; `certificate` is the file to trust, if the port speaks TLS."""
        self._print(Text())
        how = "over TLS" if certificate else "without TLS"
        self._print(Text.assemble("Levata is up. Call ", (address, "bold"), f" with gRPC or gRPC-Web, {how}."))
        if certificate:
            self._print(Text.assemble("Its certificate is self-made: trust ", (certificate, "bold"), "."))
        self._print(Text.assemble("Its data is in ", (data, "bold"), ". Ctrl-C stops it."))
        self._print(Text())

    def note(self, sentence: str) -> None:
        """Something the operator should know."""
        self._print(Text(sentence, style="dim"))

    def problem(self, sentence: str) -> None:
        """Something the operator should look at."""
        self._print(Text.assemble(("! ", "bold red"), sentence))

    def log(self, source: str, line: str) -> None:
        """A line that a service printed."""
        style = "red" if "[error" in line or "[critical" in line else "yellow" if "[warning" in line else ""
        self._print(Text.assemble((f"{source:<{NAME_WIDTH}} │ ", self._colour(source)), (line, style)))

    def _colour(self, source: str) -> str:
        return self._colours.setdefault(source, COLOURS[len(self._colours) % len(COLOURS)])

    def _print(self, line: Text) -> None:
        try:
            self._console.print(line)
        except BrokenPipeError:
            # Nobody reads us any more; what runs goes on.
            self._console.quiet = True


class JsonScreen(Screen):
    """For machines: one JSON object a line; the services' own lines are passed through as they are."""

    def ready(self, part: str, where: str, seconds: float) -> None:
        self._say("info", "ready", part=part, address=where, seconds=round(seconds, 3))

    def up(self, address: str, certificate: str, data: str) -> None:
        self._say("info", "up", address=address, certificate=certificate, data=data)

    def note(self, sentence: str) -> None:
        self._say("info", sentence)

    def problem(self, sentence: str) -> None:
        self._say("warning", sentence)

    def log(self, source: str, line: str) -> None:
        if line.startswith("{"):
            self._print(Text(line))
        else:
            # Printed past the logging, by a crash for example.
            self._print(Text(json.dumps({"level": "error", "service": source, "event": line})))

    def _say(self, level: str, event: str, **more: object) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        entry = {"event": event, "level": level, "service": "up", "timestamp": at, **more}
        self._print(Text(json.dumps(entry, ensure_ascii=False)))
