"""Two games that differ only in cards hidden from a viewer give that viewer the same bytes, at every version.

The twin of a game is made by a permutation of cards: all that the viewer has seen by then keeps its place, the other
cards (other hands, the rest of the pack, an unseen discard) change theirs. What is said goes for seats and spectators,
for snapshots, commits and refusals.
"""

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from rules.cards import Card, members
from rules.game import Dealt, Rejection, Seat
from rules.moves import CARD_END, DISCARD, MOVE_END
from services.table import domain
from services.table.app.delayed import LateTable
from services.table.domain import OPEN, SPECTATOR, Commit, Decider, Moved, Step, Table, Viewer
from services.table.rpc.messages import CommitMessages, snapshot
from tests.random_tables import VARIANTS, opened, play_on

# With each try the twin may differ from the game for as long as before, or a little shorter.
TRIES = 40
DELAY_US = 30_000_000


def played(game_type: str, variant: str, seats: int, seed: bytes, chance: random.Random, deals: int) -> list[Step]:
    """A game, with random moves, until so many deals are scored."""
    steps = [opened(game_type, variant, seats, seed)]
    while not steps[-1].table.over and len(steps[-1].table.own) < deals:
        steps.append(play_on(steps[-1].table, chance))
    return steps


def dealings(steps: list[Step]) -> list[int]:
    """Where the deals begin."""
    return [i for i, step in enumerate(steps) if any(isinstance(event, Dealt) for event in step.commit.events)]


def seen_cards(steps: list[Step], dealing: int, end: int, viewer: Viewer) -> set[Card]:
    """Cards of a deal whose place the viewer knows before `end`: the own hand, the turned one, and those played."""
    table = steps[dealing].table
    view = table.game.view(table.play, viewer if viewer >= 0 else None)
    seen = set(members(view.hand))
    if view.turned is not None:
        seen.add(view.turned)
    for step in steps[dealing + 1 : end]:
        for each in step.commit.events:
            if isinstance(each, Moved) and each.move < CARD_END:
                seen.add(each.move)
    return seen


def twin_commit(commit: Commit, places: Mapping[Card, Card]) -> Commit:
    """The commit with the cards changed; what is public in it stays the same, because public cards keep their place."""
    events: list[domain.Event] = []
    for each in commit.events:
        match each:
            case Dealt(deal, dealer, pack):
                events.append(Dealt(deal, dealer, tuple(places.get(card, card) for card in pack)))
            case Moved(seat, move, decider) if move >= DISCARD:
                card = move - DISCARD
                events.append(Moved(seat, DISCARD + places.get(card, card), decider))
            case _:
                events.append(each)
    return replace(commit, events=tuple(events))


def twin_of(steps: list[Step], dealing: int, end: int, places: Mapping[Card, Card]) -> list[Step] | None:
    """The game up to `end` with the cards of one deal changed; None if a move in it were not allowed in the twin."""
    before = steps[dealing - 1].table if dealing else None
    twins: list[Step] = []
    for step in steps[dealing:end]:
        commit = step.commit
        # The cards of the next deal, in the last commit of this one, are the same.
        changed = twin_commit(commit, places) if step is steps[dealing] or not has_dealt(commit) else commit
        for each in changed.events:
            if isinstance(each, Moved):
                assert before is not None
                if not before.legal >> each.move & 1:
                    return None
        before = domain.apply(before, changed)
        twins.append(Step(changed, before))
    return twins


def has_dealt(commit: Commit) -> bool:
    """Whether a deal begins in this commit."""
    return any(isinstance(event, Dealt) for event in commit.events)


def refusal_to(table: Table, seat: Seat, move: int) -> Rejection | None:
    """What a move of this seat is refused with, if it is."""
    answer = domain.move(table, seat, move, Decider.PERSON, table.opened_at_us)
    return answer if isinstance(answer, Rejection) else None


