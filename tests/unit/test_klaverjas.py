"""Klaverjas (games.md, 4): the worked cases, and every rejection with the exceptions around it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rules.cards import CODE, SUITS, Card, cards, deck, mask, members
from rules.chance import Chance
from rules.game import DealCards, DealRecord, DealScored, Finished, MakeMove, Phase, Rejection, Setup, Trick
from rules.klaverjas import GAME, HAND_SIZE, LAST_TRICK_POINTS, VARIANTS, Deal, State, deal_score
from rules.klaverjas_cards import trick_points, trick_roem
from rules.moves import DISCARD, NAME_TRUMP, NAME_TRUMP_ALONE, ORDER_UP, PASS, text
from rules.partners import ORDER, Sheet, places
from tests.partner_games import CALLS, COMPASS, codes, decided, packed, refusal, seat_of, setup, side_of
from tests.playing import after, after_moves, after_playing_out

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "cases" / "klaverjas.json").read_text())
PACKETS = (3, 2, 3)
SIDES = ("NS", "EW")


def dealt(dealer: int = 0, hands: dict[int, list[Card]] | None = None, variant: str = "amsterdam") -> State:
    """A deal before the first call."""
    pack = packed(GAME, PACKETS, hands or {}, dealer)
    state = after(GAME, GAME.start(setup(GAME, dealer, variant)), DealCards(pack))
    assert isinstance(state, State)
    return state


def playing(variant: str, trump: str, trick: list[list[str]], hand: list[str], to_play: str) -> State:
    """A seat with this hand is to play to this trick; the others hold something too, so that the deal goes on."""
    seat = seat_of(to_play)
    hands = [0, 0, 0, 0]
    hands[seat] = mask(codes(hand))
    gone = hands[seat] | mask(CODE[card] for _, card in trick)
    for other in {0, 1, 2, 3} - {seat}:
        hands[other] = next(1 << card for card in deck(5) if not gone >> card & 1)
        gone |= hands[other]
    sheet = Sheet(setup(GAME, variant=variant))
    deal = Deal(sheet, variant == "rotterdam", 0, 0, tuple(hands), trump=SUITS.index(trump), maker=0)
    order = ORDER[-1][seat_of(trick[0][0]) if trick else seat]
    assert order[len(trick)] == seat
    played = tuple(CODE[card] for _, card in trick)
    return State(Phase.PLAYING, seat, sum(hands), order, played, (), (0, 0), (0, 0), deal)


def legal_moves(given: dict[str, Any]) -> object:
    answers = []
    for variant in VARIANTS if given["variant"] == "any" else (given["variant"],):
        state = playing(variant, given["trump"], given["trick"], given["hand"], given["to_play"])
        answers.append({text(move) for move in members(GAME.legal_moves(state))})
    assert all(answer == answers[0] for answer in answers)
    return answers[0]


def after_trick(given: dict[str, Any]) -> State:
    *before, (last, card) = given["trick"]
    state = after_moves(GAME, playing("amsterdam", given["trump"], before, [card], last), CODE[card])
    assert isinstance(state, State)
    return state


def trick_winner(given: dict[str, Any]) -> object:
    return COMPASS[after_trick(given).turn]


def points_of_trick(given: dict[str, Any]) -> object:
    return trick_points(codes(given["cards"]), SUITS.index(given["trump"]))


def roem(given: dict[str, Any]) -> object:
    return trick_roem(mask(codes(given["cards"])), SUITS.index(given["trump"]))


def roem_award(given: dict[str, Any]) -> object:
    state = after_trick(given)
    awarded = GAME.view(state, None).roem
    assert awarded[(state.turn + 1) % 4] == 0
    return {"winner": COMPASS[state.turn], "team": SIDES[state.turn % 2], "roem": awarded[state.turn]}


def score_of_deal(given: dict[str, Any]) -> object:
    if "plays" in given:
        return score_of_played_deal(given)
    if "tricks_in_order" in given:
        given = given | totals_of(given["tricks_in_order"])
    tricks, card_points, trick_roem = (
        (given[what]["NS"], given[what]["EW"]) for what in ("tricks", "card_points_incl_last_trick", "trick_roem")
    )
    score = deal_score(side_of(given["makers"]), tricks, card_points, trick_roem)
    pit = None if score.pit is None else SIDES[score.pit]
    return {"NS": score.points[0], "EW": score.points[1], "nat": score.nat, "pit": pit}


def totals_of(tricks: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """The totals by side of tricks in order."""
    totals = {what: dict.fromkeys(SIDES, 0) for what in ("tricks", "card_points_incl_last_trick", "trick_roem")}
    for trick in tricks:
        totals["tricks"][trick["winner"]] += 1
        totals["card_points_incl_last_trick"][trick["winner"]] += trick["card_points"]
        totals["trick_roem"][trick["winner"]] += trick["roem"]
    totals["card_points_incl_last_trick"][tricks[-1]["winner"]] += LAST_TRICK_POINTS
    return totals


def score_of_played_deal(given: dict[str, Any]) -> object:
    dealer, caller = seat_of(given["dealer"]), seat_of(given["caller"])
    hands = {seat_of(name): codes(hand) for name, hand in given["hands"].items()}
    state = dealt(dealer, hands, given["variant"])
    state = after_moves(GAME, state, *[PASS] * ((caller - dealer - 1) % 4), CALLS[f"call:{given['trump']}"])
    winners, points, roems = [], [], []
    for number, (seat, card) in enumerate(given["plays"]):
        assert state.turn == seat_of(seat)
        before = state
        state, events = decided(GAME, state, MakeMove(state.turn, CODE[card]))
        if number % 4 == 3:
            winner = state.turn if number < 31 else next(seat for seat in range(4) if takes_last(events, before, seat))
            winners.append(COMPASS[winner])
            trick = (*before.trick, CODE[card])
            points.append(trick_points(trick, before.current.trump))
            roems.append(trick_roem(mask(trick), before.current.trump))
    (record,) = GAME.view(state, None).scored
    score = {"NS": record.points[0], "EW": record.points[1]}
    assert sum(record.card_points[:2]) == sum(points) + LAST_TRICK_POINTS == 162
    assert sum(record.roem[:2]) == sum(roems)
    assert record.maker is not None
    makers = SIDES[record.maker % 2]
    pit = next((SIDES[side] for side in (0, 1) if record.tricks_won[side] + record.tricks_won[side + 2] == 8), None)
    return score | {
        "trick_winners": winners,
        "trick_points": points,
        "trick_roem": roems,
        "nat": score[makers] == 0,
        "pit": pit,
    }


def takes_last(events: tuple[Any, ...], before: State, seat: int) -> bool:
    """Whether this seat won one trick more by the deal's last card."""
    played = GAME.evolve(before, events[0])
    return GAME.view(played, None).tricks_won[seat] > GAME.view(before, None).tricks_won[seat]


