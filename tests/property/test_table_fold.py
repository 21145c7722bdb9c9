"""A table folded from its log equals the live one at every version, and shows each viewer the same bytes."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.table import domain
from services.table.domain import OPEN, SPECTATOR, Table
from services.table.rpc.messages import CommitMessages, snapshot
from services.table.store.codec import decode, encode
from tests.random_tables import GAME_ID, VARIANTS, opened, play_on


@pytest.mark.parametrize(("game_type", "variant", "seats"), VARIANTS)
@settings(max_examples=4)
@given(seed=st.binary(min_size=32, max_size=32), course=st.integers(0, 2**32))
def test_fold_of_the_log_equals_the_live_table_at_every_version(
    game_type: str, variant: str, seats: int, seed: bytes, course: int
) -> None:
    chance = random.Random(course)
    step = opened(game_type, variant, seats, seed)
    folded: Table | None = None
    before: Table | None = None
    while True:
        commit = decode(step.commit.version, encode(step.commit), GAME_ID)
        assert commit == step.commit
        after = domain.apply(folded, commit)
        assert after == step.table
        for viewer in (0, seats - 1, SPECTATOR, OPEN):
            live = CommitMessages(before, step.commit, step.table).message(viewer)
            assert live == CommitMessages(folded, commit, after).message(viewer)
        viewer = chance.choice((SPECTATOR, *range(seats)))
        assert snapshot(step.table, viewer) == snapshot(after, viewer)
        folded, before = after, step.table
        if step.table.over:
            break
        step = play_on(step.table, chance)
    assert step.table.finished is not None
    assert len(step.table.finished.seats) == seats
