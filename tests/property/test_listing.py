"""A line about a game says what the game's own fold says, at every version."""

import random
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from services.table.app.listing import TELLING, Seating, summary
from services.table.domain import kinds_of
from tests.random_tables import GAME_ID, opened, play_on


@settings(max_examples=15)
@given(course=st.integers(0, 2**32))
def test_seats_are_those_of_the_table(course: int) -> None:
    chance = random.Random(course)
    step = opened("oh_hell", "standard", 5, bytes(32))
    telling = [step.commit]
    while True:
        table = step.table
        line = summary(UUID(bytes=GAME_ID), table.version, telling)
        seats = zip(table.occupants, table.away, table.left, strict=True)
        assert line.seats == tuple(Seating(occupant, away, left) for occupant, away, left in seats)
        assert [line.is_vacated(seat) for seat in range(5)] == [table.is_vacated(seat) for seat in range(5)]
        assert line.finished == table.finished
        for accounts in (*table.left, *([occupant.account] for occupant in table.occupants if occupant.account)):
            for account in accounts:
                assert line.has_seated(account)
                assert line.is_seated(account) == (table.seat_of(account) is not None)
        if table.over:
            return
        step = play_on(table, chance)
        if kinds_of(step.commit) & TELLING:
            telling.append(step.commit)