def called(given: dict[str, Any]) -> State:
    calls = (CALLS[call if call == "pass" else f"call:{call}"] for call in given["calls"])
    state = after_moves(GAME, dealt(seat_of(given["dealer"])), *calls)
    assert isinstance(state, State)
    return state


def legal_bids(given: dict[str, Any]) -> object:
    state = called(given)
    return {
        "to_act": COMPASS[state.turn],
        "legal": {text(move).removeprefix("call:") for move in members(GAME.legal_moves(state))},
    }


def next_actor(given: dict[str, Any]) -> object:
    state = called(given)
    maker = GAME.view(state, None).maker
    assert maker is not None
    assert state.phase is Phase.PLAYING
    return {"phase": "play", "seat": COMPASS[state.turn], "makers": SIDES[maker % 2]}


ASKS: dict[str, Callable[[dict[str, Any]], object]] = {
    "legal_moves": legal_moves,
    "trick_winner": trick_winner,
    "trick_points": points_of_trick,
    "roem": roem,
    "roem_award": roem_award,
    "deal_score": score_of_deal,
    "legal_bids": legal_bids,
    "next_actor": next_actor,
}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_worked_case(case: dict[str, Any]) -> None:
    expected = case["expect"]
    if case["ask"] == "legal_moves":
        expected = set(expected)
    if case["ask"] == "legal_bids":
        expected = expected | {"legal": set(expected["legal"])}
    assert ASKS[case["ask"]](case["given"]) == expected


def test_pack_is_dealt_in_threes_twos_and_threes_from_forehand() -> None:
    state = after(GAME, GAME.start(setup(GAME, dealer=2)), DealCards(deck(5)))
    hands = [GAME.view(state, seat).hand for seat in range(4)]
    assert hands[3] == cards("7C 8C 9C JD QD JH QH KH")
    assert hands[0] == cards("TC JC QC KD AD AH 7S 8S")
    assert hands[1] == cards("KC AC 7D 7H 8H 9S TS JS")
    assert hands[2] == cards("8D 9D TD 9H TH QS KS AS")


def test_maker_and_forehand_are_different_things() -> None:
    state = after_moves(GAME, dealt(dealer=0), PASS, NAME_TRUMP)
    view = GAME.view(state, None)
    assert (view.maker, view.trump, state.turn) == (2, 0, 1)


