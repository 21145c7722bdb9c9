"""Euchre (games.md, 2): the worked cases, and every rejection."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rules import euchre
from rules.cards import CODE, SUITS, Card, cards, deck, mask, members
from rules.chance import Chance
from rules.euchre import GAME, Deal, State, deal_score
from rules.game import DealCards, DealScored, Finished, MakeMove, Phase, Rejection, Setup, Trick
from rules.moves import BID, DISCARD, NAME_TRUMP, NAME_TRUMP_ALONE, ORDER_UP, ORDER_UP_ALONE, PASS, text
from rules.partners import ORDER, Sheet
from tests.partner_games import (
    CALLS,
    COMPASS,
    codes,
    decided,
    packed,
    refusal,
    seat_of,
    setup,
    side_of,
)
from tests.playing import after, after_moves, after_playing_out

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "cases" / "euchre.json").read_text())
PACKETS = (3, 2)


def dealt(dealer: int = 0, hands: dict[int, list[Card]] | None = None, upcard: str = "9D") -> State:
    """A deal before the first call."""
    pack = packed(GAME, PACKETS, hands or {}, dealer, CODE[upcard])
    state = after(GAME, GAME.start(setup(GAME, dealer)), DealCards(pack))
    assert isinstance(state, State)
    return state


def called(given: dict[str, Any]) -> State:
    """A deal as a case's calls, and its discard if it has one, leave it."""
    trump = given.get("trump", "D")
    trick = {seat_of(seat): [CODE[card]] for seat, card in given.get("first_trick", ())}
    upcard = given.get("upcard", "9" + trump)
    hands = {seat_of(given["dealer"]): codes(given["hand"])} if "hand" in given else trick
    state = after_moves(GAME, dealt(seat_of(given["dealer"]), hands, upcard), *(CALLS[call] for call in given["calls"]))
    if state.phase is Phase.DISCARDING and (trick or given.get("discarded")):
        state = after_moves(GAME, state, next(members(GAME.legal_moves(state))))
    for cards_played in trick.values():
        state = after_moves(GAME, state, *cards_played)
    assert isinstance(state, State)
    return state


def playing(trump: str, trick: list[list[str]], hand: list[str], to_play: str) -> State:
    """A seat with this hand is to play to this trick."""
    leader = seat_of(trick[0][0] if trick else to_play)
    hands = [0, 0, 0, 0]
    hands[seat_of(to_play)] = mask(codes(hand))
    deal = Deal(Sheet(setup(GAME)), 0, 0, tuple(hands), trump=SUITS.index(trump), maker=0)
    played = tuple(CODE[card] for _, card in trick)
    order = ORDER[-1][leader]
    assert order[len(trick)] == seat_of(to_play)
    return State(Phase.PLAYING, seat_of(to_play), sum(hands), order, played, (), deal)


def legal_moves(given: dict[str, Any]) -> list[str]:
    state = playing(given["trump"], given["trick"], given["hand"], given["to_play"])
    return [text(move) for move in members(GAME.legal_moves(state))]


def trick_winner(given: dict[str, Any]) -> str:
    *before, (last, card) = given["trick"]
    state = after_moves(GAME, playing(given["trump"], before, [card], last), CODE[card])
    return COMPASS[state.turn]


def next_actor(given: dict[str, Any]) -> dict[str, Any]:
    state = called(given)
    view = GAME.view(state, None)
    assert view.maker == seat_of(given.get("caller", COMPASS[state.current.calls[-1][0]]))
    assert (view.sitting_out is not None) == given.get("alone", any("alone" in call for call in given["calls"]))
    phase = {Phase.DISCARDING: "discard", Phase.PLAYING: "play"}[state.phase]
    answer = {"phase": phase, "seat": COMPASS[state.turn]}
    if view.sitting_out is None:
        return answer
    order: list[str] = []
    while not order or state.trick:
        order.append(COMPASS[state.turn])
        state = after_moves(GAME, state, next(members(GAME.legal_moves(state))))
    return answer | {"order": order}


def legal_bids(given: dict[str, Any]) -> dict[str, Any]:
    state = called({"upcard": "9D"} | given)
    return {"to_act": COMPASS[state.turn], "legal": sorted(text(move) for move in members(GAME.legal_moves(state)))}


