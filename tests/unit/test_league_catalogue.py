"""The league's part of the catalogue: what it says, and what is told of a wrong one."""

from datetime import date
from pathlib import Path
from uuid import UUID

import pytest

from chassis.checked_yaml import FileRefused
from services.league.catalogue import read_terms, terms_in
from services.league.domain.classes import LeagueClass, Movers, movers
from services.league.domain.games import FinishedGame, Mode, Seat, results
from services.league.domain.terms import Amounts, Terms
from tools.up.servers import CATALOGUE

ALICE = UUID(int=1, version=4)
CONTENT = CATALOGUE.read_text()
# Put in before what holds from the first day on.
FROM_DECEMBER = """\
  amounts:
    - since: 2026-12-01
      xp: {own_deal: 20, places: [5]}
      friendly: {points: [3, 1], people_min: 1}
      moving: {one_in: 2, up_min: 0}
"""
LATER = CONTENT.replace("  amounts:\n", FROM_DECEMBER, 1)


def test_the_amounts_are_those_of_the_platform() -> None:
    assert read_terms(CATALOGUE) == Terms(
        level_xp=50,
        amounts=(
            Amounts(
                since=date.min,
                deal_xp=10,
                place_xp=(30, 20, 10),
                friendly_points=(10, 7, 5, 3, 2, 1, 1),
                friendly_people_min=2,
                movers_one_in=5,
                promoted_min=3,
            ),
        ),
        rewarded=3,
        alone={4: (100, 50), 6: (100, 70, 55)},
        partners=(75, 75),
    )


def test_a_game_and_a_week_count_by_what_held_then_however_late_they_are_heard_of() -> None:
    terms = terms_in(LATER)

    def xp(day: date) -> int:
        seats = (Seat(1, ALICE, own_deals=4, eligible=True),)
        finished = FinishedGame(ALICE, "oh_hell", Mode.DAILY, seats, 1, 0, finished_on=day, day=day)
        (result,) = results(finished, terms)
        return result.xp

    assert [xp(date(2026, 11, 30)), xp(date(2026, 12, 1))] == [4 * 10 + 30, 4 * 20 + 5]
    # The week from 30 November on is that of its Monday.
    weeks = [movers(LeagueClass.QUEEN, 20, terms.on(date(2026, *monday))) for monday in ((11, 30), (12, 7))]
    assert weeks == [Movers(4, 4), Movers(10, 10)]


@pytest.mark.parametrize(
    ("written", "instead", "key", "message"),
    [
        ("level_xp: 50", "level_xp: 0", "league.level_xp", "greater than or equal to 1"),
        ("level_xp: 50", "level: 50", "league.level", "not permitted"),
        ("own_deal: 10", "own_deal: -1", "league.amounts.0.xp.own_deal", "greater than or equal to 0"),
        ("own_deal: 10", "own_deal: 1.5", "league.amounts.0.xp.own_deal", "valid integer"),
        ("own_deal: 10", "own_deal: 1" + "0" * 9, "league.amounts.0.xp.own_deal", "less than or equal"),
        ("[30, 20, 10]", "[30, 40, 10]", "league.amounts.0.xp.places", "a later place has more"),
        ("[10, 7, 5", '[10, "7", 5', "league.amounts.0.friendly.points.1", "valid integer"),
        ("people_min: 2", "people: 2", "league.amounts.0.friendly.people", "not permitted"),
        ("one_in: 5", "one_in: 0", "league.amounts.0.moving.one_in", "greater than or equal to 1"),
        (
            "- since: 0001-01-01\n      # By",
            "- since: never\n      # By",
            "league.amounts.0.since",
            "never is not a day",
        ),
        ("- since: 0001-01-01\n      # By", "- since: 2026-11-09\n      # By", "league.amounts", "so that every game"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_key(written: str, instead: str, key: str, message: str) -> None:
    text = CONTENT.replace(written, instead, 1)
    assert text != CONTENT
    with pytest.raises(FileRefused) as caught:
        terms_in(text)
    told = [line for line in str(caught.value).splitlines() if f": {key}: " in line]
    assert len(told) == 1 and message in told[0]
    pairs = zip(text.splitlines(), CONTENT.splitlines(), strict=True)
    changed = next(number for number, (new, old) in enumerate(pairs, start=1) if new != old)
    # Of a list as a whole the line is that of its key.
    assert int(told[0].removeprefix("line ").partition(":")[0]) in (changed, changed - 1)


def test_days_go_back_from_the_latest() -> None:
    with pytest.raises(FileRefused, match=r"league\.amounts: later days must come first"):
        terms_in(LATER.replace("2026-12-01", "0001-01-01"))


def test_the_file_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(CONTENT[: CONTENT.index("league:")])
    with pytest.raises(FileRefused, match=r"broken\.yaml, line \d+: league: .*required"):
        read_terms(broken)
