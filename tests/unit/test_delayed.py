"""A table as it was some time ago: what may be seen when follows from logged times alone."""

import random
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from services.table import domain
from services.table.app.delayed import LateTable
from services.table.domain import Commit, Step, Table
from tests.random_tables import VARIANTS, opened, play_on

DELAY_US = 60_000_000


def played(seed: int, steps: int) -> list[Step]:
    """A random game's beginning, or all of it."""
    chance = random.Random(seed)
    game = [opened(*chance.choice(VARIANTS), chance.randbytes(32))]
    while not game[-1].table.over and len(game) < steps:
        game.append(play_on(game[-1].table, chance))
    return game


def folded(commits: Sequence[Commit]) -> Table | None:
    """The table after these."""
    table = None
    for commit in commits:
        table = domain.apply(table, commit)
    return table


def test_a_commit_is_seen_when_the_delay_has_passed_and_not_before() -> None:
    first, second = played(0, 2)
    late = LateTable(DELAY_US)
    late.learn([first.commit, second.commit])
    assert list(late.advance(first.commit.decided_at_us + DELAY_US - 1)) == []
    assert (late.table, late.version, late.known_version) == (None, 0, 2)
    shown = list(late.advance(first.commit.decided_at_us + DELAY_US))
    assert [(each.before, each.commit) for each in shown] == [(None, first.commit)]
    assert (late.table, late.version) == (first.table, 1)
    assert list(late.advance(second.commit.decided_at_us + DELAY_US - 1)) == []
    assert [each.after for each in late.advance(second.commit.decided_at_us + DELAY_US)] == [second.table]


def test_no_commit_is_seen_before_its_predecessor() -> None:
    first, second = played(0, 2)
    # Decided by a host whose clock was a little behind.
    early = replace(second.commit, decided_at_us=first.commit.decided_at_us - 1_000)
    late = LateTable(DELAY_US)
    late.learn([first.commit, early])
    assert list(late.advance(first.commit.decided_at_us + DELAY_US - 1)) == []
    assert [each.commit.version for each in late.advance(first.commit.decided_at_us + DELAY_US)] == [1, 2]


def test_the_end_is_seen_late_too() -> None:
    game = played(1, 10_000)
    assert game[-1].table.over
    late = LateTable(DELAY_US)
    late.learn(step.commit for step in game)
    end_us = max(step.commit.decided_at_us for step in game) + DELAY_US
    list(late.advance(end_us - 1))
    assert late.version == game[-1].table.version - 1
    assert [each.after for each in late.advance(end_us)] == [game[-1].table]


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_what_is_seen_hangs_on_the_time_alone(seed: int, data: st.DataObject) -> None:
    """However it is read and looked at: two replicas show the same, and so does one that was restarted."""
    commits = [step.commit for step in played(seed, 60)]
    first_us, last_us = commits[0].decided_at_us, max(commit.decided_at_us for commit in commits)
    times = sorted(data.draw(st.lists(st.integers(first_us, last_us + 2 * DELAY_US), min_size=1, max_size=8)))
    late, seen = LateTable(DELAY_US), 0
    for now_us in times:
        # Read at least what was decided by now.
        decided = max((c.version for c in commits if c.decided_at_us <= now_us), default=0)
        known = data.draw(st.integers(max(decided, late.known_version), len(commits)))
        late.learn(commits[late.known_version : known])
        shown = [each.commit.version for each in late.advance(now_us)]
        assert shown == list(range(seen + 1, late.version + 1))
        seen = late.version
        allowed = [commit for commit in commits if commit.decided_at_us + DELAY_US <= now_us]
        assert seen <= len(allowed)
        # All that may be seen is, up to the first commit that may not.
        prefix = next((n for n, c in enumerate(commits) if c.decided_at_us + DELAY_US > now_us), len(commits))
        assert late.table == folded(commits[:prefix])