def loner_options(given: dict[str, Any]) -> dict[str, bool]:
    state = called(given)
    calls = (ORDER_UP_ALONE, *range(NAME_TRUMP_ALONE, NAME_TRUMP_ALONE + 4))
    return {
        seat: any(not isinstance(GAME.decide(state, MakeMove(seat_of(seat), call)), Rejection) for call in calls)
        for seat in COMPASS.replace(given["caller"], "")
    }


def hand_after(given: dict[str, Any]) -> list[str]:
    orders = {1: [ORDER_UP], 2: [PASS, ORDER_UP], 3: [PASS, PASS, ORDER_UP]}
    dealer = seat_of(given["dealer"])
    state = dealt(dealer, {dealer: codes(given["hand"])}, given["upcard"])
    state = after_moves(GAME, state, *orders[(seat_of(given["caller"]) - dealer) % 4], DISCARD + CODE[given["discard"]])
    view = GAME.view(state, dealer)
    assert view.trump == SUITS.index(given["trump"])
    assert view.discarded == CODE[given["discard"]]
    return [text(card) for card in members(view.hand)]


def hand_sizes_at_first_lead(given: dict[str, Any]) -> dict[str, int]:
    state = called(given | {"discarded": True})
    return dict(zip(COMPASS, GAME.view(state, None).hand_counts, strict=True))


def round_score(given: dict[str, Any]) -> dict[str, int]:
    makers, defenders = deal_score(given["makers_tricks"], given["alone"])
    return {"makers": makers, "defenders": defenders}


def game_over(given: dict[str, Any]) -> dict[str, Any]:
    before, gained = given["before"], given["hand"]
    winners = side_of(max(gained, key=gained.__getitem__))
    # What a side of makers must have taken, and whether alone, for these points; two points are a euchre here.
    makers, won, alone = {1: (winners, 4, False), 2: (1 - winners, 2, False), 4: (winners, 5, True)}[
        gained["NS"] + gained["EW"]
    ]
    state = last_card(makers, won, alone, (before["NS"], before["EW"]))
    state, events = decided(GAME, state, MakeMove(state.turn, state.held.bit_length() - 1))
    scored = next(event for event in events if isinstance(event, DealScored))
    assert scored.points[:2] == (gained["NS"], gained["EW"])
    finished = [event for event in events if isinstance(event, Finished)]
    winner = None
    if finished:
        assert finished[0].standings in ((1, 3, 1, 3), (3, 1, 3, 1))
        winner = "NS" if finished[0].standings[0] == 1 else "EW"
    return {
        "over": state.phase is Phase.FINISHED,
        "winner": winner,
        "totals": {"NS": state.totals[0], "EW": state.totals[1]},
    }


def last_card(makers: int, won: int, alone: bool, totals: tuple[int, int]) -> State:
    """One card is left of a deal in which the makers will have won so many tricks."""
    maker, defender = makers, 1 - makers
    sitting_out = maker + 2 if alone else -1
    winners = [maker] * won + [defender] * (5 - won)
    orders = [ORDER[sitting_out][leader] for leader in (defender, *winners[:4])]
    order = orders[4]
    # Who takes the last trick has already played the right bower to it, or is about to.
    plain = iter(codes(["9C", "TC", "QC", "KC"]))
    trick = [CODE["JH"] if seat == winners[4] else next(plain) for seat in order]
    hands = [0, 0, 0, 0]
    hands[order[-1]] = 1 << trick[-1]
    sheet = Sheet(setup(GAME), (totals[0], totals[1]) * 2)
    deal = Deal(sheet, 0, 0, tuple(hands), trump=SUITS.index("H"), maker=maker, sitting_out=sitting_out)
    tricks = tuple(Trick(each) for each in orders[:4])
    return State(Phase.PLAYING, order[-1], sum(hands), order, tuple(trick[:-1]), tricks, deal)


ASKS: dict[str, Callable[[dict[str, Any]], Any]] = {
    ask.__name__: ask
    for ask in (
        legal_moves,
        trick_winner,
        next_actor,
        legal_bids,
        loner_options,
        hand_after,
        hand_sizes_at_first_lead,
        round_score,
        game_over,
    )
}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_worked_case(case: dict[str, Any]) -> None:
    answer, expected = ASKS[case["ask"]](case["given"]), case["expect"]
    match case["ask"]:
        case "legal_moves" | "hand_after":
            assert sorted(answer) == sorted(expected)
        case "legal_bids":
            assert answer == {"to_act": expected["to_act"], "legal": sorted(expected["legal"])}
        case "next_actor":
            assert expected.items() <= answer.items()
        case _:
            assert answer == expected


