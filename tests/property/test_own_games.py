"""Who has heard all news of a game knows what a snapshot of it would say, at every version."""

import random
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from services.table.app.listing import TELLING, summary
from services.table.app.own_games import OwnGame, in_summary, news_of
from services.table.domain import kinds_of
from tests.random_tables import GAME_ID, opened, play_on

GAME = UUID(bytes=GAME_ID)


@settings(max_examples=15)
@given(course=st.integers(0, 2**32))
def test_news_add_up_to_snapshots(course: int) -> None:
    chance = random.Random(course)
    step, before = opened("oh_hell", "standard", 5, bytes(32)), None
    telling = [step.commit]
    known: dict[str, OwnGame | None] = {}
    while True:
        for news in news_of(GAME, before, step.commit, step.table):
            assert (news.game_id, news.version) == (GAME, step.commit.version)
            known[news.account] = news.game
        line = summary(GAME, step.table.version, telling)
        assert known == {account: in_summary(line, account) for account in known}
        people = {occupant.account for occupant in step.table.occupants if occupant.account}
        seated = {account for account, game in known.items() if game is not None}
        assert seated == (set() if step.table.over else people)
        if step.table.over:
            return
        before = step.table
        step = play_on(before, chance)
        if kinds_of(step.commit) & TELLING:
            telling.append(step.commit)
