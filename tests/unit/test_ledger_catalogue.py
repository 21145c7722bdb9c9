"""The catalogue's file: what it says, and what is told of a wrong one."""

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from chassis.checked_yaml import FileRefused
from services.ledger.catalogue import read_catalogue, read_edition
from services.ledger.domain.entries import RoomTerms
from tests.ledger import CATALOGUE, CATALOGUE_FILE, EDITION

UTC = ZoneInfo("UTC")


def test_rooms_are_those_of_the_platform() -> None:
    assert len(CATALOGUE.rooms) == 12
    assert [room.prize for room in CATALOGUE.rooms.values()] == [
        *(300, 500, 1_250, 2_500, 6_250, 15_000, 25_000, 62_500, 125_000, 300_000, 625_000, 1_500_000)
    ]
    assert CATALOGUE.rooms[12] == RoomTerms(coins=500_000, gold=20, prize=1_500_000)
    assert CATALOGUE.rooms[1] == RoomTerms(coins=0, gold=0, prize=300)


def test_another_text_or_another_time_zone_is_another_edition() -> None:
    hashes = {
        EDITION.hash,
        read_edition(EDITION.content + "# Of 2027.\n", UTC).hash,
        read_edition(EDITION.content, ZoneInfo("Europe/Bucharest")).hash,
    }
    assert len(hashes) == 3
    assert read_edition(EDITION.content, UTC) == EDITION


@pytest.mark.parametrize(
    ("written", "instead", "key", "message"),
    [
        ("prize: 300}", "prize: -3}", "rooms.1.prize", "greater than or equal to 0"),
        ("prize: 300}", "prize: 3.5}", "rooms.1.prize", "valid integer"),
        ("prize: 300}", "prize: 1" + "0" * 30 + "}", "rooms.1.prize", "less than or equal"),
        ("coins: 200, ", "", "rooms.2.coins", "required"),
        ("vip: true, prize: 15000", "vip: sometimes, prize: 15000", "rooms.6.vip", "boolean"),
        ("  12: {", "  13: {", "rooms.13", "less than or equal to 12"),
        ("times: 1.5", "times: abc", "coffees.coffee_1_5.times", "not a number"),
        ("times: 1.5", "times: .inf", "coffees.coffee_1_5.times", "from 1 to 100"),
        ("[100, 70, 55]", "[100, 70, 75]", "shares.alone.6", "a later place has more"),
        ("welcome: {coin:", "welcome: {coins:", "welcome.coins", "'coin'"),
        ("monday: {coffee_1_5: 2", "monday: {coffee_1_5: 0", "monday.coffee_1_5", "greater than or equal to 1"),
        ("row_deals: 7", 'row_deals: "7"', "good_play.row_deals", "valid integer"),
        ("score_min: 90", "score_min: 70", "good_play.coach", "the best must come first"),
        ("ace: 12", "aces: 12", "weekly.times", "ace is missing"),
        ("since: 2026-11-16", "since: 2026-13-16", "refunds.0.since", "2026-13-16 is not a day"),
        ("since: 2026-11-16", "since: 0001-01-01", "refunds", "later days must come first"),
        ("refund_hours:", "refund_days:", "refund_days", "not permitted"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_key(written: str, instead: str, key: str, message: str) -> None:
    text = EDITION.content.replace(written, instead, 1)
    assert text != EDITION.content
    with pytest.raises(FileRefused) as caught:
        read_edition(text, UTC)
    told = [line for line in str(caught.value).splitlines() if f": {key}: " in line]
    assert len(told) == 1 and message in told[0]
    pairs = zip(text.splitlines(), EDITION.content.splitlines(), strict=False)
    changed = next(number for number, (new, old) in enumerate(pairs, start=1) if new != old)
    # Of a list as a whole the line is that of its key.
    assert int(told[0].removeprefix("line ").partition(":")[0]) in (changed, changed - 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the file is empty"),
        ("rooms: [", "line 1: "),
        (EDITION.content.replace("partners:", "partners: [1]\n  partners:"), "partners is there twice"),
        ("just words", "line 1: "),
    ],
)
def test_a_text_that_is_no_catalogue(text: str, message: str) -> None:
    with pytest.raises(FileRefused) as caught:
        read_edition(text, UTC)
    assert message in str(caught.value)


def test_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileRefused, match=r"nowhere\.yaml"):
        read_catalogue(tmp_path / "nowhere.yaml", UTC)
    broken = tmp_path / "broken.yaml"
    broken.write_text(CATALOGUE_FILE.read_text().replace("prize: 300}", "prize: x}"))
    with pytest.raises(FileRefused, match=r"broken\.yaml, line 7: rooms\.1\.prize"):
        read_catalogue(broken, UTC)
