"""The sharp bots: what they do where there is a right thing to do, and that they can be run in another process."""

import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from bench.bots import play_pair
from rules import euchre, klaverjas, oh_hell, registry, romanian_whist
from rules.cards import CODE, SUITS, members
from rules.game import NO_SEAT, DealCards, Game, View
from rules.moves import ORDER_UP, PASS, bid, name_trump, text
from rules.search.exact_bid import weigh
from tests.partner_games import codes, packed, setup
from tests.playing import CONTESTS, after, after_moves, pack_dealing, random_chooser, setup_of, single_deal, steps


def sharp(game: Game, state: Any) -> str:
    """What the bot does in the seat whose turn it is."""
    return text(game.bots["sharp"](game.view(state, state.turn), bytes(32)))


def euchre_dealt(dealer: int, upcard: str, **hands: str) -> Any:
    """A deal with these hands of seats s0 to s3."""
    held = {int(seat[1]): codes(hand.split()) for seat, hand in hands.items()}
    pack = packed(euchre.GAME, (3, 2), held, dealer, CODE[upcard])
    return after(euchre.GAME, euchre.GAME.start(setup(euchre.GAME, dealer)), DealCards(pack))


def klaverjas_dealt(variant: str, **hands: str) -> Any:
    """A deal of seat 0 with these hands of seats s0 to s3."""
    held = {int(seat[1]): codes(hand.split()) for seat, hand in hands.items()}
    pack = packed(klaverjas.GAME, (3, 2, 3), held, 0)
    return after(klaverjas.GAME, klaverjas.GAME.start(setup(klaverjas.GAME, 0, variant)), DealCards(pack))


@pytest.mark.parametrize(
    ("hand", "upcard", "chosen"),
    [
        ("9S TS 9C TC QD", "9H", "pass"),
        ("JH AH KH AS 9C", "9H", "order_up"),
        ("JH JD AH KH AS", "9H", "order_up_alone"),
    ],
)
def test_euchre_call(hand: str, upcard: str, chosen: str) -> None:
    assert sharp(euchre.GAME, euchre_dealt(0, upcard, s1=hand)) == chosen


def test_euchre_maker_draws_trumps_when_no_other_lead_does_as_well() -> None:
    state = after_moves(euchre.GAME, euchre_dealt(0, "QH", s1="JH JD AH KH 9C"), ORDER_UP)
    discarded = after_moves(euchre.GAME, state, next(members(euchre.GAME.legal_moves(state))))
    assert sharp(euchre.GAME, discarded) in ("JH", "JD")


def test_euchre_dealer_keeps_trumps_and_the_ace() -> None:
    state = after_moves(euchre.GAME, euchre_dealt(0, "9H", s0="JH AH AS KS TC"), PASS, PASS, PASS, ORDER_UP)
    assert sharp(euchre.GAME, state) == "discard TC"


@pytest.mark.parametrize("variant", ["amsterdam", "rotterdam"])
def test_klaverjas_call(variant: str) -> None:
    assert sharp(klaverjas.GAME, klaverjas_dealt(variant, s1="JS 9S AS 7S AH TH 7C 7D")) == "call:S"
    assert sharp(klaverjas.GAME, klaverjas_dealt(variant, s1="7S 8S QS 7H 8H QC JC 9D")) == "pass"


def test_klaverjas_gives_points_to_the_partner_but_no_roem_to_opponents() -> None:
    hands = {
        "s1": "AD 7D 8D 7S 8S 9S 7C 8C",
        "s2": "TD JD TS QS KS 9C TC JC",
        "s3": "KD 9D QC KC AC 7H 8H 9H",
    }
    state = after_moves(klaverjas.GAME, klaverjas_dealt("amsterdam", **hands), name_trump(SUITS.index("H")))
    assert sharp(klaverjas.GAME, after_moves(klaverjas.GAME, state, *codes(["AD", "JD"]))) == "KD"
    # The nine would keep the king's points, but may make a run from seven to ten.
    assert sharp(klaverjas.GAME, after_moves(klaverjas.GAME, state, *codes(["7D", "TD"]))) == "KD"


