"""The audit on a real Postgres: nothing to say of a ledger that followed the facts, and every forgery told of."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import date
from uuid import UUID, uuid4

import asyncpg
import pytest
from levata.table.v1 import facts_pb2

from chassis.database import Pool, open_pool
from chassis.facts import FactLog, publish
from chassis.log import NewFact
from services.ledger.app.entries import Asked
from services.ledger.app.operations import Audited, EntryDifference
from services.ledger.app.refunds import RefundDesk
from services.ledger.consumers import games
from services.ledger.consumers.audit import Audit
from services.ledger.domain.catalogue import RefundTerms
from services.ledger.domain.journal import Cause, CauseKind, House, Transfer, posted
from services.ledger.store.games import keep_edition
from services.ledger.store.journal import put_down
from services.ledger.store.refunds import PostgresRefunds
from tests.conftest import Database
from tests.ledger import (
    CATALOGUE,
    CLASSIC,
    COIN,
    DOUBLE,
    EDITION,
    analysed,
    cancelled,
    deal_scored,
    entry_desk,
    finished,
    give,
    of_six,
    quick_play_created,
    seat,
)

MOVE = """
    insert into consumer_checkpoint (consumer, source, incarnation, last) values ($1, 'GAMES', $2, $3)
    on conflict (consumer) do update set last = excluded.last"""
# Facts have the time of now, and each day may be given back.
GENEROUS = replace(CATALOGUE, refunds=(RefundTerms(date.min, 99, vip_days_only=False),))


@dataclass
class Wiring:
    """The games' log, and a ledger that hears it."""

    table: Pool
    ledger: Pool
    admin_dsn: str

    async def tell(self, *facts: facts_pb2.GameFact) -> None:
        """Facts of games, and their effects: as the consumer does it, with the checkpoint."""
        async with self.table.acquire() as session, session.transaction():
            last = await publish(
                session,
                [
                    NewFact(f"levata.games.{fact.WhichOneof('kind')}.{fact.game_id}", fact.SerializeToString())
                    for fact in facts
                ],
            )
        page = await FactLog(self.table).read(last - len(facts))
        for fact in page.facts:
            async with self.ledger.acquire() as session, session.transaction():
                await session.execute(MOVE, games.CONSUMER, page.head.incarnation, fact.number)
                await games.Effects(EDITION).apply(session, fact)

    async def audit(self) -> tuple[list[EntryDifference], Audited]:
        """All of it."""
        audit = Audit(FactLog(self.table), self.ledger, EDITION)
        steps = [step async for step in audit.run()]
        assert isinstance(steps[-1], Audited)
        return [step for step in steps if isinstance(step, EntryDifference)], steps[-1]

    async def play(self, account: UUID, *, place: int = 3, deals: int = 0, coach: int | None = None) -> UUID:
        """A classic game from the entry to the analysis."""
        game_id = uuid4()
        seats = of_six(seat(account, place, room=2, coffee=DOUBLE))
        (entrant,) = await entry_desk(self.ledger).hold(game_id, [Asked(account, 2, DOUBLE)])
        assert entrant.refusal is None
        facts = [quick_play_created(game_id, seats, CLASSIC)]
        facts += [deal_scored(game_id, number) for number in range(deals)]
        facts += [finished(game_id, seats, CLASSIC)]
        facts += [] if coach is None else [analysed(game_id, coach)]
        await self.tell(*facts)
        return game_id

    async def forge(self, *statements: str) -> None:
        """Past all guards."""
        operator = await asyncpg.connect(self.admin_dsn, server_settings={"session_replication_role": "replica"})
        for statement in statements:
            await operator.execute(f"set search_path = ledger; {statement}")
        await operator.close()


@pytest.fixture
async def wiring(database: Database) -> AsyncIterator[Wiring]:
    async with AsyncExitStack() as stack:
        table = await stack.enter_async_context(await open_pool(database.dsn("table"), "test"))
        ledger = await stack.enter_async_context(await open_pool(database.dsn("ledger"), "test"))
        await keep_edition(ledger, EDITION)
        yield Wiring(table, ledger, database.admin_dsn)


async def rich(wiring: Wiring) -> UUID:
    account = uuid4()
    await give(wiring.ledger, account, 10_000)
    await give(wiring.ledger, account, 50, DOUBLE)
    return account


def refund_desk(wiring: Wiring) -> RefundDesk:
    return RefundDesk(PostgresRefunds(wiring.ledger), GENEROUS, lambda: 0)