def one_card_left(totals: tuple[int, int], deal_number: int, last: str) -> State:
    """W has one card left, to the last trick of a deal of NS, who have 100 card points and 20 roem against 41."""
    hands = (0, 0, 0, mask([CODE[last]]))
    records = tuple(DealRecord(number, HAND_SIZE, (0,) * 4, (8, 0, 0, 0)) for number in range(deal_number))
    sheet = Sheet(setup(GAME), (totals[0], totals[1]) * 2, records)
    deal = Deal(sheet, False, deal_number, 0, hands, trump=SUITS.index("H"), maker=0)
    tricks = tuple(Trick(ORDER[-1][leader]) for leader in (0, 0, 0, 0, 0, 1, 0))
    played = tuple(codes(["AH", "7S", "8D"]))
    return State(Phase.PLAYING, 3, sum(hands), ORDER[-1][0], played, tricks, (100, 41), (20, 0), deal)


@pytest.mark.parametrize(
    ("totals", "standings"),
    [((0, 0), (1, 3, 1, 3)), ((0, 200), (3, 1, 3, 1)), ((0, 100), (1, 1, 1, 1))],
)
def test_most_points_after_sixteen_deals_win_and_equal_totals_draw(
    totals: tuple[int, int], standings: tuple[int, ...]
) -> None:
    state = one_card_left(totals, deal_number=15, last="9C")
    # Both sides keep what they have: 100 + 20 + 11 + 10 for NS, 41 for EW.
    _, events = decided(GAME, state, MakeMove(3, CODE["9C"]))
    assert events[1:] == (DealScored(15, (141, 41, 141, 41)), Finished(standings))


def test_places_are_shared_between_partners() -> None:
    assert places((10, 3, 10, 3)) == (1, 3, 1, 3)
    assert places((3, 10, 3, 10)) == (3, 1, 3, 1)
    assert places((7, 7, 7, 7)) == (1, 1, 1, 1)


# Rejections, in the order in which they are checked.


def test_finished_game_refuses_everything() -> None:
    state = after_moves(GAME, one_card_left((0, 0), 15, "9C"), CODE["9C"])
    assert refusal(GAME, state, MakeMove(0, PASS)) is Rejection.GAME_FINISHED
    assert refusal(GAME, state, DealCards(deck(5))) is Rejection.GAME_FINISHED


@pytest.mark.parametrize(
    ("moves", "refused"),
    [
        pytest.param([], CODE["7C"], id="a card while calling"),
        pytest.param([], ORDER_UP, id="a call of another game"),
        pytest.param([], NAME_TRUMP_ALONE, id="alone"),
        pytest.param([], -1, id="no move at all"),
        pytest.param([NAME_TRUMP], PASS, id="a call while playing"),
        pytest.param([NAME_TRUMP], DISCARD + CODE["7C"], id="a discard"),
    ],
)
def test_move_of_another_phase_is_refused_whoever_makes_it(moves: list[int], refused: int) -> None:
    state = after_moves(GAME, dealt(), *moves)
    for seat in range(4):
        assert refusal(GAME, state, MakeMove(seat, refused)) is Rejection.WRONG_PHASE


def test_moves_before_the_deal_and_deals_before_the_end_are_refused() -> None:
    assert refusal(GAME, GAME.start(setup(GAME)), MakeMove(1, PASS)) is Rejection.WRONG_PHASE
    assert refusal(GAME, dealt(), DealCards(deck(5))) is Rejection.WRONG_PHASE


def test_other_seats_are_not_to_move() -> None:
    calling = dealt()
    for state, move in ((calling, PASS), (after_moves(GAME, calling, NAME_TRUMP), CODE["7C"])):
        for seat in {0, 1, 2, 3, 9} - {state.turn}:
            assert refusal(GAME, state, MakeMove(seat, move)) is Rejection.NOT_YOUR_TURN


@pytest.mark.parametrize("pack", [(), deck(5)[1:], deck(5)[:31] + deck(5)[:1], deck(4), (*deck(5)[1:], 0)])
def test_wrong_pack_is_refused(pack: tuple[Card, ...]) -> None:
    assert refusal(GAME, GAME.start(setup(GAME)), DealCards(pack)) is Rejection.BAD_PACK


def test_forehand_must_name_trump_when_all_have_passed() -> None:
    state = after_moves(GAME, dealt(dealer=1), *[PASS] * 4)
    assert refusal(GAME, state, MakeMove(2, PASS)) is Rejection.MUST_NAME_TRUMP
    assert GAME.legal_moves(state) == 0b1111 << NAME_TRUMP


MUST_FOLLOW, MUST_TRUMP = Rejection.MUST_FOLLOW_SUIT, Rejection.MUST_TRUMP
MUST_OVERTRUMP, MAY_NOT_UNDERTRUMP = Rejection.MUST_OVERTRUMP, Rejection.MAY_NOT_UNDERTRUMP


