"""Oh Hell by its worked cases (tests/cases), its rejections and its places."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rules.cards import CODE
from rules.chance import Chance
from rules.game import DealCards, DealRecord, MakeMove, Rejection, Setup
from rules.moves import PASS, bid
from rules.oh_hell import GAME, hand_sizes, places, points
from tests.playing import after_moves, after_playing_out, codes, pack_dealing, single_deal
from tests.unit.exact_bid_asks import Given, actor, open_bids, open_cards, state_after_bids, trick_taker

CASES = json.loads((Path(__file__).parents[1] / "cases" / "oh_hell.json").read_text())
# Seats 0 to 3; W deals in every case.
PLAYERS = "NESW"
PLAN = hand_sizes("standard", 4, Chance(bytes(32)))


def round_sizes(given: Given) -> object:
    return [PLAN[number - 1] for number in given["rounds"]]


def turned_position(given: Given) -> object:
    assert PLAN[given["round"] - 1] == given["cards"]
    pack = GAME.deck(4)
    turned = GAME.view(single_deal(GAME, pack, 4, given["cards"]), None).turned
    assert turned is not None
    return pack.index(turned)


def state_of(given: Given) -> Any:
    assert [player for player, _ in given["bids"]] == list(PLAYERS[: len(given["bids"])])
    return state_after_bids(GAME, 4, given["cards"], [tricks for _, tricks in given["bids"]])


def legal_bids(given: Given) -> object:
    state = state_of(given)
    return {"to_act": PLAYERS[state.turn], "legal": open_bids(GAME, state)}


def next_actor(given: Given) -> object:
    return actor(state_of(given), PLAYERS)


def legal_moves(given: Given) -> object:
    playable = open_cards(GAME, given["hand"], [card for _, card in given["trick"]], given["trump"])
    return [name for name in given["hand"] if name in playable]


def trick_winner(given: Given) -> object:
    return trick_taker(GAME, given["trick"], given["trump"], 2)


def player_round_score(given: Given) -> object:
    return points(given["bid"], given["won"])


def round_score(given: Given) -> object:
    return {seat: points(given["bids"][seat], given["won"][seat]) for seat in given["bids"]}


def final_ranking(given: Given) -> object:
    players = list(given["totals"])
    ranks = dict(zip(players, places(sheet_with(given["totals"].values())), strict=True))
    return {"ranks": ranks, "winners": [player for player in players if ranks[player] == 1]}


def sheet_with(totals: Any) -> tuple[DealRecord, ...]:
    """Two deals that add up to these totals."""
    first = tuple(total // 3 for total in totals)
    second = tuple(total - part for total, part in zip(totals, first, strict=True))
    return DealRecord(0, 1, first, ()), DealRecord(1, 1, second, ())


ASKS: dict[str, Callable[[Given], object]] = {
    ask.__name__: ask
    for ask in (
        round_sizes,
        turned_position,
        legal_bids,
        next_actor,
        legal_moves,
        trick_winner,
        player_round_score,
        round_score,
        final_ranking,
    )
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_worked_case(case: dict[str, Any]) -> None:
    assert ASKS[case["ask"]](case["given"]) == case["expect"], case["why"]


@pytest.mark.parametrize(("seats", "largest", "deals"), [(3, 10, 19), (4, 10, 19), (5, 10, 19), (6, 8, 15), (7, 7, 13)])
def test_a_trump_card_is_always_left_to_turn(seats: int, largest: int, deals: int) -> None:
    plan = hand_sizes("standard", seats, Chance(bytes(32)))
    assert (max(plan), plan[0], plan[-1], len(plan)) == (largest, largest, largest, deals)
    assert GAME.view(single_deal(GAME, GAME.deck(seats), seats, largest), None).turned is not None


def test_shared_places_count_on() -> None:
    assert places(sheet_with([30, 12, 30, -4, 12])) == (1, 3, 1, 5, 3)


def test_a_game_of_one_deal_shares_places() -> None:
    # Everyone bids 0; the dealer, hooked, must bid 1 of the two tricks and takes none.
    hands = ["AS 2S", "3S 4S", "5S 6S", "7S 8S"]
    state = single_deal(GAME, pack_dealing(GAME.deck(4), hands, "2H"), 4, 2)
    state = after_moves(GAME, state, bid(0), bid(0), bid(0), bid(1))
    state = after_moves(GAME, state, *codes("AS 3S 5S 7S 2S 4S 6S 8S"))
    # Seat 0 took one, the dealer one: the dealer's is as bid.
    assert (state.totals, GAME.standings(state)) == ((1, 10, 10, 11), (4, 2, 2, 1))


def bidding(*bids: int) -> Any:
    """Three cards each, hearts trump; seat 3 deals."""
    hands = ["AS KS 7H", "QS JC 8H", "9C TC JH", "9D TD QH"]
    return after_moves(GAME, single_deal(GAME, pack_dealing(GAME.deck(4), hands, "AH"), 4, 3), *map(bid, bids))


def playing(*cards: str) -> Any:
    return after_moves(GAME, bidding(1, 1, 0, 2), *(CODE[name] for name in cards))


def awaiting() -> Any:
    return GAME.start(Setup("standard", 4, 0, (3,)))


def plays(seat: int, name: str) -> MakeMove:
    return MakeMove(seat, CODE[name])


@pytest.mark.parametrize(
    ("state", "command", "reason"),
    [
        (after_playing_out(GAME, playing()), plays(0, "AS"), Rejection.GAME_FINISHED),
        (after_playing_out(GAME, playing()), DealCards(GAME.deck(4)), Rejection.GAME_FINISHED),
        (awaiting(), MakeMove(1, bid(0)), Rejection.WRONG_PHASE),
        (bidding(), DealCards(GAME.deck(4)), Rejection.WRONG_PHASE),
        (bidding(), plays(0, "AS"), Rejection.WRONG_PHASE),
        (bidding(), MakeMove(0, PASS), Rejection.WRONG_PHASE),
        (playing(), MakeMove(0, bid(1)), Rejection.WRONG_PHASE),
        (bidding(), MakeMove(2, bid(1)), Rejection.NOT_YOUR_TURN),
        (playing(), plays(1, "QS"), Rejection.NOT_YOUR_TURN),
        (awaiting(), DealCards(GAME.deck(4)[1:]), Rejection.BAD_PACK),
        (bidding(), MakeMove(0, bid(4)), Rejection.BID_OUT_OF_RANGE),
        (bidding(1, 1, 0), MakeMove(3, bid(1)), Rejection.HOOK_FORBIDDEN),
        (playing(), plays(0, "QS"), Rejection.CARD_NOT_HELD),
        (playing("AS"), plays(1, "8H"), Rejection.MUST_FOLLOW_SUIT),
    ],
)
def test_refusal(state: Any, command: MakeMove | DealCards, reason: Rejection) -> None:
    assert GAME.decide(state, command) is reason


@pytest.mark.parametrize(
    ("variant", "seats", "reason"),
    [
        ("standard", 2, Rejection.SEATS_NOT_ALLOWED),
        ("standard", 8, Rejection.SEATS_NOT_ALLOWED),
        ("quick", 6, Rejection.UNKNOWN_VARIANT),
    ],
)
def test_setup_refused(variant: str, seats: int, reason: Rejection) -> None:
    assert GAME.setup(variant, seats, Chance(bytes(32))) is reason
