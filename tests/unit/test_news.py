"""News of accounts: nobody for whom something changed is forgotten, whatever fails, and changes go together."""

import asyncio
from collections.abc import Collection
from uuid import UUID

import pytest

from chassis import news
from chassis.news import News
from tests.facts import until

ALICE, BOB, CAROL = (UUID(int=number, version=4) for number in (1, 2, 3))


class Readings:
    """Stands for a service and for the clients: what was read, and what was told."""

    def __init__(self) -> None:
        self.failing = False
        self.read: list[set[UUID]] = []
        self.told: list[tuple[UUID, int]] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def of(self, accounts: Collection[UUID]) -> list[tuple[UUID, int]]:
        self.read.append(set(accounts))
        number = len(self.read)
        await self.may_go_on.wait()
        if self.failing:
            raise OSError("the service is away")
        return [(account, number) for account in accounts]

    def tell(self, read: tuple[UUID, int]) -> None:
        self.told.append(read)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "PAUSE_SECONDS", 0.01)


async def test_who_moves_while_others_are_read_is_told_with_the_next_reading() -> None:
    readings = Readings()
    telling = News("readings", readings.of, readings.tell)
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
    telling = News("readings", readings.of, readings.tell)
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
    telling = News("readings", readings.of, readings.tell)
    telling.moved([ALICE, BOB])
    telling.moved([CAROL])
    await telling.start()
    await until(lambda: len(readings.told) == 2)
    assert readings.read == [{ALICE, BOB}]
    await telling.stop()
