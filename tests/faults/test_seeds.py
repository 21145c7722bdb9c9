"""A fixed few of the rounds of `levata faults`: real processes, killed, stalled and cut off; no promise is broken."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tools.faults.checker import check
from tools.faults.rounds import play_round
from tools.faults.schedule import Plan, draw
from tools.faults.world import World

TABLES = 2
# Short ones, with these services: answers lost on three ways, and a host that is stalled and then dies; a host killed
# while the other one loses its connections.
SEEDS = [827, 1105]
# With entries of three people, and the ledger killed early, and stalled and killed late.
MONEY_SEED = 86
# A host stalled while Postgres is killed; then the end of a week, at which one league is killed and the other stalled.
WEEK_SEED = 803
# With five people who look for tables, and a replica of the matchmaker stalled for long, and then killed.
MATCHES_SEED = 2813


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """The backend, for all rounds."""
    async with World(tmp_path_factory.mktemp("world with a blank"), TABLES) as world:
        yield world


def plan(world: World, seed: int, *, money: bool = False, matches: bool = False, weeks: bool = False) -> Plan:
    """What the seed stands for, with these parts of it."""
    return draw(seed, list(world.processes), list(world.links), money=money, matches=matches, weeks=weeks)


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("seed", SEEDS)
async def test_round_keeps_every_promise(world: World, seed: int) -> None:
    evidence = await play_round(world, plan(world, seed))
    assert check(evidence) == []
    assert evidence.games


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_round_with_money_keeps_every_promise(world: World) -> None:
    evidence = await play_round(world, plan(world, MONEY_SEED, money=True))
    assert check(evidence) == []
    # Somebody entered, somebody got an entry back, and a game was paid for.
    assert {move.kind for move in evidence.ledger.moves} >= {"pending", "post", "void"}
    assert evidence.ledger.settled


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
# Tables are dealt after ten seconds, and people look for several.
async def test_round_with_matches_keeps_every_promise(world: World) -> None:
    evidence = await play_round(world, plan(world, MATCHES_SEED, matches=True))
    assert check(evidence) == []
    # Tables became games, and these were paid for.
    kinds = {fact.subject.split(".")[2] for fact in evidence.facts["matchmaker"]}
    assert kinds >= {"opened", "seated", "started"}
    assert evidence.ledger.settled


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
# Services are started twice.
async def test_round_in_which_a_week_ends_keeps_every_promise(world: World) -> None:
    evidence = await play_round(world, plan(world, WEEK_SEED, weeks=True))
    assert check(evidence) == []
    assert evidence.weeks.ended in [close.week for close in evidence.weeks.closes]
