"""A round: people play game after game while everything around them fails; then all is well again, and they finish."""

import asyncio
import random
from typing import Final

from tools.faults.evidence import Evidence, collect, marks
from tools.faults.history import Complained, History, Phase
from tools.faults.nemesis import Nemesis
from tools.faults.parties import FriendlyParty, Party, QuickParty, WinnersParty
from tools.faults.schedule import Plan
from tools.faults.seekers import SeekersParty
from tools.faults.world import World, now_us

# From the end of the faults to the end of all games: take-overs, and decisions that are left to the clock.
SETTLE_SECONDS: Final = 45.0
# Who still looks for a table then waits for others to come, and plays one more game; a slow machine takes its time.
SEARCH_SECONDS: Final = 45.0
# Before a week ends accounts are made, and a first game is played in it.
PREPARE_SECONDS: Final = 5.0


async def play_round(world: World, plan: Plan) -> Evidence:
    """Play a plan; answers with all that is left of it."""
    history = History()
    since = await marks(world)
    ends_us = None
    if plan.week is not None:
        ends_us = await world.come_to_end_of_week(PREPARE_SECONDS + plan.week.at_seconds)
    calm = asyncio.Event()
    parties: list[Party] = [
        FriendlyParty(world, history, random.Random(f"{plan.seed}/{number}"), calm, party)
        for number, party in enumerate(plan.parties)
    ]
    if plan.quick is not None:
        parties.append(QuickParty(world, history, random.Random(f"{plan.seed}/quick"), calm, plan.quick))
    if plan.search is not None:
        parties.append(SeekersParty(world, history, random.Random(f"{plan.seed}/search"), calm, plan.search))
    if plan.week is not None:
        parties.append(WinnersParty(world, history, random.Random(f"{plan.seed}/week"), calm, plan.week.winners))
    for party in parties:
        await party.prepare()
    if plan.week is not None and ends_us is not None:
        await asyncio.sleep((ends_us - now_us()) / 1_000_000 - plan.week.at_seconds)
    history.add(Phase(now_us(), "faults"))
    playing = [asyncio.create_task(party.play()) for party in parties]
    await Nemesis(world, history, random.Random(plan.seed)).carry_out(plan.faults)
    calm.set()
    history.add(Phase(now_us(), "calm"))
    settle_seconds = SETTLE_SECONDS + (SEARCH_SECONDS if plan.search is not None else 0)
    _, late = await asyncio.wait(playing, timeout=settle_seconds)
    for task in late:
        task.cancel()
    for problem in await asyncio.gather(*playing, return_exceptions=True):
        if isinstance(problem, BaseException):
            history.add(Complained(now_us(), "a party", repr(problem)))
    history.add(Phase(now_us(), "games over"))
    for party in parties:
        await party.sign_in_again()
    return await collect(world, history, since, ends_us)