def test_pack_is_dealt_in_threes_and_twos_from_forehand() -> None:
    state = after(GAME, GAME.start(setup(GAME, dealer=2)), DealCards(deck(7)))
    hands = [GAME.view(state, seat).hand for seat in range(4)]
    assert hands[3] == cards("9C TC JC 9H TH") and hands[0] == cards("QC KC AC JH QH")
    assert hands[1] == cards("9D TD JD KH AH") and hands[2] == cards("QD KD AD 9S TS")
    assert GAME.view(state, None).turned == CODE["JS"]


def test_idle_dealer_keeps_the_upcard_and_discards_nothing() -> None:
    state = after_moves(GAME, dealt(dealer=0, upcard="9D"), PASS, ORDER_UP_ALONE)
    view = GAME.view(state, 0)
    assert state.phase is Phase.PLAYING
    assert view.sitting_out == 0
    assert view.hand_counts == (6, 5, 5, 5)
    assert view.hand & cards("9D")
    assert view.discarded is None


def test_sitting_out_partner_is_never_to_play() -> None:
    state = after_moves(GAME, dealt(dealer=0), ORDER_UP_ALONE, DISCARD + CODE["9D"])
    while state.phase is Phase.PLAYING:
        assert state.turn in (0, 1, 2)
        state = after_moves(GAME, state, next(members(GAME.legal_moves(state))))
    (record,) = GAME.view(state, None).scored
    assert sum(record.tricks_won) == 5
    assert record.tricks_won[3] == 0


def test_stuck_dealer_may_go_alone() -> None:
    state = after_moves(GAME, dealt(dealer=0, upcard="9D"), *[PASS] * 7, NAME_TRUMP_ALONE + SUITS.index("S"))
    assert (state.turn, GAME.view(state, None).sitting_out, GAME.view(state, None).trump) == (1, 2, SUITS.index("S"))


def test_only_the_dealer_sees_the_discard() -> None:
    state = after_moves(GAME, dealt(dealer=0), ORDER_UP, DISCARD + CODE["9D"])
    assert [GAME.view(state, seat).discarded for seat in (0, 1, 2, 3, None)] == [CODE["9D"], None, None, None, None]


def test_turned_down_jack_leaves_its_suit_without_a_left_bower() -> None:
    state = after_moves(GAME, dealt(dealer=0, upcard="JD"), *[PASS] * 4, NAME_TRUMP + SUITS.index("H"))
    assert not any(GAME.view(state, seat).hand & cards("JD") for seat in range(4))


# Rejections, in the order in which they are checked.


def test_finished_game_refuses_everything() -> None:
    state = last_card(makers=0, won=4, alone=False, totals=(9, 0))
    state = after_playing_out(GAME, state)
    assert refusal(GAME, state, MakeMove(0, PASS)) is Rejection.GAME_FINISHED
    assert refusal(GAME, state, DealCards(deck(7))) is Rejection.GAME_FINISHED


@pytest.mark.parametrize(
    ("moves", "refused"),
    [
        pytest.param([], CODE["9C"], id="a card while calling"),
        pytest.param([], NAME_TRUMP, id="a suit before the upcard is turned down"),
        pytest.param([], BID + 2, id="a bid of another game"),
        pytest.param([], -1, id="no move at all"),
        pytest.param([PASS] * 4, ORDER_UP, id="an order after the upcard was turned down"),
        pytest.param([ORDER_UP], CODE["9C"], id="a card while the dealer discards"),
        pytest.param([ORDER_UP], PASS, id="a call while the dealer discards"),
        pytest.param([ORDER_UP, DISCARD + CODE["9D"]], PASS, id="a call while playing"),
        pytest.param([ORDER_UP, DISCARD + CODE["9D"]], DISCARD + CODE["9C"], id="a discard while playing"),
    ],
)
def test_move_of_another_phase_is_refused_whoever_makes_it(moves: list[int], refused: int) -> None:
    state = after_moves(GAME, dealt(dealer=0), *moves)
    for seat in range(4):
        assert refusal(GAME, state, MakeMove(seat, refused)) is Rejection.WRONG_PHASE


