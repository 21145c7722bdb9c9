"""Rows of the game log that earlier code stored are read and folded by today's code to what they came to then."""

import base64
import json
from typing import Any
from uuid import UUID

import pytest

from rules.game import Dealt
from services.table import domain
from services.table.domain import Commit, Kind, Mode, Table, kinds_of
from services.table.store.codec import SCHEMA, decode
from tests.golden.table_logs import FOLDER, chain_of, contests, outcome

PATHS = sorted(FOLDER.glob("*.json"))
every_log = pytest.mark.parametrize("name", [path.name for path in PATHS])


class Stored:
    """A log as it is in the repository."""

    def __init__(self, name: str) -> None:
        content = json.loads((FOLDER / name).read_text())
        self.game_id = UUID(content["game_id"])
        self.rows = [(kinds, base64.b64decode(payload)) for kinds, payload in content["rows"]]
        self.chain = bytes.fromhex(content["chain"])
        self.outcome: dict[str, Any] = content["outcome"]
        self.commits: list[Commit] = [
            decode(version, payload, self.game_id.bytes) for version, (_, payload) in enumerate(self.rows, start=1)
        ]

    def fold(self) -> Table:
        """The table at the end."""
        table: Table | None = None
        for commit in self.commits:
            table = domain.apply(table, commit)
        assert table is not None
        return table


def assert_contains(now: Any, then: Any) -> None:
    """What was saved is still so; later code may know more."""
    if isinstance(then, dict):
        for key, content in then.items():
            assert_contains(now[key], content)
    elif isinstance(then, list):
        assert len(now) == len(then)
        for one, other in zip(now, then, strict=True):
            assert_contains(one, other)
    else:
        assert now == then


@every_log
def test_log_folds_to_its_outcome(name: str) -> None:
    stored = Stored(name)
    table = stored.fold()
    assert_contains(json.loads(json.dumps(outcome(table.created, table))), stored.outcome)


@every_log
def test_stored_bytes_have_their_chain(name: str) -> None:
    """The payloads are those that were stored, and the chain is computed over them as it was."""
    stored = Stored(name)
    assert chain_of(stored.game_id, stored.rows) == stored.chain


@every_log
def test_kinds_are_those_of_the_events(name: str) -> None:
    stored = Stored(name)
    assert [int(kinds_of(commit)) for commit in stored.commits] == [kinds for kinds, _ in stored.rows]


@every_log
def test_packs_follow_from_the_stored_secret(name: str) -> None:
    stored = Stored(name)
    table = stored.fold()
    deals = [event for commit in stored.commits for event in commit.events if isinstance(event, Dealt)]
    deck = table.game.deck(len(table.occupants))
    assert [deal.pack for deal in deals] == [table.chance.shuffled("deal", deal.deal, deck) for deal in deals]


def test_every_variant_and_mode_has_a_log() -> None:
    names = {path.stem for path in PATHS}
    assert {contest.name for contest in contests()} <= names, "run: python -m tests.golden.table_logs"
    assert {Stored(path.name).fold().created.mode for path in PATHS} == set(Mode)


def test_every_kind_of_event_of_a_game_is_in_some_log() -> None:
    kinds = Kind(0)
    for path in PATHS:
        for kind, _ in Stored(path.name).rows:
            kinds |= Kind(kind)
    # A cancelled game has one commit, or is not played to an end.
    assert kinds == ~Kind.CANCELLED


def test_a_payload_of_a_later_schema_is_refused() -> None:
    """What this code does not know, it does not guess."""
    payload = bytes([0x08, SCHEMA + 1])
    with pytest.raises(ValueError, match="schema"):
        decode(1, payload, bytes(16))
