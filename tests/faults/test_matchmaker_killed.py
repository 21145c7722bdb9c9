"""The replica that forms the tables is killed or stopped in the middle of a deal: its players play, once."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable

import pytest
from levata.matchmaker.v1 import facts_pb2

from chassis.auth import KeyFiles
from services.ledger.domain.journal import Currency
from tests.conftest import Database
from tests.matchmaking import DEALING, PATIENCE_SECONDS, PLAYING, POLL_SECONDS, Backend, Player, start_backend
from tools.up.service import ServiceProcess

SEATS = 4
GAME = "klaverjas"
FORMS = "forms the tables"
POOL = "pool=amsterdam"
FENCED = "another replica forms the tables"


@pytest.fixture
async def backend(
    start_service: Callable[..., ServiceProcess], database: Database, keys: KeyFiles
) -> AsyncIterator[Backend]:
    running = start_backend(start_service, database, keys, replicas=2)
    async with running.attended():
        yield running


async def forming(backend: Backend) -> int:
    """Which replica forms the tables of the game."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for number, process in enumerate(backend.processes["matchmaker"]):
                words = process.log_path.read_text().splitlines()
                if any(FORMS in line and POOL in line for line in words):
                    return number
            await asyncio.sleep(POLL_SECONDS)


async def in_the_middle_of_a_deal(backend: Backend, other: int) -> list[Player]:
    """Four players whose entries are held, and whose game cannot be created for the time being."""
    players = [backend.player(replica=other) for _ in range(SEATS)]
    for player in players:
        await backend.give(player, 1, Currency.COFFEE_2)
    *first, last = players
    for player in first:
        await player.enqueue(1, GAME, coffee="coffee_2")
    # Its game is prepared by now. It is dealt a second after it is full, when nobody answers.
    table = await players[0].has_table()
    send(backend.processes["table"][0], signal.SIGSTOP)
    await last.enqueue(1, GAME, coffee="coffee_2")
    await players[0].becomes(DEALING)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await backend.rows("ledger", "select from entrant where game_id = $1", table.game_id):
            await asyncio.sleep(POLL_SECONDS)
    return players


def send(process: ServiceProcess, number: signal.Signals) -> None:
    os.killpg(process.child.pid, number)


async def check(backend: Backend, players: list[Player]) -> None:
    """All of them play one game that was begun once, and each has paid for it once."""
    tickets = await asyncio.gather(*(player.becomes(PLAYING) for player in players))
    (game_id,) = {ticket.game_id for ticket in tickets}
    rows = await backend.rows("matchmaker", "select payload from facts order by fact_no")
    facts = [facts_pb2.TableFact.FromString(row["payload"]) for row in rows]
    assert [fact.started.game_id for fact in facts if fact.WhichOneof("kind") == "started"] == [game_id]
    assert len(await backend.rows("matchmaker", "select from ticket")) == SEATS
    assert not await backend.rows("matchmaker", "select from quick_table")
    async with asyncio.timeout(PATIENCE_SECONDS):
        # What was held is taken as soon as the ledger has heard of the game.
        while await backend.rows("ledger", "select from balance where held <> 0"):
            await asyncio.sleep(POLL_SECONDS)
    accounts = [player.account for player in players]
    query = "select sum(posted)::int as left from balance where account = any($1) and currency = 'coffee_2'"
    assert [row["left"] for row in await backend.rows("ledger", query, accounts)] == [0]


async def test_a_former_that_dies_between_hold_and_create_is_replaced(backend: Backend) -> None:
    victim = await forming(backend)
    players = await in_the_middle_of_a_deal(backend, 1 - victim)
    send(backend.processes["matchmaker"][victim], signal.SIGKILL)
    send(backend.processes["table"][0], signal.SIGCONT)
    await check(backend, players)


async def test_a_former_that_stands_still_and_goes_on_changes_nothing(backend: Backend) -> None:
    victim = await forming(backend)
    players = await in_the_middle_of_a_deal(backend, 1 - victim)
    send(backend.processes["matchmaker"][victim], signal.SIGSTOP)
    send(backend.processes["table"][0], signal.SIGCONT)
    await check(backend, players)
    send(backend.processes["matchmaker"][victim], signal.SIGCONT)
    # It finds its turn over, and seats nobody a second time.
    late = backend.player(replica=1 - victim)
    await late.enqueue(1, GAME)
    table = await late.has_table()
    rows = await backend.rows("matchmaker", "select payload from facts where subject like $1", f"%{table.table_id}")
    kinds = [facts_pb2.TableFact.FromString(row["payload"]).WhichOneof("kind") for row in rows]
    assert sorted(map(str, kinds)) == ["opened", "seated"]
    log_path = backend.processes["matchmaker"][victim].log_path
    async with asyncio.timeout(PATIENCE_SECONDS):
        while FENCED not in log_path.read_text():
            await asyncio.sleep(POLL_SECONDS)
