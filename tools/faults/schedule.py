"""What goes wrong in a round, and who plays meanwhile: all of it drawn from the seed, and nothing else.

What a round with money has besides, people who enter quick-play games and faults of the ledger, is drawn from a stream
of its own, and so is what a round with matches has, people who look for tables and faults of the matchmaker, and what
one has in which a week ends: with it or without it a seed's other faults and parties are the same.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from rules.values import value
from tools.tables import Match

# When the first fault begins and the last one ends, in seconds of a round.
FIRST_SECONDS: Final = 0.4
LAST_SECONDS: Final = 7.0


class Deed(Enum):
    """One way for things to go wrong."""

    # To a process.
    KILL = "kill"
    STALL = "stall"
    STALL_AND_KILL = "stall, then kill"
    # To a link.
    CUT = "cut"
    CLOSE = "close"
    HOLD = "hold"
    HOLD_AND_CUT = "hold, then cut"
    SLOW = "slow"
    LOSE_ANSWERS = "lose answers"
    # To JetStream: its stream is deleted by an operator, or all its files are.
    DELETE_STREAM = "delete the stream"
    DELETE_STORE = "delete the store"


# Deeds that are over at once; what they did takes its time to mend by itself.
SUDDEN: Final = frozenset({Deed.CUT, Deed.LOSE_ANSWERS, Deed.DELETE_STREAM})


@value
class Fault:
    """A deed to a process or a link, named as the world names them."""

    at_seconds: float
    deed: Deed
    target: str
    # How long it lasts; for a process that is killed: how long it stays away.
    seconds: float
    # How bad it is, from 0 to 1: the share of connections, the delay.
    force: float


@value
class Habit:
    """How somebody plays."""

    # Over one bidirectional stream, or over Watch and Act.
    streams: bool
    # With a second device that looks on.
    second_device: bool
    think_seconds: float
    # How often a decision is left to the clock.
    sleeps: float
    # How far the own clock is ahead, and how often a decision waits for its deadline by that clock.
    clock_ahead_seconds: float
    dawdles: float


@value
class Party:
    """People who play one game after another with each other, as long as the faults go on."""

    match: Match
    solo: bool
    people: tuple[Habit, ...]
    has_spectator: bool


class Fate(Enum):
    """What becomes of a quick-play game once its entries are held."""

    PLAYED = "played"
    # Somebody tries to cancel it when it has begun, in vain.
    CANCELLED_LATE = "cancelled late"
    # Who opened it cancels it before it begins.
    CANCELLED = "cancelled"
    # Who opened it is gone before it begins.
    ABANDONED = "abandoned"
    # It is begun and cancelled at the same time.
    RACED = "raced"


@value
class Entry:
    """How somebody enters quick-play games."""

    habit: Habit
    room: int
    # Empty for none.
    coffee: str
    # Has nothing, and is refused.
    broke: bool


@value
class Quick:
    """People who enter one quick-play game after another, as long as the faults go on."""

    match: Match
    people: tuple[Entry, ...]
    # Of their games in this order; those that come after are played.
    fates: tuple[Fate, ...]


class Wish(Enum):
    """What somebody means to do who looks for a table."""

    PLAY = "play"
    # Think better of it after a while.
    CANCEL = "cancel"
    # Think better of it in the moment of the deal.
    CANCEL_AT_DEAL = "cancel at the deal"
    # Leave the game as soon as it begins, and look for another one.
    LEAVE = "leave"


@value
class Seeker:
    """How somebody looks for tables."""

    habit: Habit
    room: int
    # Empty for none.
    coffee: str
    # Asks from two devices at once.
    asks_twice: bool
    # What a search comes to, in this order; those that come after are played.
    wishes: tuple[Wish, ...]
    # From the ticket to the second thought.
    patience_seconds: float


@value
class Search:
    """People who look for tables at the matchmaker, one after another, as long as the faults go on."""

    match: Match
    people: tuple[Seeker, ...]


@value
class WeekEnd:
    """A week of the league that ends while everything fails."""

    # In seconds of the round.
    at_seconds: float
    # People who have addresses, and win prizes before and after it.
    winners: Quick


@value
class Plan:
    """A round."""

    seed: int
    faults: tuple[Fault, ...]
    parties: tuple[Party, ...]
    # None: no money moves.
    quick: Quick | None = None
    # None: nobody looks for a table.
    search: Search | None = None
    # None: no week ends.
    week: WeekEnd | None = None


# Short games most often: each is to end soon after the last fault.
_MATCHES: Final = {
    Match("romanian_whist", "quick", 6): 5,
    Match("euchre", "standard", 4): 3,
    Match("oh_hell", "standard", 3): 1,
    Match("klaverjas", "amsterdam", 4): 1,
}
# How often each comes up. What waits in something that then dies is where promises are lost.
_DEEDS: Final = {
    Deed.KILL: 4,
    Deed.STALL: 4,
    Deed.STALL_AND_KILL: 3,
    Deed.CUT: 2,
    Deed.CLOSE: 2,
    Deed.HOLD: 2,
    Deed.HOLD_AND_CUT: 3,
    Deed.SLOW: 1,
    Deed.LOSE_ANSWERS: 3,
    Deed.DELETE_STREAM: 1,
    Deed.DELETE_STORE: 1,
}
# Of a service that has faults drawn apart: JetStream is not its own.
_SERVICE_DEEDS: Final[Mapping[Deed, int]] = {
    deed: weight for deed, weight in _DEEDS.items() if deed not in (Deed.DELETE_STREAM, Deed.DELETE_STORE)
}
_QUICK_MATCHES: Final = {
    Match("romanian_whist", "quick", 6): 2,
    Match("euchre", "standard", 4): 2,
    Match("oh_hell", "standard", 4): 1,
}
_ROOMS: Final = (1, 2, 2, 3, 4, 11)
_COFFEES: Final = ("", "", "coffee_1_5", "coffee_2", "coffee_3", "coffee_5")
_FATES: Final = {Fate.PLAYED: 3, Fate.CANCELLED_LATE: 2, Fate.CANCELLED: 2, Fate.ABANDONED: 3, Fate.RACED: 3}
_FATES_COUNT: Final = 6
# Four are soon at a table, and these games are not long: who begins one when all is calm is waited for.
_SEARCH_MATCHES: Final = {
    Match("euchre", "standard", 4): 1,
    Match("oh_hell", "standard", 4): 1,
}
_SEARCH_ROOMS: Final = (1, 1, 2, 2, 3)
_WISHES: Final = {Wish.PLAY: 3, Wish.CANCEL: 2, Wish.CANCEL_AT_DEAL: 3, Wish.LEAVE: 3}
_WISHES_COUNT: Final = 5
# The shortest that there is. With so many people one of them at least comes before both bots, and on the podium.
_WINNERS_MATCH: Final = Match("romanian_whist", "quick", 6)
_WINNERS: Final = 4
_WEEK_ENDS: Final = 0.5
_WEEK_END_SECONDS: Final = (1.5, 4.5)
_LEDGER, _MATCHMAKER, _LEAGUE = "ledger", "matchmaker", "league"
# Came later than the first one, which has part in the faults of all rounds.
_SECOND_LEAGUE: Final = "league-2"
_PARTIES: Final = 4
_PEOPLE: Final = (1, 1, 2, 2, 2, 3)
_FAULTS: Final = (2, 5)
_LEDGER_FAULTS: Final = (0, 2)
_SEEKERS: Final = (4, 5, 6)
_MATCHMAKER_FAULTS: Final = (1, 3)
_LEAGUE_FAULTS: Final = (1, 3)


def draw(
    seed: int,
    processes: Sequence[str],
    links: Sequence[str],
    *,
    money: bool = True,
    matches: bool = True,
    weeks: bool = True,
) -> Plan:
    """The plan of a seed, for a world with these processes and links."""
    chance = random.Random(seed)
    faults = _faults(chance, _FAULTS, _DEEDS, _of_others(processes), _of_others(links))
    parties = tuple(_party(chance, number) for number in range(_PARTIES))
    quick, search, week = None, None, None
    if money:
        chance = random.Random(f"{seed}/money")
        quick = _quick(chance)
        faults += _faults(chance, _LEDGER_FAULTS, _SERVICE_DEEDS, _of(_LEDGER, processes), _of(_LEDGER, links))
    if matches:
        chance = random.Random(f"{seed}/matches")
        search = _search(chance)
        own = _of(_MATCHMAKER, processes), _of(_MATCHMAKER, links)
        faults += _faults(chance, _MATCHMAKER_FAULTS, _SERVICE_DEEDS, *own)
    if weeks:
        chance = random.Random(f"{seed}/weeks")
        if chance.random() < _WEEK_ENDS:
            week = _week_end(chance)
            own = _of(_LEAGUE, processes), _of(_LEAGUE, links)
            faults += _faults(chance, _LEAGUE_FAULTS, _SERVICE_DEEDS, *own, besides=faults)
    return Plan(seed, tuple(sorted(faults, key=lambda fault: fault.at_seconds)), parties, quick, search, week)


def _of(service: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if service in name]


def _of_others(names: Sequence[str]) -> list[str]:
    """Without those of the services that have faults drawn apart."""
    apart = (_LEDGER, _MATCHMAKER, _SECOND_LEAGUE)
    return [name for name in names if not any(service in name for service in apart)]


def _faults(
    chance: random.Random,
    count: tuple[int, int],
    deeds: Mapping[Deed, int],
    processes: Sequence[str],
    links: Sequence[str],
    besides: Sequence[Fault] = (),
) -> list[Fault]:
    faults: list[Fault] = []
    for _ in range(chance.randint(*count)):
        fault = _fault(chance, deeds, processes, links)
        if not any(_meet(fault, other) for other in (*besides, *faults)):
            faults.append(fault)
    return faults


def _fault(chance: random.Random, deeds: Mapping[Deed, int], processes: Sequence[str], links: Sequence[str]) -> Fault:
    deed = chance.choices(list(deeds), weights=list(deeds.values()))[0]
    match deed:
        case Deed.KILL | Deed.STALL | Deed.STALL_AND_KILL:
            target = _weighted(chance, processes)
        case Deed.DELETE_STREAM | Deed.DELETE_STORE:
            target = "nats"
        case _:
            target = _weighted(chance, links)
    at_seconds = chance.uniform(FIRST_SECONDS, LAST_SECONDS - 1.0)
    longest = LAST_SECONDS - at_seconds
    # Half are short hiccups, which nobody may notice; the others last long enough for games to be taken over.
    seconds = 0.0 if deed in SUDDEN else min(longest, chance.choice((chance.uniform(0.1, 1), chance.uniform(1, 6))))
    return Fault(round(at_seconds, 3), deed, target, round(seconds, 3), round(chance.random(), 3))


def _weighted(chance: random.Random, names: Sequence[str]) -> str:
    """A process or link: hosts of games matter most."""
    weights = [3 if "table" in name else 2 if name in ("postgres", "nats") else 1 for name in names]
    return chance.choices(names, weights=weights)[0]


def _meet(one: Fault, other: Fault) -> bool:
    """Whether two faults would be to the same thing at the same time."""
    if one.target != other.target:
        return False
    first, second = sorted((one, other), key=lambda fault: fault.at_seconds)
    return first.at_seconds + first.seconds + 0.5 > second.at_seconds


def _party(chance: random.Random, number: int) -> Party:
    solo = number == 0 and chance.random() < 0.5
    match = chance.choices(list(_MATCHES), weights=list(_MATCHES.values()))[0]
    people = tuple(_habit(chance) for _ in range(1 if solo else chance.choice(_PEOPLE)))
    return Party(match, solo, people, has_spectator=not solo and chance.random() < 0.4)


def _quick(chance: random.Random) -> Quick:
    match = chance.choices(list(_QUICK_MATCHES), weights=list(_QUICK_MATCHES.values()))[0]
    # The first of them can pay.
    people = tuple(_entry(chance, may_be_broke=number > 0) for number in range(chance.choice(_PEOPLE)))
    fates = tuple(chance.choices(list(_FATES), weights=list(_FATES.values()), k=_FATES_COUNT))
    return Quick(match, people, fates)


def _entry(chance: random.Random, *, may_be_broke: bool) -> Entry:
    return Entry(
        _habit(chance),
        chance.choice(_ROOMS),
        chance.choice(_COFFEES),
        broke=may_be_broke and chance.random() < 0.3,
    )


def _search(chance: random.Random) -> Search:
    match = chance.choices(list(_SEARCH_MATCHES), weights=list(_SEARCH_MATCHES.values()))[0]
    return Search(match, tuple(_seeker(chance) for _ in range(chance.choice(_SEEKERS))))


def _week_end(chance: random.Random) -> WeekEnd:
    # They play quickly, so that there are prizes on both sides of the end.
    habits = [
        replace(_habit(chance), second_device=False, think_seconds=0.01, sleeps=0.0, dawdles=0.0)
        for _ in range(_WINNERS)
    ]
    people = [Entry(habit, chance.choice(_ROOMS), chance.choice(_COFFEES), broke=False) for habit in habits]
    return WeekEnd(round(chance.uniform(*_WEEK_END_SECONDS), 3), Quick(_WINNERS_MATCH, tuple(people), fates=()))


def _seeker(chance: random.Random) -> Seeker:
    return Seeker(
        # Nothing is left to the clock: that of quick play takes too long for a round.
        replace(_habit(chance), sleeps=0.0),
        chance.choice(_SEARCH_ROOMS),
        chance.choice(_COFFEES),
        asks_twice=chance.random() < 0.4,
        wishes=tuple(chance.choices(list(_WISHES), weights=list(_WISHES.values()), k=_WISHES_COUNT)),
        patience_seconds=round(chance.choice((chance.uniform(0, 0.3), chance.uniform(0, 3))), 3),
    )


def _habit(chance: random.Random) -> Habit:
    return Habit(
        streams=chance.random() < 0.5,
        second_device=chance.random() < 0.4,
        think_seconds=round(chance.uniform(0.01, 0.15), 3),
        sleeps=chance.choice((0.0, 0.0, 0.03)),
        clock_ahead_seconds=chance.choice((0.0, round(chance.uniform(-600, 600), 1), round(chance.uniform(-2, 2), 1))),
        dawdles=chance.choice((0.0, 0.05)),
    )
