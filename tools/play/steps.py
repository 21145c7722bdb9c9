"""Commits cut into steps for the eye: one card, one call, one score at a time, and how long each is looked at."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from levata.table.v1 import table_pb2

CARD_SECONDS: Final = 0.45
CALL_SECONDS: Final = 0.6
TRICK_SECONDS: Final = 1.3
SCORE_SECONDS: Final = 8.0

# While the player's own clock runs, all that is still to be shown is shown within this time.
CATCH_UP_SECONDS: Final = 2.0


class Step(NamedTuple):
    """Events that are shown together."""

    events: tuple[table_pb2.Event, ...]
    # How long they are looked at before the next step is shown.
    seconds: float
    # The commit that is complete with this step.
    ends: table_pb2.Commit | None


def steps(commit: table_pb2.Commit) -> Iterator[Step]:
    """A commit as the eye can follow it."""
    groups: list[list[table_pb2.Event]] = [[]]
    for event in commit.events:
        # A trick belongs to the card that completed it, places to the score that decided them.
        if event.WhichOneof("kind") not in ("trick_taken", "finished") and groups[-1]:
            groups.append([])
        groups[-1].append(event)
    for group in groups:
        yield Step(tuple(group), max(map(_seconds, group), default=0.0), commit if group is groups[-1] else None)


def _seconds(event: table_pb2.Event) -> float:
    match event.WhichOneof("kind"):
        case "moved":
            return CARD_SECONDS if event.moved.move.WhichOneof("kind") == "play_card" else CALL_SECONDS
        case "trick_taken":
            return TRICK_SECONDS
        case "deal_scored":
            return SCORE_SECONDS
        case _:
            return 0.0


def hurried(seconds: float, waiting: Iterable[Step]) -> float:
    """How long the step on the screen may stay, when it and all that wait must fit into CATCH_UP_SECONDS."""
    total = seconds + sum(step.seconds for step in waiting)
    return seconds if total <= CATCH_UP_SECONDS else seconds * CATCH_UP_SECONDS / total
