"""News of balances: nobody whose money moved is forgotten, whatever fails, and those who move often go together."""

import asyncio
from collections.abc import Collection
from uuid import UUID

import pytest

from services.ledger.app import news
from services.ledger.app.news import News
from services.ledger.app.ports import Owned
from tests.facts import until

ALICE, BOB, CAROL = (UUID(int=number, version=4) for number in (1, 2, 3))


class Readings:
    """Stands for the ledger and for the clients: what was read, and what was told."""

    def __init__(self) -> None:
        self.failing = False
        self.read: list[set[UUID]] = []
        self.told: list[tuple[UUID, int]] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def of(self, accounts: Collection[UUID]) -> list[Owned]:
        self.read.append(set(accounts))
        number = len(self.read)
        await self.may_go_on.wait()
        if self.failing:
            raise OSError("the ledger is away")
        return [Owned(account, number, {}) for account in accounts]

    def tell(self, owned: Owned) -> None:
        self.told.append((owned.account, owned.number))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "PAUSE_SECONDS", 0.01)


async def test_who_moves_while_others_are_read_is_told_with_the_next_reading() -> None:
    readings = Readings()
    telling = News(readings, readings)
    await telling.start()
    readings.may_go_on.clear()
    telling.moved([ALICE])
    await until(lambda: readings.read == [{ALICE}])
    # What was read of her may be from before.
    telling.moved([ALICE, BOB])
    telling.moved([BOB, CAROL])
    readings.may_go_on.set()
    await until(lambda: len(readings.told) == 4)
    assert readings.read == [{ALICE}, {ALICE, BOB, CAROL}]
    assert readings.told[0] == (ALICE, 1)
    assert set(readings.told[1:]) == {(ALICE, 2), (BOB, 2), (CAROL, 2)}
    await telling.stop()


async def test_what_cannot_be_read_now_is_told_later() -> None:
    readings = Readings()
    telling = News(readings, readings)
    await telling.start()
    readings.failing = True
    telling.moved([ALICE])
    await until(lambda: len(readings.read) > 2)
    assert readings.told == []
    readings.failing = False
    await until(lambda: len(readings.told) == 1)
    await telling.stop()


async def test_no_more_accounts_wait_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "WAITING_ACCOUNTS_MAX", 2)
    readings = Readings()
    telling = News(readings, readings)
    telling.moved([ALICE, BOB])
    telling.moved([CAROL])
    await telling.start()
    await until(lambda: len(readings.told) == 2)
    assert readings.read == [{ALICE, BOB}]
    await telling.stop()
