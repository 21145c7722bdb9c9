"""Romanian whist and oh hell over random deals: no card is lost, every trick counted, and nothing is given away."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules import exact_bid
from rules.cards import BIT, SAME_SUIT, SUIT_CARDS, Cards, mask, members
from rules.game import DealCards, DealScored, Dealt, Event, Game, MakeMove, Phase, View
from rules.moves import CARD_END
from rules.registry import game as game_of
from tests.playing import CONTESTS, fold, random_chooser, setup_of, steps

EXACT_BID = [contest for contest in CONTESTS if contest[0] in {"romanian_whist", "oh_hell"}]
SEEDS = st.binary(min_size=32, max_size=32)

every_contest = pytest.mark.parametrize(("game_type", "variant", "seats"), EXACT_BID)


def engine(game_type: str) -> Game:
    found = game_of(game_type)
    assert found is not None
    return found


def in_tricks(view: View) -> list[int]:
    """The cards played so far, as often as they were played."""
    return [card for trick in (*view.tricks, view.trick) for card in trick.cards]


@every_contest
@settings(max_examples=3)
@given(seed=SEEDS, choices=st.integers())
def test_cards_are_conserved(game_type: str, variant: str, seats: int, seed: bytes, choices: int) -> None:
    game = engine(game_type)
    dealt: Sequence[int] = ()
    for _, command, _, state in steps(game, setup_of(game, variant, seats, seed), seed, random_chooser(choices)):
        if isinstance(command, DealCards):
            dealt = command.pack[: seats * game.view(state, None).hand_size]
        if state.phase in (Phase.BIDDING, Phase.PLAYING):
            hands = [card for seat in range(seats) for card in members(game.view(state, seat).hand)]
            assert sorted([*hands, *in_tricks(game.view(state, None))]) == sorted(dealt)


@every_contest
@settings(max_examples=3)
@given(seed=SEEDS, choices=st.integers())
def test_every_trick_is_counted_and_somebody_misses(
    game_type: str, variant: str, seats: int, seed: bytes, choices: int
) -> None:
    game = engine(game_type)
    setup = setup_of(game, variant, seats, seed)
    *_, (_, _, _, state) = steps(game, setup, seed, random_chooser(choices))
    scored = game.view(state, None).scored
    assert [record.hand_size for record in scored] == list(setup.hand_sizes)
    for record in scored:
        assert sum(record.tricks_won) == record.hand_size
        assert sum(record.bids) != record.hand_size
        exact = [bid == won for bid, won in zip(record.bids, record.tricks_won, strict=True)]
        assert not all(exact)
        if game_type == "oh_hell":
            assert sum(record.points) == record.hand_size + 10 * sum(exact)
        else:
            for bid, won, points in zip(record.bids, record.tricks_won, record.points, strict=True):
                assert points == (5 + bid if bid == won else -abs(bid - won))


@every_contest
@settings(max_examples=3)
@given(seed=SEEDS, choices=st.integers())
def test_each_card_answers_the_trick_and_the_best_takes_it(
    game_type: str, variant: str, seats: int, seed: bytes, choices: int
) -> None:
    """The rules of play again, written down for single cards and played hands."""
    game = engine(game_type)
    for before, command, events, after in steps(
        game, setup_of(game, variant, seats, seed), seed, random_chooser(choices)
    ):
        if not isinstance(command, MakeMove) or command.move >= CARD_END:
            continue
        view = game.view(before, command.seat)
        card, trick = command.move, view.trick.cards
        trumps = 0 if view.trump is None else SUIT_CARDS[view.trump]
        if trick and not BIT[card] & SAME_SUIT[trick[0]]:
            assert not view.hand & SAME_SUIT[trick[0]]
            if game_type == "romanian_whist" and not BIT[card] & trumps:
                assert not view.hand & trumps
        if len(trick) == seats - 1 and len(events) == 1:
            taken = game.view(after, None).tricks[-1]
            ruffs = [each for each in taken.cards if BIT[each] & trumps]
            followed = [each for each in taken.cards if BIT[each] & SAME_SUIT[taken.cards[0]]]
            winner = taken.seats[taken.cards.index(max(ruffs or followed))]
            assert after.turn == winner
            assert game.view(after, None).tricks_won[winner] == view.tricks_won[winner] + 1


@every_contest
@settings(max_examples=3)
@given(seed=SEEDS, choices=st.integers())
def test_advance_is_the_fold_of_the_consequences(
    game_type: str, variant: str, seats: int, seed: bytes, choices: int
) -> None:
    game = engine(game_type)
    for before, command, events, after in steps(
        game, setup_of(game, variant, seats, seed), seed, random_chooser(choices)
    ):
        if isinstance(command, MakeMove):
            assert exact_bid.consequences(before, command.move) == events
            assert game.advance(before, command.move) == after


@every_contest
@settings(max_examples=4)
@given(seed=SEEDS, choices=st.integers())
def test_twins_show_a_viewer_the_same(game_type: str, variant: str, seats: int, seed: bytes, choices: int) -> None:
    """Shuffle all that a viewer cannot know, play the same again: the view must not change."""
    game = engine(game_type)
    chance = random.Random(choices)
    deal: list[Event] = []
    awaiting: Any = None
    told_apart = 0
    for before, command, events, state in steps(
        game, setup_of(game, variant, seats, seed), seed, random_chooser(choices)
    ):
        if isinstance(command, DealCards):
            awaiting, deal = before, []
        if any(isinstance(event, DealScored) for event in events):
            continue
        deal += events
        if chance.random() < 0.2:
            viewer = chance.choice([*range(seats), None])
            twin = fold(game, awaiting, [shuffled_twin(game, state, viewer, deal[0], chance), *deal[1:]])
            assert game.view(twin, viewer) == game.view(state, viewer)
            told_apart += twin != state
    assert told_apart


def shuffled_twin(game: Game, state: Any, viewer: int | None, dealt: Event, chance: random.Random) -> Dealt:
    """The deal with the cards shuffled that the viewer has not seen by now."""
    assert isinstance(dealt, Dealt)
    view = game.view(state, viewer)
    seen: Cards = view.hand | mask(in_tricks(view))
    if view.turned is not None:
        seen |= BIT[view.turned]
    hidden = [place for place, card in enumerate(dealt.pack) if not BIT[card] & seen]
    pack = list(dealt.pack)
    for place, card in zip(hidden, chance.sample([pack[place] for place in hidden], len(hidden)), strict=True):
        pack[place] = card
    return Dealt(dealt.deal, dealt.dealer, tuple(pack))
