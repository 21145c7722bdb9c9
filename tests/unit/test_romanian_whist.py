"""Romanian whist by its worked cases (tests/cases), its rejections and its tie-breaks."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rules.cards import CODE, NAME, RANKS
from rules.chance import Chance
from rules.game import DealCards, DealRecord, DealScored, MakeMove, Phase, Rejection, Setup
from rules.moves import PASS, bid, discard, name_trump
from rules.romanian_whist import GAME, LARGEST_HAND, places, plans, points
from tests.playing import after, after_moves, after_playing_out, codes, pack_dealing, single_deal
from tests.unit.exact_bid_asks import (
    Given,
    actor,
    open_bids,
    open_cards,
    state_after_bids,
    trick_taker,
    trump_name,
)

CASES = json.loads((Path(__file__).parents[1] / "cases" / "romanian_whist.json").read_text())


def deck(given: Given) -> object:
    ranks = [NAME[card][0] for card in GAME.deck(given["players"])]
    return {"size": len(ranks), "ranks": sorted(set(ranks), key=RANKS.index)}


def deal_facts(given: Given) -> object:
    pack = GAME.deck(given["players"])
    view = GAME.view(single_deal(GAME, pack, given["players"], given["cards"]), None)
    assert view.turned is not None
    dealt = sum(view.hand_counts)
    return {
        "deck_size": len(pack),
        "dealt": dealt,
        "turned_position": pack.index(view.turned),
        "unused": len(pack) - dealt - 1,
    }


def card_in_deck(given: Given) -> object:
    return {name: CODE[name] in GAME.deck(given["players"]) for name in given["cards"]}


def round_plan(given: Given) -> object:
    (plan,) = plans(given["variant"], given["players"])
    return list(plan)


def plan_valid(given: Given) -> object:
    seats_fit = given["players"] in GAME.variants["quick"]
    return seats_fit and tuple(given["plan"]) in plans("quick", given["players"])


def plan_count(_given: Given) -> object:
    return len(set(plans("quick", 6)))


def trump(given: Given) -> object:
    seats = given["players"]
    size = given["cards"] if "cards" in given else plans(given["variant"], seats)[0][given["round"] - 1]
    pack = list(GAME.deck(seats))
    turned = given.get(f"deck_position_{seats * size}")
    if turned is not None:
        pack.remove(CODE[turned])
        pack.insert(seats * size, CODE[turned])
    return trump_name(GAME, single_deal(GAME, tuple(pack), seats, size))


def no_trump_rounds(given: Given) -> object:
    seats = given["players"]
    trumps = {size: trump_name(GAME, single_deal(GAME, GAME.deck(seats), seats, size)) for size in range(1, 9)}
    return {
        variant: sum(trumps[size] is None for size in plan)
        for variant in given["variants"]
        for plan in plans(variant, seats)
    }


def dealers(given: Given) -> object:
    players = given["players"]
    state = GAME.start(Setup("8-1-8", len(players), players.index(given["first_dealer"]), (1,) * max(given["rounds"])))
    seen = []
    while state.phase is not Phase.FINISHED:
        state = after(GAME, state, DealCards(GAME.deck(len(players))))
        seen.append(players[state.dealer])
        state = after_playing_out(GAME, state)
    return [seen[number - 1] for number in given["rounds"]]


def legal_bids(given: Given) -> object:
    return open_bids(GAME, state_after_bids(GAME, given["players"], given["cards"], given["bids_so_far"]))


def legal_moves(given: Given) -> object:
    playable = open_cards(GAME, given["hand"], given["trick"], given["trump"])
    return [name for name in given["hand"] if name in playable]


def trick_winner(given: Given) -> object:
    return trick_taker(GAME, given["trick"], given["trump"], 2 if given["trump"] else LARGEST_HAND)


def player_round_score(given: Given) -> object:
    return points(given["bid"], given["won"])


def round_score(given: Given) -> object:
    return {seat: points(given["bids"][seat], given["won"][seat]) for seat in given["bids"]}


def next_actor(given: Given) -> object:
    players, dealer = given["players"], given["players"].index(given["dealer"])
    from_forehand = [*players[dealer + 1 :], *players[: dealer + 1]]
    bids = [given["bids"][player] for player in from_forehand if player in given["bids"]]
    return actor(state_after_bids(GAME, len(players), given["cards"], bids, dealer), players)


def final_ranking(given: Given) -> object:
    players = given["players_in_seat_order"]
    by_deal = [
        (size, [given["bids"][player][deal] for player in players], [given["won"][player][deal] for player in players])
        for deal, size in enumerate(given["round_sizes"])
    ]
    place_of = dict(zip(players, places(score_sheet(by_deal)), strict=True))
    return sorted(players, key=place_of.__getitem__)


def score_sheet(deals: list[tuple[int, list[int], list[int]]]) -> tuple[DealRecord, ...]:
    """Deals given as hand size, bids and tricks won by seat."""
    return tuple(
        DealRecord(number, size, tuple(map(points, bids, won)), tuple(won), tuple(bids))
        for number, (size, bids, won) in enumerate(deals)
    )


ASKS: dict[str, Callable[[Given], object]] = {
    ask.__name__: ask
    for ask in (
        deck,
        deal_facts,
        card_in_deck,
        round_plan,
        plan_valid,
        plan_count,
        trump,
        no_trump_rounds,
        dealers,
        legal_bids,
        legal_moves,
        trick_winner,
        player_round_score,
        round_score,
        next_actor,
        final_ranking,
    )
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_worked_case(case: dict[str, Any]) -> None:
    assert ASKS[case["ask"]](case["given"]) == case["expect"], case["why"]


def test_the_worked_deal_of_the_rules() -> None:
    hands = ["AS 7C 7D", "7S AC 8D", "8S 8C AD", "9S 9C 9D"]
    state = single_deal(GAME, pack_dealing(GAME.deck(4), hands, "AH"), 4, 3)
    state = after_moves(GAME, state, bid(1), bid(0), bid(1))
    assert open_bids(GAME, state) == [0, 2, 3]
    state = after_moves(GAME, state, bid(2), *codes("AS 7S 8S 9S 7C AC 8C 9C 8D AD 9D"))
    events = GAME.decide(state, MakeMove(0, CODE["7D"]))
    assert not isinstance(events, Rejection)
    assert events[1] == DealScored(0, (6, -1, 6, -2))


@pytest.mark.parametrize("seats", [4, 5, 6])
@pytest.mark.parametrize("variant", ["8-1-8", "8-8-8", "1-8-1"])
def test_a_game_has_three_deals_a_player_and_twelve(variant: str, seats: int) -> None:
    assert [len(plan) for plan in plans(variant, seats)] == [3 * seats + 12]


def test_1_8_1_goes_up_and_comes_down() -> None:
    assert plans("1-8-1", 4) == ((1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 7, 6, 5, 4, 3, 2, 1, 1, 1, 1),)


# Each two seats are level in all that comes before. Deals: hand size, bids, tricks won.
@pytest.mark.parametrize(
    ("deals", "expected"),
    [
        pytest.param([(3, [1, 0], [1, 0])], (1, 2), id="total"),
        pytest.param([(6, [5, 0], [5, 0]), (6, [2, 0], [0, 0]), (6, [2, 4], [0, 0])], (2, 1), id="missed bids"),
        pytest.param([(8, [0, 1], [1, 1]), (3, [1, 0], [1, 1])], (2, 1), id="missed bids of eight cards"),
        pytest.param(
            [(4, [1, 0], [1, 0]), (4, [2, 3], [0, 0]), (4, [2, 1], [0, 0]), (4, [2, 1], [0, 0])],
            (2, 1),
            id="tricks of deviation",
        ),
        pytest.param([(5, [1, 2], [0, 0]), (5, [3, 2], [0, 0])], (2, 1), id="largest deviation"),
        pytest.param(
            [(3, [2, 1], [2, 1]), (3, [0, 2], [1, 2]), (3, [1, 0], [1, 1])], (2, 1), id="last lead, not the first"
        ),
        pytest.param([(3, [1, 1], [1, 1])], (1, 2), id="seat"),
    ],
)
def test_tie_break(deals: list[tuple[int, list[int], list[int]]], expected: tuple[int, ...]) -> None:
    assert places(score_sheet(deals)) == expected


def awaiting() -> Any:
    return GAME.start(Setup("8-1-8", 4, 0, (8,)))


def bidding(*bids: int) -> Any:
    """Three cards each, hearts trump; seat 3 deals."""
    hands = ["AS KS 7H", "QS JC 8H", "9C TC JH", "9D TD QH"]
    return after_moves(GAME, single_deal(GAME, pack_dealing(GAME.deck(4), hands, "AH"), 4, 3), *map(bid, bids))


def playing(*cards: str) -> Any:
    return after_moves(GAME, bidding(1, 1, 0, 2), *(CODE[name] for name in cards))


def finished() -> Any:
    return after_playing_out(GAME, playing())


def makes(seat: int, move: int | str) -> MakeMove:
    return MakeMove(seat, CODE[move] if isinstance(move, str) else move)


PACK = GAME.deck(4)


@pytest.mark.parametrize(
    ("state", "command", "reason"),
    [
        (finished(), makes(0, "AS"), Rejection.GAME_FINISHED),
        (finished(), DealCards(PACK), Rejection.GAME_FINISHED),
        (awaiting(), makes(1, bid(0)), Rejection.WRONG_PHASE),
        (bidding(), DealCards(PACK), Rejection.WRONG_PHASE),
        (playing(), DealCards(PACK), Rejection.WRONG_PHASE),
        (bidding(), makes(0, "AS"), Rejection.WRONG_PHASE),
        (playing(), makes(0, bid(0)), Rejection.WRONG_PHASE),
        (bidding(), makes(0, PASS), Rejection.WRONG_PHASE),
        (bidding(), makes(0, name_trump(0)), Rejection.WRONG_PHASE),
        (playing(), makes(0, discard(CODE["AS"])), Rejection.WRONG_PHASE),
        (playing(), makes(0, -1), Rejection.WRONG_PHASE),
        (playing(), makes(0, 10_000), Rejection.WRONG_PHASE),
        # The kind of move is looked at before the turn, the turn before the move itself.
        (playing(), makes(1, bid(0)), Rejection.WRONG_PHASE),
        (bidding(), makes(1, bid(9)), Rejection.NOT_YOUR_TURN),
        (playing(), makes(3, "9D"), Rejection.NOT_YOUR_TURN),
        (playing(), makes(7, "9D"), Rejection.NOT_YOUR_TURN),
        (awaiting(), DealCards(()), Rejection.BAD_PACK),
        (awaiting(), DealCards(GAME.deck(5)), Rejection.BAD_PACK),
        (awaiting(), DealCards((*PACK[1:], PACK[1])), Rejection.BAD_PACK),
        (bidding(), makes(0, bid(4)), Rejection.BID_OUT_OF_RANGE),
        (bidding(1, 1, 0), makes(3, bid(4)), Rejection.BID_OUT_OF_RANGE),
        (bidding(1, 1, 0), makes(3, bid(1)), Rejection.HOOK_FORBIDDEN),
        (playing(), makes(0, "QS"), Rejection.CARD_NOT_HELD),
        (playing(), makes(0, "2C"), Rejection.CARD_NOT_HELD),
        (playing("AS", "QS", "JH", "QH"), makes(3, "QH"), Rejection.CARD_NOT_HELD),
        (playing("AS"), makes(1, "8H"), Rejection.MUST_FOLLOW_SUIT),
        (playing("AS", "QS"), makes(2, "9C"), Rejection.MUST_TRUMP),
    ],
)
def test_refusal(state: Any, command: MakeMove | DealCards, reason: Rejection) -> None:
    assert GAME.decide(state, command) is reason


@pytest.mark.parametrize(
    ("variant", "seats", "reason"),
    [
        ("8-1-8", 3, Rejection.SEATS_NOT_ALLOWED),
        ("8-1-8", 7, Rejection.SEATS_NOT_ALLOWED),
        ("quick", 5, Rejection.SEATS_NOT_ALLOWED),
        ("standard", 4, Rejection.UNKNOWN_VARIANT),
        ("", 9, Rejection.UNKNOWN_VARIANT),
    ],
)
def test_setup_refused(variant: str, seats: int, reason: Rejection) -> None:
    assert GAME.setup(variant, seats, Chance(bytes(32))) is reason