async def test_nothing_is_found_in_a_ledger_that_followed_the_facts(wiring: Wiring) -> None:
    alice = await rich(wiring)
    # 14 good deals and the coach; taken back; taken back before the analysis; not over; broken off; never begun.
    await wiring.play(alice, deals=14, coach=91)
    refunds = refund_desk(wiring)
    await refunds.refund(alice, await wiring.play(alice, place=4, coach=91), uuid4())
    taken_back = await wiring.play(alice, place=5, deals=7)
    await refunds.refund(alice, taken_back, uuid4())
    await wiring.tell(analysed(taken_back, 100))
    seats = of_six(seat(alice, 1, room=2))
    for ends in ((), (cancelled,)):
        game_id = uuid4()
        await entry_desk(wiring.ledger).hold(game_id, [Asked(alice, 2, None)])
        await wiring.tell(quick_play_created(game_id, seats), *(end(game_id, version=9) for end in ends))
    never = uuid4()
    await entry_desk(wiring.ledger).hold(never, [Asked(alice, 2, None)])
    await wiring.tell(cancelled(never))

    differences, audited = await wiring.audit()
    assert differences == []
    # Entries 5, prizes 1, rows 2, coach 2, refunds 2, given back 1, the day's first game 1.
    assert (audited.games, audited.entries, audited.parked) == (6, 14, 0)


async def test_every_forgery_is_told_of(wiring: Wiring) -> None:
    alice = await rich(wiring)
    more, gone, moved, extra = [await wiring.play(alice, deals=7, coach=95) for _ in range(4)]
    refunded = await wiring.play(alice, place=4)
    await refund_desk(wiring).refund(alice, refunded, uuid4())
    number = "number = (select number from entry where key = '{}')".format
    await wiring.forge(
        f"update transfer set amount = amount + 1 where {number(f'prize:{more}:0')}",
        f"delete from transfer where {number(f'coach:{gone}:0')}",
        f"update transfer set debit = '{House.GRANTS.value}' where {number(f'good_play:{moved}:0')}",
        f"update transfer set amount = 7 where {number(f'refund:{refunded}:{alice}')} and currency = 'coin'",
    )
    forged = Transfer(House.PRIZES.value, alice, COIN, 99)
    unknown = uuid4()
    async with wiring.ledger.acquire() as session, session.transaction():
        await put_down(
            session,
            [
                posted(f"prize:{extra}:5", Cause(CauseKind.GAME, str(extra), "prize"), [forged]),
                posted(f"prize:{unknown}:0", Cause(CauseKind.GAME, str(unknown), "prize"), [forged]),
                posted("first_game:1999-01-01:x", Cause(CauseKind.DAY, "1999-01-01", "first_game"), [forged]),
            ],
        )

    differences, audited = await wiring.audit()
    told = {each.key: (_amounts(each.expected), _amounts(each.found)) for each in differences}
    assert audited.differences == len(differences) == len(told)
    assert told == {
        f"prize:{more}:0": ([550], [551]),
        f"coach:{gone}:0": ([1, 2], None),
        f"good_play:{moved}:0": ([1, 2], [1, 2]),
        f"refund:{refunded}:{alice}": ([1, 200], [1, 7]),
        f"prize:{extra}:5": (None, [99]),
        f"prize:{unknown}:0": (None, [99]),
        "first_game:1999-01-01:x": (None, [99]),
    }


async def test_a_game_that_was_never_settled_is_told_of(wiring: Wiring) -> None:
    alice = await rich(wiring)
    game_id = await wiring.play(alice, place=1)
    day = await wiring.ledger.fetchval("select cause_id from entry where what = 'first_game'")
    await wiring.forge(
        "delete from transfer where number in (select number from entry where what in ('prize', 'first_game'))",
        "delete from entry where what in ('prize', 'first_game')",
        f"delete from settled_seat where game_id = '{game_id}'",
        f"delete from settled_game where game_id = '{game_id}'",
    )
    differences, _ = await wiring.audit()
    assert {each.key: each.found for each in differences} == {
        f"prize:{game_id}:0": None,
        f"first_game:{day}:{alice}": None,
    }


async def test_money_that_moves_meanwhile_is_no_difference(wiring: Wiring) -> None:
    alice = await rich(wiring)

    await wiring.play(alice)

    async def play() -> None:
        for _ in range(10):
            await wiring.play(alice, deals=1)

    playing = asyncio.create_task(play())
    audits = 0
    while not playing.done():
        differences, _ = await wiring.audit()
        assert differences == []
        audits += 1
    await playing
    assert audits > 2


async def test_a_forgery_is_told_of_while_money_goes_on_moving(wiring: Wiring) -> None:
    alice, bob = await rich(wiring), await rich(wiring)
    forged = await wiring.play(alice, place=1)

    async def play() -> None:
        for _ in range(10):
            await wiring.play(bob, deals=1)

    playing = asyncio.create_task(play())
    prize = f"prize:{forged}:0"
    await wiring.forge(
        f"update transfer set amount = 1001 where number = (select number from entry where key = '{prize}')"
    )
    audits = 0
    while not playing.done() or not audits:
        differences, _ = await wiring.audit()
        assert [(each.key, _amounts(each.expected), _amounts(each.found)) for each in differences] == [
            (prize, [1_000], [1_001])
        ]
        audits += 1
    await playing


def _amounts(transfers: Sequence[Transfer] | None) -> list[int] | None:
    return None if transfers is None else sorted(t.amount for t in transfers)