@pytest.mark.parametrize("game", [oh_hell.GAME, romanian_whist.GAME])
@pytest.mark.parametrize(("hand", "chosen"), [("AS KS QS JS TS", "bid 5"), ("7C 8C 7D 8D 7H", "bid 0")])
def test_exact_bid_bids_what_is_sure(game: Game, hand: str, chosen: str) -> None:
    others = ["9C TC JC 9D TD", "8H 9H TH JH QH", "QC KC QD KD KH"]
    state = single_deal(game, pack_dealing(game.deck(4), [hand, *others], "7S"), 4, 5)
    assert sharp(game, state) == chosen


@pytest.mark.parametrize("game", [oh_hell.GAME, romanian_whist.GAME])
def test_exact_bid_ducks_once_its_bid_is_met(game: Game) -> None:
    # Seat 0 bid nothing and follows with the one card that does not win.
    pack = pack_dealing(game.deck(4), ["KC 7C", "9D 7D", "JD 8D", "JH TC"], "9S", dealer=0)
    state = single_deal(game, pack, 4, 2, dealer=0)
    state = after_moves(game, state, bid(0), bid(1), bid(0), bid(0), *codes(["9D", "JD", "TC"]))
    assert sharp(game, state) == "KC"


# As a function of view and chance alone


def decisions(game_type: str, variant: str, seats: int) -> list[View]:
    """What the seats with a choice saw in the first deal of a random game, at most twenty times."""
    game = registry.game(game_type)
    assert game is not None
    views = []
    for before, *_ in steps(game, setup_of(game, variant, seats, bytes(32)), bytes(32), random_chooser(1)):
        if before.turn != NO_SEAT and before.deal == 0:
            view = game.view(before, before.turn)
            if view.legal & (view.legal - 1):
                views.append(view)
    return views[:20]


FIRST_OF_EACH = [next(contest for contest in CONTESTS if contest[0] == game_type) for game_type in registry.GAME_TYPES]


@pytest.mark.parametrize(("game_type", "variant", "seats"), FIRST_OF_EACH)
def test_same_view_and_chance_give_the_same_move_in_another_process(game_type: str, variant: str, seats: int) -> None:
    game = registry.game(game_type)
    assert game is not None
    views = decisions(game_type, variant, seats)
    moves = [game.bots["sharp"](view, bytes(32)) for view in views]
    source = (
        "import pickle, sys; from rules import registry;"
        f" sharp = registry.game({game_type!r}).bots['sharp'];"
        " print([sharp(view, bytes(32)) for view in pickle.load(sys.stdin.buffer)])"
    )
    other = subprocess.run([sys.executable, "-c", source], input=pickle.dumps(views), capture_output=True, check=True)
    assert other.stdout.decode().strip() == str(moves)


def test_chance_decides_between_moves_that_are_much_the_same() -> None:
    """Else the test above would pass with a bot that used no chance."""
    view = decisions("oh_hell", "standard", 3)[0]
    worths = {tuple(weigh(oh_hell.STYLE, False, view, bytes([seed] * 32), 20)[0].values()) for seed in range(5)}
    assert len(worths) == 5


def test_who_has_no_choice_needs_no_compiler() -> None:
    """Nor do the services that only know the games."""
    view = decisions("euchre", "standard", 4)[-1]
    forced = pickle.dumps(replace(view, legal=view.legal & -view.legal))
    source = (
        "import pickle, sys; from rules import registry; view = pickle.load(sys.stdin.buffer);"
        " registry.game('euchre').bots['sharp'](view, bytes(32)); print('numba' in sys.modules, 'numpy' in sys.modules)"
    )
    other = subprocess.run([sys.executable, "-c", source], input=forced, capture_output=True, check=True)
    assert other.stdout.decode().split() == ["False", "False"]


@pytest.mark.slow
@pytest.mark.parametrize("game_type", registry.GAME_TYPES)
def test_sharp_is_ahead_of_steady(game_type: str) -> None:
    """Over few deals, the same for ever; `bench bots` measures it over many."""
    pairs = [play_pair(game_type, "sharp", "steady", number) for number in range(40)]
    decided = [pair.margin for pair in pairs if pair.margin]
    assert sum(margin > 0 for margin in decided) > 0.55 * len(decided)
    assert sum(decided) > 0