@pytest.mark.parametrize(
    ("variant", "trick", "hand", "refused"),
    [
        pytest.param("any", "7S", "8S 7H 7C", {"7H": MUST_FOLLOW, "7C": MUST_FOLLOW}, id="a plain lead"),
        pytest.param("any", "7H", "8H JH 7C", {"7C": MUST_FOLLOW}, id="a trump lead"),
        pytest.param("any", "AH", "8H JH 7C", {"8H": MUST_OVERTRUMP, "7C": MUST_FOLLOW}, id="a trump lead to beat"),
        pytest.param("any", "9H", "8H AH 7C", {"7C": MUST_FOLLOW}, id="a trump lead out of reach"),
        pytest.param("any", "7H 8H", "QH 7C", {"7C": MUST_FOLLOW}, id="a trump lead, partner behind"),
        pytest.param("any", "AH 8H", "JH 7H", {"7H": MUST_OVERTRUMP}, id="a trump lead, partner ahead"),
        pytest.param("any", "7S", "7H 8D", {"8D": MUST_TRUMP}, id="an opponent winning with a plain card"),
        pytest.param("any", "7S 8S 9H", "JH 7H 8D", {"7H": MUST_OVERTRUMP, "8D": MUST_TRUMP}, id="an opponent's ruff"),
        pytest.param(
            "amsterdam",
            "7S 8S 9H",
            "AH 7H 8D",
            {"AH": MAY_NOT_UNDERTRUMP, "7H": MAY_NOT_UNDERTRUMP},
            id="an opponent's ruff out of reach",
        ),
        pytest.param("rotterdam", "7S 8S 9H", "AH 7H 8D", {"8D": MUST_TRUMP}, id="the same in Rotterdam"),
        pytest.param("any", "7S 8S 9H", "AH 7H", {}, id="low trumps only"),
        pytest.param("amsterdam", "AS 8S", "7H 8D", {}, id="partner winning with a plain card"),
        pytest.param("rotterdam", "AS 8S", "7H 8D", {"8D": MUST_TRUMP}, id="that in Rotterdam"),
        pytest.param("amsterdam", "7S TH 8S", "9H KH AC", {"KH": MAY_NOT_UNDERTRUMP}, id="partner's ruff"),
        pytest.param(
            "rotterdam",
            "7S TH 8S",
            "9H KH AC",
            {"KH": MUST_OVERTRUMP, "AC": MUST_TRUMP},
            id="partner's ruff in Rotterdam",
        ),
        pytest.param("amsterdam", "7S TH 8S", "KH AC", {"KH": MAY_NOT_UNDERTRUMP}, id="partner's ruff out of reach"),
        pytest.param("any", "7S TH 8S", "KH QH", {}, id="partner's ruff, low trumps only"),
        pytest.param("amsterdam", "7S TH 8S", "JH KH", {"KH": MAY_NOT_UNDERTRUMP}, id="partner's ruff, trumps only"),
        pytest.param("rotterdam", "7S TH 8S", "JH KH", {"KH": MUST_OVERTRUMP}, id="that again in Rotterdam"),
    ],
)
def test_duties_and_their_exceptions(variant: str, trick: str, hand: str, refused: dict[str, Rejection]) -> None:
    """Hearts are trump, and the trick comes round to W."""
    played = trick.split()
    seats = COMPASS[3 - len(played) : 3]
    for each in VARIANTS if variant == "any" else (variant,):
        state = playing(each, "H", [list(play) for play in zip(seats, played, strict=True)], hand.split(), "W")
        answers = {name: GAME.decide(state, MakeMove(3, CODE[name])) for name in hand.split()}
        assert {name: answer for name, answer in answers.items() if isinstance(answer, Rejection)} == refused
        assert refusal(GAME, state, MakeMove(3, CODE["JD"])) is Rejection.CARD_NOT_HELD


def test_setup_refuses_other_variants_and_seats() -> None:
    draws = Chance(bytes(32))
    assert GAME.setup("standard", 4, draws) is Rejection.UNKNOWN_VARIANT
    assert GAME.setup("amsterdam", 7, draws) is Rejection.SEATS_NOT_ALLOWED
    made = GAME.setup("rotterdam", 4, draws)
    assert isinstance(made, Setup)
    assert made.hand_sizes == (HAND_SIZE,) * 16


def test_sixteen_deals_are_played() -> None:
    state = GAME.start(setup(GAME))
    for number in range(16):
        assert state.phase is Phase.AWAITING_DEAL
        pack = Chance(bytes(32)).shuffled("deal", number, GAME.deck(4))
        state = after_playing_out(GAME, after(GAME, state, DealCards(pack)))
    assert state.phase is Phase.FINISHED
