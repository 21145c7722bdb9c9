"""What things cost and bring, as the operator set it. The file is read elsewhere; here is what it means."""

from collections.abc import Mapping
from datetime import date, tzinfo
from fractions import Fraction

from rules.shares import Percents
from rules.values import value
from services.ledger.domain.entries import RoomTerms
from services.ledger.domain.journal import Currency

# What somebody is given at once.
Amounts = tuple[tuple[Currency, int], ...]


@value
class Shares:
    """How much of a prize each place brings."""

    # By number of seats, where each plays alone.
    alone: Mapping[int, Percents]
    # Where pairs play and share places.
    partners: Percents


@value
class CoachTerms:
    """What moves that the coach found so good, or better, bring."""

    score_min: int
    amounts: Amounts


@value
class GoodPlayTerms:
    """What classic whist pays for good play, whatever the place."""

    # So many good deals in a row bring `row`, and so many more bring it again.
    row_deals: int
    row: Amounts
    # The best first; the first that is reached counts.
    coach: tuple[CoachTerms, ...]
    # Rooms that pay these only for so many games a day, the first to finish.
    games_a_day: Mapping[int, int]


@value
class WeeklyTerms:
    """What the week's best of a class get."""

    # By rank, from the first.
    ranks: tuple[Amounts, ...]
    # By class: how many times as much.
    times: Mapping[str, int]
    # A class in which fewer counted gets nothing.
    counted_min: int


@value
class RefundTerms:
    """How entries can be taken back, for games that finished on this day or later."""

    since: date
    games_a_day: int
    # Only games that finished on one of the player's own VIP days.
    vip_days_only: bool


@value
class Catalogue:
    """All terms of one moment."""

    zone: tzinfo
    rooms: Mapping[int, RoomTerms]
    # What a coffee multiplies the prize by.
    coffees: Mapping[Currency, Fraction]
    shares: Shares
    # For the day's first quick-play game.
    first_game: Amounts
    # For a new account, and for each Monday from then on.
    welcome: Amounts
    monday: Amounts
    weekly: WeeklyTerms
    good_play: GoodPlayTerms
    # Later ones first.
    refunds: tuple[RefundTerms, ...]
    refund_hours: int
    # Gold for three.
    coffee_prices: Mapping[Currency, int]

    def refund_terms(self, day: date) -> RefundTerms | None:
        """The terms for games that finished on a day."""
        return next((terms for terms in self.refunds if terms.since <= day), None)


@value
class Edition:
    """A catalogue as it was written down: what is decided by it says so, and can be decided again later."""

    catalogue: Catalogue
    content: str
    time_zone: str
    hash: bytes
