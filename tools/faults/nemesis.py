"""Carries a schedule of faults out on the world, and keeps the record of what was out and when."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from tools.faults.history import Died, History, Outage
from tools.faults.schedule import Deed, Fault
from tools.faults.world import World, now_us

SLOW_SECONDS_MAX: Final = 0.4
ANSWERS_LOST_MAX: Final = 4
WATCH_SECONDS: Final = 0.2


class Nemesis:
    """One round's."""

    def __init__(self, world: World, history: History, chance: random.Random) -> None:
        self._world = world
        self._history = history
        self._chance = chance
        # One deed at a time for each process: while it starts again it cannot be killed.
        self._hands: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def carry_out(self, faults: Sequence[Fault]) -> None:
        """All faults, each at its time; when they are over, all is mended."""
        watch = asyncio.create_task(self._watch())
        try:
            await asyncio.gather(*map(self._carry_out, faults))
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch
        self._note_deaths()
        await self._world.mend()

    async def _carry_out(self, fault: Fault) -> None:
        await asyncio.sleep(fault.at_seconds)
        match fault.deed:
            case Deed.KILL | Deed.STALL | Deed.STALL_AND_KILL | Deed.DELETE_STORE:
                async with self._hands[fault.target], self._noted(fault):
                    await self._harm_process(fault)
            case Deed.DELETE_STREAM:
                async with self._noted(fault):
                    await self._world.delete_stream()
            case _:
                async with self._noted(fault):
                    await self._harm_link(fault)

    @asynccontextmanager
    async def _noted(self, fault: Fault) -> AsyncIterator[None]:
        began_us = now_us()
        try:
            yield
        finally:
            self._history.add(Outage(fault.target, fault.deed.value, began_us, now_us()))

    async def _harm_process(self, fault: Fault) -> None:
        match fault.deed:
            case Deed.STALL:
                self._world.stall(fault.target)
                await asyncio.sleep(fault.seconds)
                self._world.wake(fault.target)
                return
            case Deed.STALL_AND_KILL:
                self._world.stall(fault.target)
                await asyncio.sleep(fault.seconds)
                self._world.kill(fault.target)
            case _:
                self._world.kill(fault.target)
                if fault.deed is Deed.DELETE_STORE:
                    self._world.delete_store()
                await asyncio.sleep(fault.seconds)
        await self._world.restart(fault.target)

    async def _harm_link(self, fault: Fault) -> None:
        link = self._world.links[fault.target]
        match fault.deed:
            case Deed.CUT:
                link.cut(lambda: self._chance.random() < fault.force)
                return
            case Deed.LOSE_ANSWERS:
                link.lose_answers(1 + int(fault.force * ANSWERS_LOST_MAX))
                return
            case Deed.CLOSE:
                link.close()
            case Deed.HOLD | Deed.HOLD_AND_CUT:
                link.hold()
            case Deed.SLOW:
                link.slow_down(fault.force * SLOW_SECONDS_MAX)
        await asyncio.sleep(fault.seconds)
        if fault.deed is Deed.HOLD_AND_CUT:
            # What waited in it is lost.
            link.cut()
        link.mend()

    async def _watch(self) -> None:
        """Start again what ended by itself, as `up` would."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for name in self._note_deaths():
                async with self._hands[name]:
                    await self._world.bring_back(name)

    def _note_deaths(self) -> list[str]:
        died = self._world.died()
        for name, code in died.items():
            self._history.add(Died(now_us(), name, code))
        return list(died)