def test_moves_before_the_deal_and_deals_before_the_end_are_refused() -> None:
    before = GAME.start(setup(GAME))
    assert refusal(GAME, before, MakeMove(1, PASS)) is Rejection.WRONG_PHASE
    assert refusal(GAME, dealt(), DealCards(deck(7))) is Rejection.WRONG_PHASE


def test_other_seats_are_not_to_move() -> None:
    calling = dealt(dealer=0)
    discarding = after_moves(GAME, calling, ORDER_UP)
    play = after_moves(GAME, discarding, DISCARD + CODE["9D"])
    for state, move in ((calling, PASS), (discarding, DISCARD + CODE["9D"]), (play, CODE["9C"])):
        for seat in {0, 1, 2, 3} - {state.turn}:
            assert refusal(GAME, state, MakeMove(seat, move)) is Rejection.NOT_YOUR_TURN
        assert refusal(GAME, state, MakeMove(7, move)) is Rejection.NOT_YOUR_TURN


@pytest.mark.parametrize("pack", [(), deck(7)[1:], deck(7)[:23] + deck(7)[:1], deck(6), (*deck(7)[1:], 0)])
def test_wrong_pack_is_refused(pack: tuple[Card, ...]) -> None:
    assert refusal(GAME, GAME.start(setup(GAME)), DealCards(pack)) is Rejection.BAD_PACK


def test_stuck_dealer_must_name_trump() -> None:
    state = after_moves(GAME, dealt(dealer=0), *[PASS] * 7)
    assert refusal(GAME, state, MakeMove(0, PASS)) is Rejection.MUST_NAME_TRUMP


@pytest.mark.parametrize("name", [NAME_TRUMP, NAME_TRUMP_ALONE])
@pytest.mark.parametrize("passes", [4, 7])
def test_suit_turned_down_may_not_be_named(passes: int, name: int) -> None:
    state = after_moves(GAME, dealt(dealer=0, upcard="9D"), *[PASS] * passes)
    assert refusal(GAME, state, MakeMove(state.turn, name + SUITS.index("D"))) is Rejection.SUIT_TURNED_DOWN


def test_card_that_is_not_held_is_refused() -> None:
    state = after_moves(GAME, dealt(dealer=0, upcard="9D"), ORDER_UP)
    missing = next(card for card in deck(7) if not GAME.view(state, 0).hand & 1 << card)
    assert refusal(GAME, state, MakeMove(0, DISCARD + missing)) is Rejection.CARD_NOT_HELD
    state = after_moves(GAME, state, DISCARD + CODE["9D"])
    missing = next(card for card in deck(7) if not GAME.view(state, 1).hand & 1 << card)
    assert refusal(GAME, state, MakeMove(1, missing)) is Rejection.CARD_NOT_HELD


def test_discarded_card_cannot_be_played() -> None:
    state = after_moves(GAME, dealt(dealer=3, upcard="9D"), PASS, PASS, PASS, ORDER_UP, DISCARD + CODE["9D"])
    for _ in range(3):
        state = after_moves(GAME, state, next(members(GAME.legal_moves(state))))
    assert refusal(GAME, state, MakeMove(3, CODE["9D"])) is Rejection.CARD_NOT_HELD


def test_suit_must_be_followed() -> None:
    state = playing("H", [["N", "9H"]], ["JD", "AS"], "E")
    assert refusal(GAME, state, MakeMove(1, CODE["AS"])) is Rejection.MUST_FOLLOW_SUIT
    state = playing("H", [["N", "9D"]], ["JD", "AD"], "E")
    assert refusal(GAME, state, MakeMove(1, CODE["JD"])) is Rejection.MUST_FOLLOW_SUIT


def test_discards_are_the_six_cards() -> None:
    state = after_moves(GAME, dealt(dealer=0, hands={0: codes(["JD", "9S", "TS", "AC", "KC"])}, upcard="QH"), ORDER_UP)
    assert GAME.legal_moves(state) == cards("JD 9S TS AC KC QH") << DISCARD


def test_setup_refuses_other_variants_and_seats() -> None:
    draws = Chance(bytes(32))
    assert GAME.setup("quick", 4, draws) is Rejection.UNKNOWN_VARIANT
    assert GAME.setup("standard", 5, draws) is Rejection.SEATS_NOT_ALLOWED
    made = GAME.setup("standard", 4, draws)
    assert isinstance(made, Setup)
    assert made.hand_sizes == ()
    assert euchre.start(made).phase is Phase.AWAITING_DEAL
