"""Places are counted with blocks of scores: whatever comes, they are those that Postgres' own rank() gives."""

import random
from uuid import UUID

import pytest

from chassis.database import Pool, open_pool
from chassis.facts import Fact
from services.league.domain.boards import league_board
from services.league.domain.classes import LeagueClass
from services.league.projections import scores
from services.league.store.standings import PostgresStandings
from tests.conftest import Database
from tests.league import MONDAY, hear_ledger, prize_paid, refunded

BOARD = league_board(MONDAY, LeagueClass.JACK)
_RANKED = """
    select rank() over (order by points desc, reached_us, account_id) as place, account_id, points, reached_us
    from score where build = (select build from live_build) order by place"""


@pytest.mark.parametrize("seed", range(3))
async def test_everybodys_place_and_neighbours_are_those_of_rank(
    database: Database, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    # Small, so that many are begun, cut and emptied.
    monkeypatch.setattr(scores, "BLOCK_SCORES", 4)
    monkeypatch.setattr(scores, "BLOCK_SCORES_MAX", 8)
    chance = random.Random(seed)
    accounts = [UUID(int=chance.getrandbits(128), version=4) for _ in range(120)]
    async with await open_pool(database.dsn("league"), "test", connections_max=2) as pool:
        won: list[Fact] = []
        for _ in range(6):
            facts = [
                prize_paid(number, chance.choice(accounts), chance.choice((1, 2, 300)), seconds=chance.randint(0, 3))
                for number in range(len(won) + 1, len(won) + 61)
            ]
            back = [refunded(1_000 + fact.number, fact) for fact in chance.sample(won, len(won) // 4)]
            won += facts
            await hear_ledger(pool, facts + back)
            await _assert_ranked(pool, accounts, chance)


async def _assert_ranked(pool: Pool, accounts: list[UUID], chance: random.Random) -> None:
    standings = PostgresStandings(pool)
    ranked = [tuple(row) for row in await pool.fetch(_RANKED)]
    at = {account: number for number, (_, account, *_) in enumerate(ranked)}
    for account in accounts:
        neighbours = chance.randint(0, 20)
        around = await standings.around(BOARD, account, neighbours)
        own = at.get(account)
        expected = [] if own is None else ranked[max(0, own - neighbours) : own + neighbours + 1]
        assert [tuple(line) for line in around.lines] == expected
        assert around.players == len(ranked)
    limit = chance.randint(1, 100)
    assert [tuple(line) for line in (await standings.top(BOARD, limit)).lines] == ranked[:limit]
