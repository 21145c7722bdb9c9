"""The steady bots of euchre and klaverjas: what they do in plain positions, and that they beat random legal play."""

import random
from types import ModuleType
from typing import Any

import pytest

from rules import euchre, klaverjas
from rules.cards import CODE, SUITS, Card
from rules.game import DealCards, Game, Seat
from rules.moves import DISCARD, ORDER_UP, PASS, Move, name_trump, text
from tests.partner_games import codes, packed, setup
from tests.playing import Chooser, after, after_moves, bot_chooser, random_chooser


def steady(game: Game, state: Any) -> str:
    """What the bot does in the seat whose turn it is."""
    return text(game.bots["steady"](game.view(state, state.turn), bytes(32)))


def euchre_dealt(dealer: Seat, upcard: str, **hands: str) -> Any:
    """A deal with these hands of seats s0 to s3."""
    held = {int(seat[1]): codes(hand.split()) for seat, hand in hands.items()}
    pack = packed(euchre.GAME, (3, 2), held, dealer, CODE[upcard])
    return after(euchre.GAME, euchre.GAME.start(setup(euchre.GAME, dealer)), DealCards(pack))


def klaverjas_dealt(dealer: Seat, **hands: str) -> Any:
    """A deal with these hands of seats s0 to s3."""
    held = {int(seat[1]): codes(hand.split()) for seat, hand in hands.items()}
    pack = packed(klaverjas.GAME, (3, 2, 3), held, dealer)
    return after(klaverjas.GAME, klaverjas.GAME.start(setup(klaverjas.GAME, dealer)), DealCards(pack))


@pytest.mark.parametrize(
    ("dealer", "hand", "upcard", "chosen"),
    [
        pytest.param(0, "9S TS 9C TC QD", "9H", "pass", id="nothing"),
        pytest.param(0, "JH AH KH AS 9C", "9H", "order_up", id="three good trumps and an ace"),
        pytest.param(0, "JH JD AH KH AS", "9H", "order_up_alone", id="all that is needed"),
        pytest.param(1, "JH KH 9C TS AD", "QH", "order_up", id="the dealer counts the upcard"),
        pytest.param(2, "JH QH 9C TC QS", "AH", "pass", id="an opponent would have the upcard"),
    ],
)
def test_euchre_first_call(dealer: Seat, hand: str, upcard: str, chosen: str) -> None:
    state = euchre_dealt(dealer, upcard, s1=hand)
    while state.turn != 1:
        state = after_moves(euchre.GAME, state, PASS)
    assert steady(euchre.GAME, state) == chosen


def test_stuck_dealer_names_the_best_of_a_bad_hand() -> None:
    state = after_moves(euchre.GAME, euchre_dealt(0, "9H", s0="9S TS QS TC 9D"), *[PASS] * 7)
    assert steady(euchre.GAME, state) == "call:S"


def test_euchre_dealer_discards_the_lone_low_card() -> None:
    state = after_moves(euchre.GAME, euchre_dealt(0, "9H", s0="JH AH AS KS TC"), PASS, PASS, PASS, ORDER_UP)
    assert steady(euchre.GAME, state) == "discard TC"


@pytest.mark.parametrize(
    ("played", "hand", "chosen", "why"),
    [
        ("", "JH 9H AS KC QD", "JH", "makers draw trumps from the top"),
        ("AS 9S TS", "KS QS 9D TD QD", "QS", "the last cannot win: throws the lowest"),
        ("QS 9S TS", "KS AS 9D TD QD", "KS", "the last wins as cheaply as it can"),
        ("QS AS TS", "KS JS 9D TD QD", "JS", "the partner has it: keeps the better card"),
        ("QS", "9H KH TD QD 9D", "9H", "second to play ruffs low"),
    ],
)
def test_euchre_card(played: str, hand: str, chosen: str, why: str) -> None:
    # Seat 1 leads and named hearts; the hand sits where its turn comes after these cards.
    names = played.split()
    held: dict[Seat, list[Card]] = {1 + place: [CODE[name]] for place, name in enumerate(names)}
    held[(1 + len(names)) % 4] = codes(hand.split())
    pack = packed(euchre.GAME, (3, 2), held, 0, CODE["AH"])
    state = after(euchre.GAME, euchre.GAME.start(setup(euchre.GAME, 0)), DealCards(pack))
    state = after_moves(euchre.GAME, state, ORDER_UP, DISCARD + CODE["AH"], *(CODE[name] for name in names))
    assert steady(euchre.GAME, state) == chosen, why


@pytest.mark.parametrize(
    ("hand", "chosen"),
    [
        ("JS 9S AS 7S AH TH 7C 7D", "call:S"),
        ("7S 8S QS 7H 8H QC JC 9D", "pass"),
        ("JS 9S 7S AH AC 7C 7D 8D", "call:S"),
    ],
)
def test_klaverjas_call(hand: str, chosen: str) -> None:
    assert steady(klaverjas.GAME, klaverjas_dealt(0, s1=hand)) == chosen


def test_forced_forehand_names_the_longest_of_a_bad_hand() -> None:
    state = after_moves(klaverjas.GAME, klaverjas_dealt(0, s1="7S 8S 9S QS 7H 8C QC 9D"), *[PASS] * 4)
    assert steady(klaverjas.GAME, state) == "call:S"


HANDS = {
    "s1": "AD 7D 8D 7S 8S 9S 7C 8C",
    "s2": "TD JD TS QS KS 9C TC JC",
    "s3": "KD 9D QC KC AC 7H 8H 9H",
}


@pytest.mark.parametrize(
    ("played", "chosen", "why"),
    [
        ("AD JD", "KD", "the partner has it: brings points"),
        ("7D TD", "9D", "cannot win: keeps the points"),
    ],
)
def test_klaverjas_card(played: str, chosen: str, why: str) -> None:
    state = after_moves(klaverjas.GAME, klaverjas_dealt(0, **HANDS), name_trump(SUITS.index("H")))
    state = after_moves(klaverjas.GAME, state, *(CODE[name] for name in played.split()))
    assert steady(klaverjas.GAME, state) == chosen, why


def points_of_first_side(module: ModuleType, state: Any, choosers: tuple[Chooser, Chooser]) -> int:
    """By how many points side 0 is ahead in the deal that begins with this state."""
    game: Game = module.GAME
    while state.turn != -1:
        move: Move = choosers[state.turn % 2](state, game.legal_moves(state))
        state = module.advance(state, move)
    points = game.view(state, None).scored[-1].points
    return points[0] - points[1]


@pytest.mark.parametrize(
    ("module", "variant"), [(euchre, "standard"), (klaverjas, "amsterdam"), (klaverjas, "rotterdam")]
)
def test_steady_is_ahead_of_random_play(module: ModuleType, variant: str) -> None:
    """Each deal is played twice with the sides exchanged. `bench bots` measures it over many more deals."""
    game: Game = module.GAME
    chance = random.Random(2026)
    steady_play, random_play = bot_chooser(game), random_chooser(2026)
    differences = []
    for number in range(100):
        pack = tuple(chance.sample(game.deck(4), len(game.deck(4))))
        state = after(game, game.start(setup(game, number % 4, variant)), DealCards(pack))
        differences.append(
            points_of_first_side(module, state, (steady_play, random_play))
            - points_of_first_side(module, state, (random_play, steady_play))
        )
    decided = [difference for difference in differences if difference]
    assert len(decided) > 50
    assert sum(difference > 0 for difference in decided) >= 0.8 * len(decided)
