"""Holds closed weeks against the ledger's facts: standings, classes and rewards, whatever the league went through.

All of it is of the world's whole life, and computed here once more by the words of the platform page.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Final

from levata.league.v1 import facts_pb2
from levata.ledger.v1 import facts_pb2 as ledger_facts_pb2

from rules.values import value
from tools.faults.evidence import Evidence, Placing, Reward, WeekClose

_CLASSES: Final = ("jack", "queen", "king", "ace")
# Coins and gold of the first three, and how many times as much a class has.
_REWARDS: Final = ((100_000, 50), (80_000, 30), (60_000, 10))
_TIMES: Final = {"jack": 1, "queen": 2, "king": 4, "ace": 12}


@value
class _Prize:
    """A prize that counts in the league."""

    fact: int
    account: str
    coins: int
    finished_at_us: int


@value
class _Standings:
    """A week as it was closed, or as it stands: accounts and points by class, the first one first."""

    week: date
    classes: dict[str, list[tuple[str, int]]]


def weeks_are_closed_once(evidence: Evidence) -> Iterator[str]:
    """Each week is closed once, one after another; the one that ended in the round is, and the league has told so."""
    weeks = [close.week for close in evidence.weeks.closes]
    first = weeks[0] if weeks else evidence.weeks.ended
    for number, week in enumerate(weeks):
        if first is not None and week != first + timedelta(days=7 * number):
            yield f"the week closed as number {number} is {week}"
    if evidence.weeks.ended is not None and evidence.weeks.ended not in weeks:
        yield f"week {evidence.weeks.ended} is over and not closed"
    told = [facts_pb2.LeagueFact.FromString(payload) for payload in evidence.weeks.told]
    if [fact.week for fact in told] != [week.isoformat() for week in weeks]:
        yield f"closed are {list(map(str, weeks))}, and told was {[fact.week for fact in told]}"
    for fact, close, standings in zip(told, evidence.weeks.closes, _closed(evidence), strict=False):
        closed = fact.week_closed
        if (closed.games_fact, closed.ledger_fact) != (close.games_fact, close.ledger_fact):
            yield f"week {close.week} was told to have counted other facts than it has"
        for each in closed.classes:
            ranked = standings.classes.get(each.name, [])
            if (each.counted, list(each.podium_account_ids)) != (len(ranked), [account for account, _ in ranked[:3]]):
                yield f"week {close.week}: {each.name} was closed as {each}, and should be {ranked}"


def standings_follow_from_the_ledger(evidence: Evidence) -> Iterator[str]:
    """Points and classes are what the ledger's prizes come to, week by week; and a rebuild makes the same of them."""
    expected = {
        Placing(standings.week, league_class, account, points)
        for standings in (*_closed(evidence), *_open(evidence))
        for league_class, ranked in standings.classes.items()
        for account, points in ranked
    }
    for placing in sorted(expected ^ evidence.weeks.placings, key=str):
        yield f"the league {'lacks' if placing in expected else 'made up'} {placing}"
    for difference in evidence.weeks.rebuilt:
        yield f"a rebuild of the league makes it otherwise: {difference}"


def rewards_are_paid_once(evidence: Evidence) -> Iterator[str]:
    """The first three of each class of each closed week have their reward, once."""
    expected: Counter[Reward] = Counter()
    for standings in _closed(evidence):
        for league_class, ranked in standings.classes.items():
            for (account, _), (coins, gold) in zip(ranked, _REWARDS, strict=False):
                for currency, amount in (("coin", coins), ("gold", gold)):
                    expected[Reward(standings.week, account, currency, amount * _TIMES[league_class])] += 1
    found = Counter(evidence.weeks.rewards)
    for reward in sorted((expected - found).elements(), key=str):
        yield f"the ledger lacks {reward}"
    for reward in sorted((found - expected).elements(), key=str):
        yield f"the ledger made up {reward}"


# What should be


def _closed(evidence: Evidence) -> list[_Standings]:
    """Every closed week, each with the classes that those before it led to."""
    class_of: dict[str, int] = {}
    standings = []
    counted = _counted(evidence)
    for close in evidence.weeks.closes:
        standings.append(_standings(close.week, counted[close.week], class_of))
        _move(standings[-1], class_of)
    return standings


def _open(evidence: Evidence) -> list[_Standings]:
    """Weeks that are not closed, by the classes of now."""
    class_of: dict[str, int] = {}
    for standings in _closed(evidence):
        _move(standings, class_of)
    closed = {close.week for close in evidence.weeks.closes}
    return [_standings(week, prizes, class_of) for week, prizes in _counted(evidence).items() if week not in closed]


def _counted(evidence: Evidence) -> defaultdict[date, list[_Prize]]:
    """Prizes by the week in which they count: their own, or the first after it that was not closed without them."""
    counted: defaultdict[date, list[_Prize]] = defaultdict(list)
    for fact in evidence.weeks.ledger_facts:
        told = ledger_facts_pb2.LedgerFact.FromString(fact.payload)
        assert not told.HasField("refunded"), "nobody takes an entry back in these rounds"
        if told.HasField("prize_paid") and not told.prize_paid.guest:
            paid = told.prize_paid
            week = _week_of(date.fromisoformat(paid.week), fact.number, evidence.weeks.closes)
            counted[week].append(_Prize(fact.number, told.account_id, paid.coins, paid.finished_at_us))
    return counted


def _week_of(week: date, fact: int, closes: Sequence[WeekClose]) -> date:
    for close in closes:
        if close.week >= week:
            week = close.week
            if fact <= close.ledger_fact and fact not in close.ledger_missing:
                return week
            week += timedelta(days=7)
    return week


def _standings(week: date, prizes: Sequence[_Prize], class_of: dict[str, int]) -> _Standings:
    won: defaultdict[str, list[_Prize]] = defaultdict(list)
    for prize in prizes:
        won[prize.account].append(prize)
    lines: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for account, own in won.items():
        points, last = sum(prize.coins for prize in own), max(prize.finished_at_us for prize in own)
        lines[_CLASSES[class_of.get(account, 0)]].append((-points, last, account))
    return _Standings(
        week, {name: [(account, -minus) for minus, _, account in sorted(each)] for name, each in lines.items()}
    )


def _move(standings: _Standings, class_of: dict[str, int]) -> None:
    """Who goes up, and who goes down."""
    for name, ranked in standings.classes.items():
        level, some = _CLASSES.index(name), len(ranked) // 5
        for number, (account, _) in enumerate(ranked):
            if number < max(3, some):
                class_of[account] = min(level + 1, len(_CLASSES) - 1)
            elif number >= len(ranked) - some:
                class_of[account] = max(level - 1, 0)
