"""The sharp bots: they deal what they cannot see many times over, and play out each move that they might make.

The search itself, in `rules.search`, is compiled and is imported when a bot first has something to decide, so that who
uses none does not pay for it. A decision takes up to some 30 ms of a core: run it in a process of its own, warmed up
there.
"""

from collections.abc import Iterable

from rules.bots.exact_bid import Style
from rules.chance import Chance
from rules.game import DealCards, Game, Rejection, View
from rules.moves import Move


def exact_bid(style: Style, must_trump: bool, view: View, chance: bytes) -> Move:
    """The sharp bot of Romanian whist and oh hell."""
    if _is_forced(view):
        return _first(view)
    from rules.search.exact_bid import weigh

    return _best(weigh(style, must_trump, view, chance)[0])


def euchre(view: View, chance: bytes) -> Move:
    """The sharp bot of euchre."""
    if _is_forced(view):
        return _first(view)
    from rules.search.euchre import weigh

    return _best(weigh(view, chance)[0])


def klaverjas(view: View, chance: bytes) -> Move:
    """The sharp bot of klaverjas."""
    if _is_forced(view):
        return _first(view)
    from rules.search.klaverjas import weigh

    return _best(weigh(view, chance)[0])


def warm_up(games: Iterable[Game]) -> None:
    """Load what the sharp bots of these games need, or compile it: a second or two, or half a minute the first time."""
    chance = Chance(bytes(32))
    for game in games:
        variant, allowed = next(iter(game.variants.items()))
        seats = min(allowed)
        setup = game.setup(variant, seats, chance)
        assert not isinstance(setup, Rejection)
        state = game.start(setup)
        dealt = game.decide(state, DealCards(game.deck(seats)))
        assert not isinstance(dealt, Rejection)
        for event in dealt:
            state = game.evolve(state, event)
        game.bots["sharp"](game.view(state, state.turn), bytes(32))


def _is_forced(view: View) -> bool:
    assert view.legal
    return not view.legal & (view.legal - 1)


def _first(view: View) -> Move:
    return view.legal.bit_length() - 1


def _best(worths: dict[Move, int]) -> Move:
    """Of moves that are worth as much, the one of the lowest code."""
    return max(worths, key=lambda move: (worths[move], -move))
