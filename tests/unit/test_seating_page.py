"""The simulation on docs/seating.md: computed anew, so that the page cannot drift from the rules of pairing."""

import pytest

from tools import seating

PAGE = seating.PAGE.read_text()


@pytest.mark.parametrize("rooms", seating.ROOMS)
def test_a_line_of_the_page(rooms: int) -> None:
    assert seating.line(1.0, rooms) in PAGE


def test_the_page_has_a_line_for_each_rate() -> None:
    heading, _, *lines = PAGE.partition(seating.BEGIN)[2].partition(seating.END)[0].strip().split("\n")
    assert heading == f"| {' | '.join(seating.HEADINGS)} |"
    wanted = [[f"{rate:g}", str(rooms)] for rate in seating.RATES for rooms in seating.ROOMS]
    assert [line.strip("| ").split(" | ")[:2] for line in lines] == wanted
