"""A matchmaker says in health when deals are held up, and when they are not any more."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from chassis.figures import Histogram
from chassis.rpc import Server
from chassis.tasks import end
from services.matchmaker import figures
from services.matchmaker.app.dealing import Dealing
from services.matchmaker.app.friendly import FriendlyTables
from services.matchmaker.app.outcomes import Outcomes
from services.matchmaker.app.ports import Dealt
from services.matchmaker.domain.quick_play import POOLS, QuickTable
from services.matchmaker.figures import HEALTH, MatchmakerCollector


class AnyService:
    """Whatever else is asked for is not used here."""

    def __getattr__(self, name: str) -> Any:
        async def unused(*_: Any) -> Any:
            raise AssertionError(name)

        return unused


class SlowStore(AnyService):
    """A database in which a deal's row is read when the test says so; nobody is at the table any more then."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()

    async def dealt(self, table_ids: Sequence[UUID]) -> Sequence[Sequence[Dealt]]:
        await self.answers.wait()
        return [()] * len(table_ids)


class HealthOnly:
    """Of a server what is told of health."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bool]] = []

    async def set_health(self, name: str, serving: bool) -> None:
        self.told.append((name, serving))


@asynccontextmanager
async def telling(collector: MatchmakerCollector, server: HealthOnly) -> AsyncIterator[None]:
    task = asyncio.create_task(collector.keep_health(cast(Server, server)))
    yield
    await end(task)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_deal_that_is_held_up_is_told_in_health_until_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "HELD_UP_SECONDS", 0.05)
    monkeypatch.setattr(figures, "LOOK_SECONDS", 0.005)
    store, other, server = SlowStore(), cast(Any, AnyService()), HealthOnly()
    dealing = Dealing(cast(Any, store), other, other, other, lambda: 0)
    tables = FriendlyTables(other, other, other, lambda: 0, gone_seconds=60, answers_seconds=1)
    collector = MatchmakerCollector([], dealing, tables)
    async with telling(collector, server):
        await until(lambda: server.told == [(HEALTH, True)])
        ended: list[UUID] = []
        table = QuickTable(uuid4(), POOLS[0], 1, 0.5, 0)
        dealing.deal(table, lambda table_id, _: ended.append(table_id))
        # The same deal once more is the same deal.
        dealing.deal(table, lambda table_id, _: ended.append(table_id))
        assert dealing.under_way == 1
        await until(lambda: server.told[1:] == [(HEALTH, False)])
        assert dealing.oldest_seconds > 0.05
        store.answers.set()
        await until(lambda: server.told[2:] == [(HEALTH, True)])
    assert ended == [table.table_id]
    assert (dealing.under_way, dealing.oldest_seconds) == (0, 0)
    await dealing.stop()


def test_a_game_is_counted_for_each_player_and_once_for_its_table() -> None:
    outcomes = Outcomes()
    outcomes.add_started(20_000_000, [10_000_000, 19_500_000], None)
    assert (outcomes.started, sum(outcomes.wish_seconds.counts), sum(outcomes.full_seconds.counts)) == (1, 2, 0)
    assert outcomes.wish_seconds.total == 10.5
    outcomes.add_started(20_000_000, [], 19_800_000)
    assert outcomes.full_seconds.total == pytest.approx(0.2)
    assert up_to(outcomes.full_seconds, 0.3) == 1


def up_to(histogram: Histogram, bound: float) -> int:
    """How many values are at most so big."""
    return sum(histogram.counts[: histogram.bounds.index(bound) + 1])
