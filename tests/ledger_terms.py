"""The terms of the platform page, for tests that work examples out by hand."""

from datetime import UTC, date
from fractions import Fraction

from services.ledger.domain.catalogue import (
    Catalogue,
    CoachTerms,
    GoodPlayTerms,
    RefundTerms,
    Shares,
    WeeklyTerms,
)
from services.ledger.domain.entries import RoomTerms
from services.ledger.domain.journal import COFFEES, Currency

COIN, GOLD = Currency.COIN, Currency.GOLD
ONE_AND_A_HALF, DOUBLE, TRIPLE, QUINTUPLE = COFFEES

CATALOGUE = Catalogue(
    zone=UTC,
    rooms={
        1: RoomTerms(0, 0, 300),
        2: RoomTerms(200, 0, 500),
        3: RoomTerms(500, 0, 1_250),
        11: RoomTerms(250_000, 10, 625_000),
        12: RoomTerms(500_000, 20, 1_500_000),
    },
    coffees={ONE_AND_A_HALF: Fraction(3, 2), DOUBLE: Fraction(2), TRIPLE: Fraction(3), QUINTUPLE: Fraction(5)},
    shares=Shares(alone={6: (100, 70, 55), 4: (100, 50)}, partners=(75, 75)),
    first_game=((GOLD, 5),),
    welcome=((COIN, 1_000), *((coffee, 10) for coffee in COFFEES)),
    monday=tuple((coffee, 2) for coffee in COFFEES),
    weekly=WeeklyTerms(
        ranks=(
            ((COIN, 100_000), (GOLD, 50)),
            ((COIN, 80_000), (GOLD, 30)),
            ((COIN, 60_000), (GOLD, 10)),
        ),
        times={"jack": 1, "queen": 2, "king": 4, "ace": 12},
        counted_min=1,
    ),
    good_play=GoodPlayTerms(
        row_deals=7,
        row=((GOLD, 2), (ONE_AND_A_HALF, 1)),
        coach=(CoachTerms(90, ((DOUBLE, 1), (GOLD, 2))), CoachTerms(80, ((ONE_AND_A_HALF, 1),))),
        games_a_day={1: 3},
    ),
    refunds=(
        RefundTerms(date(2026, 11, 16), games_a_day=1, vip_days_only=True),
        RefundTerms(date.min, games_a_day=3, vip_days_only=False),
    ),
    refund_hours=24,
    coffee_prices=dict(zip(COFFEES, (5, 8, 15, 30), strict=True)),
)
