"""Golden logs as `./levata replay` tells them; `python -m tests.golden.told` writes the texts anew, to read in a diff.

Unlike the logs, the texts may change: they hold still what a change of the telling would alter unseen.
"""

from io import StringIO
from pathlib import Path
from typing import Final
from uuid import UUID

from levata.table.v1 import table_pb2
from rich.console import Console

from rules import game as g
from services.table import domain
from services.table.rpc.messages import CommitMessages
from tests.golden.logs import FOLDER, Log, parsed
from tools.recorded import recorded
from tools.telling import teller

TOLD: Final = (
    "euchre_standard_4_r1b1",
    "klaverjas_amsterdam_4_r1b1",
    "oh_hell_standard_4_r1b1",
    "romanian_whist_quick_6_r1b1",
)
GAME_ID: Final = UUID("00000000-0000-7000-8000-000000000007")
BEGAN_US: Final = 1_800_000_000_000_000


def path_of(name: str) -> Path:
    """Where the text of a log is kept."""
    return FOLDER / "told" / f"{name}.txt"


def replay(log: Log) -> list[table_pb2.ReplayResponse]:
    """The open replay of a game with these events, bots in all its seats."""
    secret = domain.Secret(bytes(32), (b"",) * log.setup.seats)
    created = domain.Created(
        game_id=GAME_ID.bytes,
        game_type=log.game_type,
        setup=log.setup,
        mode=domain.Mode.FRIENDLY,
        rules_version=log.rules_version,
        bot_version=log.bot_version,
        seats=(domain.Occupant(bot_level="steady"),) * log.setup.seats,
        clock=domain.Clock(20, 15),
        commitment=bytes(32),
        secret=secret,
        host="host",
    )
    responses = []
    table: domain.Table | None = None
    for version, events in enumerate(_commits(created, log.events), start=1):
        commit = domain.Commit(version, BEGAN_US, events)
        after = domain.apply(table, commit)
        response = table_pb2.ReplayResponse()
        response.commit.ParseFromString(CommitMessages(table, commit, after).body(domain.OPEN))
        responses.append(response)
        table = after
    return responses


def _commits(created: domain.Created, logged: tuple[g.Event, ...]) -> list[tuple[domain.Event, ...]]:
    """A commit for each move, with all that followed from it; the first one creates and deals."""
    commits: list[list[domain.Event]] = [[created]]
    totals = (0,) * created.setup.seats
    for event in logged:
        match event:
            case g.Moved(seat, move):
                commits.append([domain.Moved(seat, move, domain.Decider.BOT)])
            case g.DealScored(deal, points):
                totals = tuple(total + gained for total, gained in zip(totals, points, strict=True))
                commits[-1].append(domain.DealScored(deal, points, (False,) * len(points)))
            case g.Finished(standings):
                commits[-1].append(domain.Finished(standings, totals, ()))
            case g.Dealt():
                commits[-1].append(event)
    return [tuple(commit) for commit in commits]


def told(name: str) -> str:
    """The log as a pipe gets it."""
    log = parsed((FOLDER / f"{name}.jsonl").read_text().splitlines())
    out = StringIO()
    console = Console(file=out, width=80, highlight=False, color_system=None, force_terminal=False)
    for part in teller(recorded(str(GAME_ID), replay(log), None)).tell():
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


if __name__ == "__main__":
    for each in TOLD:
        path_of(each).parent.mkdir(exist_ok=True)
        path_of(each).write_text(told(each))
