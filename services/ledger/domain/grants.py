"""What accounts are given for being there: the welcome, Monday's coffees, and the rewards of a week."""

from collections.abc import Collection, Sequence
from datetime import date
from typing import Final
from uuid import UUID

from rules.calendar import mondays
from rules.values import value
from services.ledger.domain.catalogue import Amounts, WeeklyTerms
from services.ledger.domain.journal import Cause, CauseKind, Entry, House, Transfer, posted

# What a week's reward is called in its cause.
WEEKLY_REWARD: Final = "weekly_reward"


@value
class ClosedClass:
    """A class of the league when its week was closed."""

    name: str
    # How many won a prize in the week.
    counted: int
    # Accounts by rank, from the first; no more than get a reward are needed.
    podium: tuple[UUID, ...]


@value
class WeeklyRank:
    """What a week's reward is for."""

    league_class: str
    # From 1.
    rank: int


def welcome_entry(account: UUID, amounts: Amounts) -> Entry:
    """What a new account starts with, a guest's when first signed in."""
    return posted(f"welcome:{account}", Cause(CauseKind.GRANT, str(account), "welcome"), _grants(account, amounts))


def monday_entries(account: UUID, after: date, until: date, amounts: Amounts) -> list[Entry]:
    """What every Monday after a day, up to and with another one, brings."""
    return [
        posted(
            f"monday:{monday}:{account}", Cause(CauseKind.WEEK, monday.isoformat(), "monday"), _grants(account, amounts)
        )
        for monday in mondays(after, until)
    ]


def weekly_entries(
    week: date, classes: Sequence[ClosedClass], gone: Collection[UUID], terms: WeeklyTerms
) -> list[Entry]:
    """What a week's best get; the rewards of accounts that are gone lapse."""
    cause = Cause(CauseKind.WEEK, week.isoformat(), WEEKLY_REWARD)
    entries = []
    for closed in classes:
        if closed.counted < terms.counted_min:
            continue
        times = terms.times[closed.name]
        for account, amounts in zip(closed.podium, terms.ranks, strict=False):
            if account not in gone:
                rewards = [
                    Transfer(House.REWARDS.value, account, currency, amount * times) for currency, amount in amounts
                ]
                entries.append(posted(f"weekly:{week}:{account}", cause, rewards))
    return entries


def weekly_ranks(classes: Sequence[ClosedClass]) -> dict[UUID, WeeklyRank]:
    """Who came in where."""
    return {
        account: WeeklyRank(closed.name, rank)
        for closed in classes
        for rank, account in enumerate(closed.podium, start=1)
    }


def _grants(account: UUID, amounts: Amounts) -> list[Transfer]:
    return [Transfer(House.GRANTS.value, account, currency, amount) for currency, amount in amounts]
