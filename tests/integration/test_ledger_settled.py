"""Whether a week's games are paid for, as the league asks it: not before it is so, and with what was left out."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from uuid import UUID, uuid4

import pytest
from levata.table.v1 import facts_pb2

from chassis import bus
from chassis.database import Pool, open_pool
from chassis.errors import Refused
from chassis.facts import Consumer, FactLog, discard, publish, request_retry
from chassis.log import NewFact
from services.ledger.app.settlement import Stand, settled
from services.ledger.consumers import games
from services.ledger.store.followed import PostgresFollowed
from services.ledger.store.games import keep_edition
from tests.conftest import Database
from tests.facts import until
from tests.ledger import EDITION, finished, of_six, quick_play_created, seat
from tools.embedded.nats import EmbeddedNats

Tell = Callable[..., Awaitable[int]]
Ask = Callable[[int], Awaitable[Stand]]


@pytest.fixture
async def ledger(database: Database) -> AsyncIterator[Pool]:
    async with await open_pool(database.dsn("ledger"), "test") as pool:
        await keep_edition(pool, EDITION)
        yield pool


@pytest.fixture
async def table(database: Database) -> AsyncIterator[Pool]:
    async with await open_pool(database.dsn("table"), "test") as pool:
        yield pool


@pytest.fixture
def tell(table: Pool) -> Tell:
    """Facts of games; answers the last one's number."""

    async def tell(*facts: facts_pb2.GameFact) -> int:
        told = [
            NewFact(f"levata.games.{fact.WhichOneof('kind')}.{fact.game_id}", fact.SerializeToString())
            for fact in facts
        ]
        async with table.acquire() as session, session.transaction():
            return await publish(session, told)

    return tell


@pytest.fixture
async def consumer(ledger: Pool, table: Pool, nats: EmbeddedNats) -> AsyncIterator[Consumer]:
    """The one of the service, which the test starts."""
    async with AsyncExitStack() as stack:
        client = await bus.connect(nats.url("ledger"), "test")
        stack.push_async_callback(client.close)
        consumer = games.consumer(FactLog(table), ledger, client, EDITION)
        stack.push_async_callback(consumer.stop)
        yield consumer


@pytest.fixture
def ask(ledger: Pool, table: Pool) -> Ask:
    """As the league does."""

    async def ask(games_fact: int) -> Stand:
        head = await FactLog(table).head()
        return await settled(PostgresFollowed(ledger, games.CONSUMER), head.incarnation, games_fact)

    return ask


def won(account: UUID) -> list[facts_pb2.GameFact]:
    """A quick-play game of room 2 that brings 500 coins."""
    game_id, seats = uuid4(), of_six(seat(account, 1))
    return [quick_play_created(game_id, seats), finished(game_id, seats)]


def broken(game_id: UUID) -> facts_pb2.GameFact:
    """One that this program cannot settle."""
    return finished(game_id, of_six(seat(uuid4(), 1)), of=("chess", "standard"))


async def test_an_answer_comes_when_the_facts_have_had_their_effects_and_not_before(
    ledger: Pool, tell: Tell, consumer: Consumer, ask: Ask
) -> None:
    with pytest.raises(Refused, match="NOT_YET"):
        await ask(0)
    last = await tell(*won(uuid4()), *won(uuid4()))
    await consumer.start()
    await until(lambda: consumer.status.checkpoint == last)
    own = await FactLog(ledger).head()
    # One fact of the ledger for each prize.
    assert await ask(last) == Stand((await ask(0)).games_incarnation, last, own.incarnation, 2, [])
    with pytest.raises(Refused, match="NOT_YET"):
        await ask(last + 1)


async def test_facts_that_are_parked_are_told_of_until_they_have_had_their_effect(
    ledger: Pool, tell: Tell, consumer: Consumer, ask: Ask
) -> None:
    stuck, waiting = uuid4(), uuid4()
    last = await tell(broken(stuck), *won(uuid4()), broken(waiting), broken(stuck))
    beyond = await tell(broken(uuid4()))
    await consumer.start()
    await until(lambda: consumer.status.checkpoint == beyond)
    answer = await ask(last)
    assert answer.last == 1
    assert answer.parked == [(1, str(stuck), False), (4, str(waiting), False), (5, str(stuck), False)]
    assert [fact.number for fact in (await ask(3)).parked] == [1]

    async with ledger.acquire() as session:
        assert await discard(session, games.CONSUMER, 4, "of a game that nobody knows")
        assert await request_retry(session, games.CONSUMER, str(stuck)) == 2
    assert (4, str(waiting), True) in (await ask(last)).parked


async def test_another_log_than_the_one_that_was_heard_is_refused(ledger: Pool, tell: Tell, consumer: Consumer) -> None:
    last = await tell(*won(uuid4()))
    await consumer.start()
    await until(lambda: consumer.status.checkpoint == last)
    with pytest.raises(Refused, match="INCARNATION_CHANGED"):
        await settled(PostgresFollowed(ledger, games.CONSUMER), uuid4(), last)
