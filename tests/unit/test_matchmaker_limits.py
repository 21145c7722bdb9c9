"""How long it takes at most until others go on where a replica of the matchmaker was lost: the sum of its limits.

That they do go on, and how, is shown with real processes in tests/faults; no test measures the time.
"""

from services.matchmaker.app import dealing, forming
from services.matchmaker.app.ports import TURN_US
from services.matchmaker.rpc.others import CALL_SECONDS

TAKEN_OVER_SECONDS = TURN_US / 1_000_000 + forming.KEEP_TURN_SECONDS


def test_a_turn_is_kept_often_enough_not_to_be_lost_by_one_answer() -> None:
    assert 4 * forming.KEEP_TURN_SECONDS <= TURN_US / 1_000_000


def test_others_form_tables_within_three_seconds() -> None:
    assert TAKEN_OVER_SECONDS <= 3


def test_who_was_at_a_deal_plays_or_searches_again_within_fifteen_seconds() -> None:
    """Whoever takes the turn over takes its deals up at once and tries to begin the game; the last try may wait for
    the ledger and for the table service. Then the id is closed."""
    assert TAKEN_OVER_SECONDS + dealing.TRY_SECONDS + 2 * CALL_SECONDS <= 15
