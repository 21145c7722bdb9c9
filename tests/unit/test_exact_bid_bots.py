"""The steady bot of Romanian whist and oh hell: what it does in plain positions, and how well it bids."""

from typing import Any

import pytest

from rules.cards import CODE, NAME
from rules.game import Game, View
from rules.moves import BID, bid
from rules.registry import game as game_of
from tests.playing import after_moves, bot_chooser, pack_dealing, random_chooser, setup_of, single_deal, steps

OH_HELL = game_of("oh_hell")
WHIST = game_of("romanian_whist")
assert OH_HELL is not None
assert WHIST is not None


def steady(game: Game, state: Any) -> int:
    """What the bot does in the seat whose turn it is."""
    return game.bots["steady"](game.view(state, state.turn), bytes(32))


def playing(game: Game, bids: list[int], hands: list[str], turned: str = "2H") -> Any:
    """A deal of the last seat's, with these bids."""
    pack = pack_dealing(game.deck(4), hands, turned)
    return after_moves(game, single_deal(game, pack, 4, len(hands[0].split())), *map(bid, bids))


HANDS = ["AS 4S KC", "KS 3S AC", "QS 5S 9C", "JS 8S 2C"]


@pytest.mark.parametrize(
    ("bids", "played", "chosen", "why"),
    [
        ([1, 1, 1, 1], "", "AS", "wants tricks: leads the best card"),
        ([0, 1, 1, 2], "", "4S", "has made it: leads the worst"),
        ([0, 0, 1, 1], "AS", "KS", "wants none: throws the highest that loses"),
        ([0, 1, 0, 1], "4S 3S", "5S", "must win unless low enough: nothing is, so as low as may be"),
        ([0, 0, 1, 1], "4S 3S 5S", "8S", "last, and in want: the cheapest that wins"),
        ([0, 0, 1, 0], "4S 3S 5S", "JS", "last, and must take it: with the highest"),
        ([0, 0, 1, 1], "AS KS", "5S", "cannot win: keeps the better card"),
    ],
)
def test_plain_position(bids: list[int], played: str, chosen: str, why: str) -> None:
    assert OH_HELL is not None
    state = after_moves(OH_HELL, playing(OH_HELL, bids, HANDS), *(CODE[name] for name in played.split()))
    assert NAME[steady(OH_HELL, state)] == chosen, why


def test_after_a_missed_bid_tricks_still_score_at_oh_hell_only() -> None:
    hands = ["AS KS 9S", "8S 7S TC", "QD JD 9C", "QC JC KC"]
    for game, chosen in ((OH_HELL, "KS"), (WHIST, "9S")):
        assert game is not None
        state = after_moves(game, playing(game, [0, 1, 1, 2], hands, "AH"), *map(CODE.__getitem__, ("AS", "8S")))
        state = after_moves(game, state, CODE["QD"], CODE["QC"])
        assert NAME[steady(game, state)] == chosen


@pytest.mark.parametrize(
    ("hand", "expected"),
    [("AH KH QH", 3), ("2S 3D 2C", 0), ("AH 2S 3D", 1)],
)
def test_bid_follows_the_hand(hand: str, expected: int) -> None:
    assert OH_HELL is not None
    pack = pack_dealing(OH_HELL.deck(4), [hand, "4S 5S 6S", "7S 8S 9S", "4C 5C 6C"], "3H")
    assert steady(OH_HELL, single_deal(OH_HELL, pack, 4, 3)) - BID == expected


def test_the_hooked_dealer_bids_something_else() -> None:
    assert OH_HELL is not None
    hands = ["4S 5S 6S", "7S 8S 9S", "4C 5C 6C", "AH 2S 3D"]
    state = single_deal(OH_HELL, pack_dealing(OH_HELL.deck(4), hands, "3H"), 4, 3)
    assert steady(OH_HELL, after_moves(OH_HELL, state, bid(0), bid(0), bid(3))) - BID == 1
    assert steady(OH_HELL, after_moves(OH_HELL, state, bid(0), bid(1), bid(1))) - BID in (0, 2)


@pytest.mark.parametrize(
    ("game_type", "variant", "seats"), [("romanian_whist", "8-1-8", 4), ("oh_hell", "standard", 4)]
)
def test_bids_are_exact_twice_as_often_as_by_random_play(game_type: str, variant: str, seats: int) -> None:
    game = game_of(game_type)
    assert game is not None
    exact = {"steady": 0, "random": 0}
    deals = 0
    for number in range(54):
        seed = number.to_bytes(32, "big")
        setup = setup_of(game, variant, seats, seed)
        deals += len(setup.hand_sizes)
        for player, chooser in (("steady", bot_chooser(game)), ("random", random_chooser(number))):
            *_, (_, _, _, state) = steps(game, setup, seed, chooser)
            exact[player] += exact_bids(game.view(state, None))
    assert deals >= 1_000
    assert exact["steady"] >= 2 * exact["random"] > 0


def exact_bids(view: View) -> int:
    """Bids made exactly in a finished game."""
    return sum(bid == won for record in view.scored for bid, won in zip(record.bids, record.tricks_won, strict=True))
