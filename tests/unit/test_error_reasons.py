"""docs/errors.md and the code name the same reasons, with the same statuses."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from rules.game import Rejection
from services.table.app import errors

ROOT = Path(__file__).parents[2]

# Calls whose first argument is a reason that clients see.
REFUSALS = {"Refused", "refused"}
CLOSINGS = {"closing", "close_streams"}

# Packs come from the shell and never from a client; game types are looked up before there is an engine to refuse.
INTERNAL_REJECTIONS = {Rejection.BAD_PACK, Rejection.UNKNOWN_GAME}

# The end of a stream has a reason and no status.
NO_STATUS = "none"


def documented() -> dict[str, str]:
    """Reason to status, from the tables of the page."""
    rows = re.findall(r"^\| `([A-Z_]+)` \| `?([A-Z_]+|none)`? \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    assert len(rows) == len(dict(rows)), "a reason is documented twice"
    return dict(rows)


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Calls in our code that give clients a reason, and where they stand."""
    for path in sorted(path for folder in ("chassis", "services") for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _called_name(node) in REFUSALS | CLOSINGS:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def used() -> dict[str, tuple[str, str]]:
    """Reason to status and place, from the code."""
    found = {}
    for place, call in calls():
        match call.args:
            case [ast.Constant(value=str(reason)), *_] if _called_name(call) in CLOSINGS:
                found[reason] = NO_STATUS, place
            case [ast.Constant(value=str(reason)), ast.Attribute(attr=status), *_]:
                found[reason] = status, place
    for rejection in errors._MESSAGES:
        found[rejection.value] = errors.rejected(rejection).code.name, "rules/game.py"
    return found


def _called_name(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def test_every_reason_in_the_code_is_documented_with_its_status() -> None:
    page = documented()
    wrong = {
        reason: f"{status} at {place}, documented: {page.get(reason)}"
        for reason, (status, place) in used().items()
        if page.get(reason) != status
    }
    assert wrong == {}


def test_every_documented_reason_is_in_the_code() -> None:
    assert set(documented()) - set(used()) == set()


def test_reasons_are_written_where_this_test_sees_them() -> None:
    hidden = []
    for place, call in calls():
        match call.args:
            case [ast.Constant(), *_]:
                pass
            # Helpers that hand their own argument on, and the rejections, which are all looked at.
            case [ast.Name(id="reason") | ast.Attribute(value=ast.Name(id="rejection"), attr="value"), *_]:
                pass
            case _:
                hidden.append(place)
    assert hidden == []


def test_every_rejection_that_a_client_can_cause_has_its_sentence() -> None:
    assert set(Rejection) - set(errors._MESSAGES) == INTERNAL_REJECTIONS
