"""The ledger against a model that a child could keep, on a real Postgres.

Random grants and purchases, entries that are held for games which begin, are cancelled before or cancelled later, the
same again, transactions that break off, many at once, and rebuilds: after each step balances are the model's, and each
currency sums to zero.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from chassis.database import Pool, open_pool
from services.ledger import projections
from services.ledger.app.entries import Asked
from services.ledger.domain.entries import RoomTerms
from services.ledger.domain.journal import Cause, CauseKind, Currency, Entry, House, Outcome, Transfer, posted
from services.ledger.store.journal import JournalWriter, put_down
from tests.conftest import Database
from tests.ledger import began, cancelled, entry_desk, tell

T = TypeVar("T")

ROOMS = {1: RoomTerms(0, 0, 300), 2: RoomTerms(20, 0, 50), 3: RoomTerms(50, 2, 90)}
WELCOME = Cause(CauseKind.GRANT, "test", "welcome")
PURCHASE = Cause(CauseKind.PURCHASE, "test", "coffee")
PEOPLE = 3

people = st.integers(0, PEOPLE - 1)
currencies = st.sampled_from([Currency.COIN, Currency.GOLD, Currency.COFFEE_2])
entrants = st.lists(
    st.tuples(people, st.sampled_from(list(ROOMS)), st.sampled_from([None, Currency.COFFEE_2])),
    min_size=1,
    max_size=PEOPLE,
    unique_by=lambda entrant: entrant[0],
)


@dataclass
class Held:
    """A game as the model knows it: what each accepted entrant pays."""

    asked: list[Asked]
    refused: list[bool]
    prices: dict[UUID, list[tuple[Currency, int]]]
    began: bool | None = None
    seated: set[UUID] = field(default_factory=set)
    returned: bool = False


class _BrokenOff(Exception):
    """A transaction that does not come to its end."""


class LedgerMachine(RuleBasedStateMachine):
    """One ledger, one model."""

    loop: asyncio.AbstractEventLoop
    pool: Pool

    def __init__(self) -> None:
        super().__init__()
        self.people = [uuid4() for _ in range(PEOPLE)]
        self.has: dict[tuple[UUID, Currency], int] = {}
        self.held: dict[tuple[UUID, Currency], int] = {}
        self.games: dict[UUID, Held] = {}
        self.entries: list[tuple[Entry, Outcome]] = []

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def available(self, slot: tuple[UUID, Currency]) -> int:
        return self.has.get(slot, 0) - self.held.get(slot, 0)

    async def put(self, entries: Sequence[Entry]) -> list[Outcome]:
        async with self.pool.acquire() as session, session.transaction():
            return [decided.outcome for decided in await put_down(session, entries)]

    @rule(person=people, currency=currencies, amount=st.integers(1, 100))
    def grant(self, person: int, currency: Currency, amount: int) -> None:
        account = self.people[person]
        entry = posted(f"{uuid4()}", WELCOME, [Transfer(House.GRANTS.value, account, currency, amount)])
        assert self.do(self.put([entry])) == [Outcome.DONE]
        self.has[account, currency] = self.has.get((account, currency), 0) + amount
        self.entries.append((entry, Outcome.DONE))

    @rule(person=people, gold=st.integers(1, 60), coins=st.integers(1, 60))
    def buy(self, person: int, gold: int, coins: int) -> None:
        """Two currencies in one entry: both or none."""
        account, shop = self.people[person], House.SHOP.value
        transfers = [Transfer(account, shop, Currency.GOLD, gold), Transfer(account, shop, Currency.COIN, coins)]
        entry = posted(f"{uuid4()}", PURCHASE, transfers)
        fits = all(self.available((account, t.currency)) >= t.amount for t in transfers)
        outcome = Outcome.DONE if fits else Outcome.INSUFFICIENT
        assert self.do(self.put([entry])) == [outcome]
        if fits:
            for t in transfers:
                self.has[account, t.currency] -= t.amount
            self.entries.append((entry, outcome))

    @rule(data=st.data())
    @precondition(lambda self: self.entries)
    def repeat(self, data: st.DataObject) -> None:
        entry, _ = data.draw(st.sampled_from(self.entries))
        other = posted(entry.key, entry.cause, [*entry.transfers, *entry.transfers])
        assert self.do(self.put([entry, other])) == [Outcome.SAME, Outcome.KEY_REUSED]

    @rule(person=people, amounts=st.lists(st.integers(1, 40), min_size=2, max_size=8))
    def spend_at_once(self, person: int, amounts: list[int]) -> None:
        """Through two writers, in whatever order: never more than there is, and none refused that would still fit."""
        account = self.people[person]
        before = self.available((account, Currency.COIN))

        async def race() -> list[Outcome]:
            async with JournalWriter(self.pool) as one, JournalWriter(self.pool) as other:
                entries = [
                    posted(f"{uuid4()}", PURCHASE, [Transfer(account, House.SHOP.value, Currency.COIN, amount)])
                    for amount in amounts
                ]
                writers = (one, other)
                decided = await asyncio.gather(*(writers[n % 2].post(entry) for n, entry in enumerate(entries)))
            return [each.outcome for each in decided]

        outcomes = self.do(race())
        spent = sum(amount for amount, outcome in zip(amounts, outcomes, strict=True) if outcome is Outcome.DONE)
        assert spent <= before
        refused = [amount for amount, outcome in zip(amounts, outcomes, strict=True) if outcome is not Outcome.DONE]
        assert all(amount > before - spent for amount in refused)
        if spent:
            self.has[account, Currency.COIN] -= spent

    @rule(asked=entrants)
    def hold(self, asked: list[tuple[int, int, Currency | None]]) -> None:
        game_id = uuid4()
        wanted = [Asked(self.people[person], room, coffee) for person, room, coffee in asked]
        held = Held(wanted, [], {})
        for each in wanted:
            terms = ROOMS[each.room]
            price = [(Currency.COIN, terms.coins), (Currency.GOLD, terms.gold)]
            price += [] if each.coffee is None else [(each.coffee, 1)]
            fits = all(self.available((each.account, currency)) >= amount for currency, amount in price)
            held.refused.append(not fits)
            if fits:
                held.prices[each.account] = price
                for currency, amount in price:
                    self.held[each.account, currency] = self.held.get((each.account, currency), 0) + amount
        self.games[game_id] = held
        self.check_hold(game_id)

    def check_hold(self, game_id: UUID) -> None:
        held = self.games[game_id]
        answer = self.do(entry_desk(self.pool, ROOMS).hold(game_id, held.asked))
        assert [each.refusal is not None for each in answer] == held.refused

    @rule(data=st.data())
    @precondition(lambda self: self.games)
    def hold_again(self, data: st.DataObject) -> None:
        self.check_hold(data.draw(st.sampled_from(list(self.games))))

    @rule(data=st.data(), seated=st.sets(people))
    @precondition(lambda self: self.games)
    def begin(self, data: st.DataObject, seated: set[int]) -> None:
        """The created fact; a second one, or one after the end is known, changes nothing."""
        game_id = data.draw(st.sampled_from(list(self.games)))
        held = self.games[game_id]
        if held.began is None:
            held.began, held.seated = True, {self.people[person] for person in seated}
            for account, price in held.prices.items():
                for currency, amount in price:
                    self.held[account, currency] -= amount
                    if account in held.seated:
                        # The first room's entry is nothing, also of who never had anything.
                        self.has[account, currency] = self.has.get((account, currency), 0) - amount
        elif held.began is False:
            # The log has one first commit: there is no such fact.
            return
        self.do(tell(self.pool, began(game_id, sorted(held.seated))))

    @rule(data=st.data())
    @precondition(lambda self: self.games)
    def cancel(self, data: st.DataObject) -> None:
        game_id = data.draw(st.sampled_from(list(self.games)))
        held = self.games[game_id]
        if held.began is None:
            held.began = False
            for account, price in held.prices.items():
                for currency, amount in price:
                    self.held[account, currency] -= amount
        elif held.began and not held.returned:
            held.returned = True
            for account in held.seated & held.prices.keys():
                for currency, amount in held.prices[account]:
                    self.has[account, currency] = self.has.get((account, currency), 0) + amount
        self.do(tell(self.pool, cancelled(game_id, version=9 if held.began else 1)))

    @rule(person=people)
    def break_off(self, person: int) -> None:
        """Whatever a transaction did that does not commit never was."""
        account = self.people[person]

        async def broken() -> None:
            async with self.pool.acquire() as session, session.transaction():
                entry = posted(f"{uuid4()}", WELCOME, [Transfer(House.GRANTS.value, account, Currency.COIN, 50)])
                await put_down(session, [entry])
                raise _BrokenOff

        with suppress(_BrokenOff):
            self.do(broken())

    @rule(dry_run=st.booleans())
    def rebuild(self, dry_run: bool) -> None:
        assert self.do(projections.rebuild(self.pool, dry_run=dry_run)).differences == ()

    @invariant()
    def balances_are_the_models(self) -> None:
        rows = self.do(
            self.pool.fetch("select account, currency, posted, held from balance where account = any($1)", self.people)
        )
        kept = {(row["account"], Currency(row["currency"])): (row["posted"], row["held"]) for row in rows}
        slots = self.has.keys() | self.held.keys() | kept.keys()
        model = {slot: (self.has.get(slot, 0), self.held.get(slot, 0)) for slot in slots}
        assert {slot: kept.get(slot, (0, 0)) for slot in slots} == model

    @invariant()
    def each_currency_sums_to_zero(self) -> None:
        query = "select currency from balance group by currency having sum(posted) <> 0"
        assert self.do(self.pool.fetch(query)) == []


@pytest.fixture
def wired(module_database: Database) -> Iterator[None]:
    """The machine's ledger."""
    loop = asyncio.new_event_loop()
    pool = loop.run_until_complete(open_pool(module_database.dsn("ledger"), "test"))
    LedgerMachine.loop, LedgerMachine.pool = loop, pool
    yield
    loop.run_until_complete(pool.close())
    loop.close()


def test_whatever_happens_the_ledger_is_what_the_model_says(wired: None) -> None:
    run_state_machine_as_test(
        LedgerMachine,
        settings=settings(
            max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
