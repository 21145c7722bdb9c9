"""Readings that many ask for are done together, and never answer with what was read too early."""

import asyncio

import pytest

from chassis.gathered import KEYS_AT_ONCE, Gathered


class Shelf:
    """What is read, as it is when the reading begins."""

    def __init__(self) -> None:
        self.value = 0
        self.readings: list[list[str]] = []
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def read(self, keys: list[str]) -> dict[str, int]:
        self.readings.append(keys)
        value = self.value
        await self.goes_on.wait()
        if "bad" in keys:
            raise ValueError("bad")
        return dict.fromkeys(keys, value)


async def test_those_who_ask_together_are_answered_by_one_reading() -> None:
    shelf = Shelf()
    gathered = Gathered(shelf.read)
    assert await asyncio.gather(*map(gathered.of, "abab")) == [0, 0, 0, 0]
    assert shelf.readings == [["a", "b"]]


async def test_who_asks_during_a_reading_is_answered_by_the_next_one() -> None:
    shelf = Shelf()
    gathered = Gathered(shelf.read)
    shelf.goes_on.clear()
    early = asyncio.create_task(gathered.of("a"))
    while not shelf.readings:
        await asyncio.sleep(0)
    shelf.value = 1
    late = [asyncio.create_task(gathered.of(key)) for key in "ab"]
    await asyncio.sleep(0)
    shelf.goes_on.set()
    assert (await early, await asyncio.gather(*late)) == (0, [1, 1])
    assert shelf.readings == [["a"], ["a", "b"]]


async def test_a_reading_has_a_bound() -> None:
    shelf = Shelf()
    gathered = Gathered(shelf.read)
    await asyncio.gather(*(gathered.of(str(number)) for number in range(KEYS_AT_ONCE + 1)))
    assert [len(keys) for keys in shelf.readings] == [KEYS_AT_ONCE, 1]


async def test_what_a_reading_raises_goes_to_all_who_asked_and_to_nobody_else() -> None:
    shelf = Shelf()
    gathered = Gathered(shelf.read)
    answers = await asyncio.gather(*map(gathered.of, ("a", "bad", "b")), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ValueError] * 3
    assert await gathered.of("a") == 0


async def test_who_leaves_takes_nobody_along() -> None:
    shelf = Shelf()
    gathered = Gathered(shelf.read)
    shelf.goes_on.clear()
    tasks = [asyncio.create_task(gathered.of("a")) for _ in range(3)]
    while not shelf.readings:
        await asyncio.sleep(0)
    tasks[0].cancel()
    shelf.goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert await asyncio.gather(*tasks[1:]) == [0, 0]