def sent_late(steps: list[Step], before: Table | None, now_us: int) -> list[bytes]:
    """What the spectators of a delayed game are sent by a time, who have seen the table before these steps."""
    late = LateTable(DELAY_US)
    late.table, late.known_version = before, 0 if before is None else before.version
    late.learn(step.commit for step in steps)
    sent = []
    for shown in late.advance(now_us):
        sent.append(CommitMessages(shown.before, shown.commit, shown.after).message(SPECTATOR))
        sent.append(snapshot(shown.after, SPECTATOR))
    return sent


def assert_same_for(viewer: Viewer, steps: list[Step], twins: list[Step], dealing: int, chance: random.Random) -> None:
    """The viewer is sent the same bytes for both."""
    before = twin_before = steps[dealing - 1].table if dealing else None
    for step, twin in zip(steps[dealing:], twins, strict=False):
        message = CommitMessages(before, step.commit, step.table).message(viewer)
        assert message == CommitMessages(twin_before, twin.commit, twin.table).message(viewer)
        assert snapshot(step.table, viewer) == snapshot(twin.table, viewer)
        if viewer >= 0:
            for move in chance.sample(range(MOVE_END), 5):
                assert refusal_to(step.table, viewer, move) == refusal_to(twin.table, viewer, move)
        before, twin_before = step.table, twin.table


def assert_same_delayed(steps: list[Step], twins: list[Step], dealing: int, chance: random.Random) -> None:
    """Delayed, the two are the same as well: at any time, although what is not shown yet differs all the more."""
    before = steps[dealing - 1].table if dealing else None
    mine = steps[dealing : dealing + len(twins)]
    now_us = chance.choice(mine).commit.decided_at_us + DELAY_US
    sent = sent_late(mine, before, now_us)
    assert sent and sent == sent_late(twins, before, now_us)


@pytest.mark.parametrize(("game_type", "variant", "seats"), VARIANTS)
@settings(max_examples=8)
@given(seed=st.binary(min_size=32, max_size=32), course=st.integers(0, 2**32))
def test_twin_deals_give_a_viewer_the_same_bytes(
    game_type: str, variant: str, seats: int, seed: bytes, course: int
) -> None:
    chance = random.Random(course)
    steps = played(game_type, variant, seats, seed, chance, deals=chance.randrange(1, 6))
    for viewer in (*range(seats), SPECTATOR):
        starts = dealings(steps)
        dealing = chance.choice(starts[:-1] or starts)
        last = next((start + 1 for start in starts if start > dealing), len(steps))
        end = chance.randint(dealing + 1, last)
        hidden: list[Card] = []
        for _ in range(TRIES):
            pack = next(each for each in steps[dealing].commit.events if isinstance(each, Dealt)).pack
            hidden = sorted(set(pack) - seen_cards(steps, dealing, end, viewer))
            changed = chance.sample(hidden, len(hidden))
            twins = twin_of(steps, dealing, end, dict(zip(hidden, changed, strict=True)))
            if twins is not None and changed != hidden:
                event(f"twin for {'all' if end == last else 'a part'} of a deal")
                assert_same_for(viewer, steps, twins, dealing, chance)
                if viewer == SPECTATOR:
                    assert_same_delayed(steps, twins, dealing, chance)
                break
            # All the cards may be seen by then, or what was played may tell too much.
            end = max(dealing + 1, end - 1)
        else:
            # Only where nothing at all is hidden from the start.
            assert len(hidden) < 2


def test_twins_differ_in_what_is_hidden() -> None:
    """The test above compares different games: with all hands shown their bytes differ."""
    steps = played("romanian_whist", "8-1-8", 4, bytes(32), random.Random(0), deals=1)
    pack = next(each for each in steps[0].commit.events if isinstance(each, Dealt)).pack
    hidden = sorted(set(pack) - seen_cards(steps, 0, 1, 0))
    twins = twin_of(steps, 0, 1, dict(zip(hidden, hidden[1:] + hidden[:1], strict=True)))
    assert twins is not None
    mine = CommitMessages(None, steps[0].commit, steps[0].table)
    twin = CommitMessages(None, twins[0].commit, twins[0].table)
    for viewer in (1, 2, 3, OPEN):
        assert mine.message(viewer) != twin.message(viewer)
    assert mine.message(0) == twin.message(0)
