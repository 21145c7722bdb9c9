"""Entries of quick-play games in a real Postgres: held together, and ended by what became of the game alone."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from levata.ledger.v1 import entries_pb2
from levata.table.v1 import facts_pb2

from chassis.database import Pool, open_pool
from chassis.errors import Refused
from services.ledger.app.entries import Asked, EntryDesk
from services.ledger.domain.entries import Entrant, RoomTerms
from services.ledger.domain.journal import Balance, Currency
from services.ledger.rpc.entries import EntriesApi
from services.ledger.store.entries import PostgresEntries
from tests.conftest import Database
from tests.ledger import began, cancelled, entry_desk, give, has, tell

ALICE, BOB, CAROL = (UUID(int=number, version=4) for number in (1, 2, 3))
ROOMS = {1: RoomTerms(0, 0, 300), 2: RoomTerms(200, 0, 500), 11: RoomTerms(250_000, 10, 625_000)}
# What the calls of this service never look at.
NO_CALL: Any = None
COIN, GOLD, COFFEE = Currency.COIN, Currency.GOLD, Currency.COFFEE_2


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    async with await open_pool(database.dsn("ledger"), "test") as pool:
        yield pool


@pytest.fixture
def desk(pool: Pool) -> EntryDesk:
    return entry_desk(pool, ROOMS)


def refusals(entrants: Sequence[Entrant]) -> list[Currency | None]:
    return [entrant.refusal for entrant in entrants]


async def test_each_is_accepted_or_refused_for_what_there_is_too_little_of(pool: Pool, desk: EntryDesk) -> None:
    await give(pool, ALICE, 200)
    await give(pool, BOB, 300_000)
    game_id = uuid4()
    asked = [Asked(ALICE, 2, None), Asked(BOB, 11, None), Asked(CAROL, 1, None)]
    entrants = await desk.hold(game_id, asked)
    assert refusals(entrants) == [None, GOLD, None]
    assert [entrant.terms.prize for entrant in entrants] == [500, 625_000, 300]
    assert (await has(pool, ALICE), await has(pool, BOB)) == (Balance(200, 200), Balance(300_000))


async def test_a_purse_has_what_is_free(pool: Pool, desk: EntryDesk) -> None:
    await give(pool, ALICE, 500)
    await give(pool, ALICE, 1, COFFEE)
    await desk.hold(uuid4(), [Asked(ALICE, 2, None)])
    assert await desk.purses([ALICE, BOB]) == {ALICE: {COIN: 300, COFFEE: 1}, BOB: {}}


async def test_an_entry_of_coins_gold_and_coffee_is_one(pool: Pool, desk: EntryDesk) -> None:
    await give(pool, ALICE, 250_000)
    await give(pool, ALICE, 10, GOLD)
    assert refusals(await desk.hold(uuid4(), [Asked(ALICE, 11, COFFEE)])) == [COFFEE]
    assert (await has(pool, ALICE), await has(pool, ALICE, GOLD)) == (Balance(250_000), Balance(10))
    await give(pool, ALICE, 1, COFFEE)
    assert refusals(await desk.hold(uuid4(), [Asked(ALICE, 11, COFFEE)])) == [None]
    assert await has(pool, ALICE, COFFEE) == Balance(1, 1)


async def test_what_is_held_is_taken_from_those_who_are_seated_when_the_game_begins(
    pool: Pool, desk: EntryDesk
) -> None:
    game_id = uuid4()
    for account in (ALICE, BOB):
        await give(pool, account, 500)
    await desk.hold(game_id, [Asked(ALICE, 2, None), Asked(BOB, 2, None), Asked(CAROL, 1, None)])
    for _ in range(2):
        await tell(pool, began(game_id, [ALICE, CAROL]))
        assert (await has(pool, ALICE), await has(pool, BOB)) == (Balance(300), Balance(500))
    # Later it moves nothing that was held, only gives back what was taken.
    for _ in range(2):
        await tell(pool, cancelled(game_id, version=9))
        assert (await has(pool, ALICE), await has(pool, BOB)) == (Balance(500), Balance(500))


async def test_a_game_that_never_began_takes_nothing(pool: Pool, desk: EntryDesk) -> None:
    game_id = uuid4()
    await give(pool, ALICE, 500)
    await desk.hold(game_id, [Asked(ALICE, 2, None)])
    for _ in range(2):
        await tell(pool, cancelled(game_id))
        assert await has(pool, ALICE) == Balance(500)


async def test_a_repeated_hold_gets_the_first_answer_whatever_the_balances_are_by_then(
    pool: Pool, desk: EntryDesk
) -> None:
    game_id, asked = uuid4(), [Asked(ALICE, 2, None), Asked(BOB, 2, None)]
    await give(pool, ALICE, 200)
    first = await desk.hold(game_id, asked)
    assert refusals(first) == [None, COIN]
    await give(pool, BOB, 1000)
    assert await desk.hold(game_id, asked) == first
    await tell(pool, began(game_id, [ALICE]))
    assert await desk.hold(game_id, asked) == first
    assert (await has(pool, ALICE), await has(pool, BOB)) == (Balance(), Balance(1000))


async def test_games_whose_entries_are_held_in_one_call_are_answered_each_for_itself(
    pool: Pool, desk: EntryDesk
) -> None:
    await give(pool, ALICE, 200)
    over, fresh, twice = uuid4(), uuid4(), uuid4()
    await tell(pool, cancelled(over))
    request = entries_pb2.HoldAllRequest()
    for game_id, accounts in ((over, [ALICE]), (fresh, [ALICE, BOB]), (twice, [BOB, BOB])):
        entrants = [entries_pb2.Entrant(account_id=str(account), room=2) for account in accounts]
        request.games.add(game_id=str(game_id), entrants=entrants)
    api = EntriesApi(desk)
    for _ in range(2):
        settled, held, refused = (await api.hold_all(request, NO_CALL)).games
        assert Refused.from_status(settled.refusal).reason == "GAME_SETTLED"
        assert [entrant.refusal for entrant in held.held.entrants] == ["", "INSUFFICIENT_COINS"]
        assert Refused.from_status(refused.refusal).reason == "ENTERED_TWICE"
    assert await has(pool, ALICE) == Balance(200, 200)


async def test_many_holds_of_the_same_game_at_once_are_one(pool: Pool, desk: EntryDesk) -> None:
    game_id = uuid4()
    await give(pool, ALICE, 200)
    answers = await asyncio.gather(*(desk.hold(game_id, [Asked(ALICE, 2, None)]) for _ in range(50)))
    assert {each.refusal for (each,) in answers} == {None}
    assert await has(pool, ALICE) == Balance(200, 200)


async def test_of_twenty_games_for_the_same_coins_one_gets_them(pool: Pool, desk: EntryDesk) -> None:
    await give(pool, ALICE, 200)
    answers = await asyncio.gather(*(desk.hold(uuid4(), [Asked(ALICE, 2, None)]) for _ in range(20)))
    assert sorted(str(each.refusal) for (each,) in answers) == sorted(["None", *["coin"] * 19])
    assert await has(pool, ALICE) == Balance(200, 200)


async def test_other_entrants_of_the_same_game_are_refused(desk: EntryDesk) -> None:
    game_id = uuid4()
    await desk.hold(game_id, [Asked(ALICE, 1, None)])
    with pytest.raises(Refused, match="HOLD_REUSED"):
        await desk.hold(game_id, [Asked(BOB, 1, None)])


@pytest.mark.parametrize("end", [cancelled, lambda game_id: began(game_id, [])])
async def test_nothing_is_held_once_the_end_is_known(
    pool: Pool, desk: EntryDesk, end: Callable[[UUID], facts_pb2.GameFact]
) -> None:
    game_id = uuid4()
    await give(pool, ALICE, 200)
    await tell(pool, end(game_id))
    with pytest.raises(Refused, match="GAME_SETTLED"):
        await desk.hold(game_id, [Asked(ALICE, 2, None)])
    assert await has(pool, ALICE) == Balance(200)


async def test_a_hold_and_the_games_end_at_the_same_moment_leave_nothing_held(pool: Pool, desk: EntryDesk) -> None:
    await give(pool, ALICE, 200)
    for _ in range(30):
        game_id = uuid4()
        held, _ = await asyncio.gather(
            desk.hold(game_id, [Asked(ALICE, 2, None)]), tell(pool, cancelled(game_id)), return_exceptions=True
        )
        assert isinstance(held, tuple) or (isinstance(held, Refused) and held.reason == "GAME_SETTLED")
        assert await has(pool, ALICE) == Balance(200)


async def test_holds_without_an_end_are_found_for_settlement(pool: Pool, desk: EntryDesk) -> None:
    waiting, ended = uuid4(), uuid4()
    for game_id in (waiting, ended):
        await desk.hold(game_id, [Asked(ALICE, 1, None)])
    await tell(pool, began(ended, [ALICE]))
    entries = PostgresEntries(pool)
    assert (await entries.unsettled(0, 10), await entries.unsettled_count(0)) == ([waiting], 1)
    assert (await entries.unsettled(120, 10), await entries.unsettled_count(120)) == ([], 0)
    # It is still one of them when it was asked about, but is left alone for a while.
    await entries.asked(waiting, 600)
    assert (await entries.unsettled(0, 10), await entries.unsettled_count(0)) == ([], 1)
    await entries.asked(waiting, 0)
    assert await entries.unsettled(0, 10) == [waiting]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [([Asked(ALICE, 1, None), Asked(ALICE, 2, None)], "ENTERED_TWICE"), ([Asked(ALICE, 12, None)], "NO_SUCH_ROOM")],
)
async def test_what_makes_no_sense_is_refused(desk: EntryDesk, asked: list[Asked], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        await desk.hold(uuid4(), asked)
