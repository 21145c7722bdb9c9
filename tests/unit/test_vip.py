"""VIP days: the pair of weekdays that follows from an account's id."""

from collections import Counter
from uuid import UUID

import pytest

from rules.vip import vip_weekdays

# Worked out with openssl and perl; Monday is 0.
GOLDEN = {
    "00000000-0000-0000-0000-000000000000": (0, 5),
    "0199aaaa-0000-7000-8000-000000000000": (2, 5),
    "ffffffff-ffff-ffff-ffff-ffffffffffff": (3, 5),
    "0199bbbb-1234-7abc-9def-0123456789ab": (3, 6),
    "00000000-0000-4000-8000-000000000001": (2, 6),
    "00000000-0000-4000-8000-000000000002": (0, 5),
}


@pytest.mark.parametrize(("account_id", "weekdays"), GOLDEN.items())
def test_the_days_of_an_account(account_id: str, weekdays: tuple[int, int]) -> None:
    assert vip_weekdays(UUID(account_id)) == weekdays


def test_each_pair_of_days_that_are_no_neighbours_has_its_share() -> None:
    shares = Counter(vip_weekdays(UUID(int=number)) for number in range(14_000))
    assert sorted(shares) == [
        *((0, 2), (0, 3), (0, 4), (0, 5), (1, 3), (1, 4), (1, 5), (1, 6)),
        *((2, 4), (2, 5), (2, 6), (3, 5), (3, 6), (4, 6)),
    ]
    assert all(850 < share < 1150 for share in shares.values())
