"""The compiled search: unseen cards are dealt as they may lie; calls, duties and scores are those of bots and rules."""

import random
from typing import Any

import numpy as np
import pytest

from rules import euchre, exact_bid, klaverjas, oh_hell, romanian_whist
from rules.bots.klaverjas import ENOUGH_TO_NAME
from rules.cards import CODE, SUIT_CARDS, Cards, cards, mask, members
from rules.game import NO_SEAT, Game, Phase, Seat, View
from rules.klaverjas_cards import BEATS, DECK_CARDS
from rules.moves import BID, NAME_TRUMP, PASS, Move, Moves
from rules.partners import winning
from rules.search import euchre as euchre_search
from rules.search import exact_bid as exact_bid_search
from rules.search import kernels
from rules.search import klaverjas as klaverjas_search
from tests.playing import random_chooser, setup_of, steps


def words(seed: int) -> kernels.Words:
    return np.array([seed], np.uint64)


def played_at_random(game: Game, variant: str, seats: int, seed: int, *, passing: bool = False) -> list[Any]:
    """The states of a random game in which it is somebody's turn; `passing`: who may pass does."""
    setup = setup_of(game, variant, seats, seed.to_bytes(32, "big"))
    anything = random_chooser(seed)

    def choose(state: Any, legal: Moves) -> Move:
        return PASS if passing and legal >> PASS & 1 else anything(state, legal)

    random_play = steps(game, setup, seed.to_bytes(32, "big"), choose)
    return [before for before, *_ in random_play if before.turn != NO_SEAT]


# Dealing what is unseen


@pytest.mark.parametrize("seed", range(300))
def test_cards_are_dealt_only_to_those_who_may_have_them(seed: int) -> None:
    chance = random.Random(seed)
    holders = chance.randint(2, 8)
    unseen = chance.sample(range(52), chance.randint(holders, 40))
    # As it truly lies, with as many suits excluded as that allows: often there is but one way.
    true_hands: list[list[int]] = [[] for _ in range(holders)]
    for card in unseen:
        chance.choice(true_hands).append(card)
    allowed = []
    for hand in true_hands:
        excluded = {card for card in unseen if card not in hand and chance.random() < chance.choice((0.2, 0.9))}
        allowed.append(mask(set(unseen) - excluded))
    counts = [len(hand) for hand in true_hands]
    hands = np.zeros(holders, np.int64)
    kernels.deal(words(seed + 1), mask(unseen), np.array(allowed, np.int64), np.array(counts, np.int64), hands)
    dealt: list[Cards] = hands.tolist()
    assert [hand.bit_count() for hand in dealt] == counts
    assert all(not hand & ~may for hand, may in zip(dealt, allowed, strict=True))
    assert sum(dealt) == mask(unseen)


def test_without_constraints_every_card_goes_everywhere_as_often() -> None:
    unseen, holders, rounds = mask(range(0, 52, 2)), 4, 8000
    counts = np.array([5, 5, 5, 11], np.int64)
    allowed = np.array([unseen] * holders, np.int64)
    state = words(2026)
    found = np.zeros((holders, 52), int)
    for _ in range(rounds):
        hands = np.zeros(holders, np.int64)
        kernels.deal(state, unseen, allowed, counts, hands)
        for holder, hand in enumerate(hands.tolist()):
            found[holder, list(members(hand))] += 1
    for holder, size in enumerate(counts):
        share = size / 26
        # Four standard deviations, for this seed for ever.
        spread = 4 * (rounds * share * (1 - share)) ** 0.5
        assert abs(found[holder, ::2] - rounds * share).max() < spread


def test_words_depend_on_the_chance_and_on_what_was_seen() -> None:
    states = played_at_random(oh_hell.GAME, "standard", 4, 1)[:40]
    views = [oh_hell.GAME.view(state, state.turn) for state in states]
    drawn = {int(kernels.words_for(view, chance)[0]) for view in views for chance in (bytes(32), bytes([1] * 32))}
    assert len(drawn) == 80


# What play has shown


@pytest.mark.parametrize(
    ("game", "variant", "seats"),
    [
        (euchre.GAME, "standard", 4),
        (klaverjas.GAME, "amsterdam", 4),
        (klaverjas.GAME, "rotterdam", 4),
        (oh_hell.GAME, "standard", 7),
        (romanian_whist.GAME, "8-1-8", 5),
    ],
)
def test_nobody_holds_what_its_play_excludes(game: Game, variant: str, seats: int) -> None:
    excluded = 0
    for seed in range(12):
        for state in played_at_random(game, variant, seats, seed):
            view = game.view(state, state.turn)
            for seat, lacking in enumerate(lacking_by_seat(game, view)):
                assert not hand_of(state, seat) & lacking
                excluded += lacking.bit_count()
    assert excluded


def lacking_by_seat(game: Game, view: View) -> list[Cards]:
    """By seat, the cards that the search does not deal it."""
    if game is euchre.GAME:
        return euchre_search.played_and_lacking(view)[1]
    if game is klaverjas.GAME:
        return klaverjas_search.played_and_lacking(view, view.variant == "rotterdam")[1]
    trump = 0 if view.trump is None else 0x1FFF << 13 * view.trump
    return exact_bid_search.played_and_lacking(view, trump if game is romanian_whist.GAME else 0)[1]


def hand_of(state: Any, seat: Seat) -> Cards:
    """The cards that a seat truly holds."""
    held: Cards = state.held
    if isinstance(state, exact_bid.State):
        held ^= mask(state.trick)
    hands: tuple[Cards, ...] = state.current.hands
    return hands[seat] & held


@pytest.mark.parametrize(
    ("card", "variant", "lacks"),
    [
        # Clubs are trump; the trick so far and the card of the next seat.
        ("7D TD | 8S", "amsterdam", "diamonds, and of trumps all"),
        ("AD 7D | 8S", "amsterdam", "diamonds"),
        ("AD 7D | 8S", "rotterdam", "diamonds, and of trumps all"),
        ("7D 9C | 8C", "amsterdam", "all but low trumps"),
        ("7D 9C | 8C", "rotterdam", "diamonds, and of trumps the jack"),
        ("9C 7C | 8C", "amsterdam", "of trumps the jack"),
        ("9C | JC", "amsterdam", "nothing"),
        ("7D 9C | 8D", "amsterdam", "nothing"),
    ],
)
def test_what_a_card_of_klaverjas_excludes(card: str, variant: str, lacks: str) -> None:
    before, played = card.split(" | ")
    trick = tuple(CODE[name] for name in before.split())
    lacking = klaverjas_search.lacking_after(trick, CODE[played], 0, variant == "rotterdam") & DECK_CARDS
    clubs, diamonds = SUIT_CARDS[0] & DECK_CARDS, SUIT_CARDS[1] & DECK_CARDS
    assert (
        lacking
        == {
            "nothing": 0,
            "diamonds": diamonds,
            "diamonds, and of trumps all": diamonds | clubs,
            "diamonds, and of trumps the jack": diamonds | cards("JC"),
            "of trumps the jack": cards("JC"),
            "all but low trumps": DECK_CARDS & ~clubs | cards("JC"),
        }[lacks]
    )


# Calls and duties as the bots and the engines have them


def test_euchre_calls_are_those_of_the_steady_bot() -> None:
    calls: set[Move] = set()
    for seed in range(30):
        for state in played_at_random(euchre.GAME, "standard", 4, seed, passing=True):
            if state.phase is Phase.BIDDING:
                view = euchre.GAME.view(state, state.turn)
                assert view.turned is not None
                call = euchre_search.call_of(view.hand, state.turn, len(view.calls), view.dealer, 1 << view.turned)
                assert call == euchre.GAME.bots["steady"](view, b"")
                calls.add(call)
    assert len(calls) > 7


def test_klaverjas_calls_are_those_of_the_steady_bot() -> None:
    for seed in range(5):
        for state in played_at_random(klaverjas.GAME, "amsterdam", 4, seed, passing=True):
            if state.phase is Phase.BIDDING:
                view = klaverjas.GAME.view(state, state.turn)
                suit = klaverjas_search.best_suit(view.hand)
                names = len(view.calls) == 4 or klaverjas_search.strength(view.hand, suit) >= ENOUGH_TO_NAME
                assert (NAME_TRUMP + suit if names else PASS) == klaverjas.GAME.bots["steady"](view, b"")


@pytest.mark.parametrize(("game", "seats"), [(oh_hell.GAME, 4), (oh_hell.GAME, 7), (romanian_whist.GAME, 6)])
def test_bids_are_those_of_the_steady_bot(game: Game, seats: int) -> None:
    variant = next(iter(game.variants))
    bids: set[int] = set()
    for seed in range(4):
        for state in played_at_random(game, variant, seats, seed):
            if state.phase is not Phase.BIDDING:
                continue
            view = game.view(state, state.turn)
            made = [call - BID for _, call in view.calls]
            by_seat = np.full(seats, -1, np.int64)
            for (seat, _), bid in zip(view.calls, made, strict=True):
                by_seat[seat] = bid
            hands = np.array([hand_of(state, seat) for seat in range(seats)], np.int64)
            deck = mask(game.deck(seats))
            trump = 0
            if view.turned is not None:
                deck ^= 1 << view.turned
                trump = 0x1FFF << view.turned // 13 * 13
            exact_bid_search.bid_on(hands, by_seat, view.dealer, deck, view.hand_size, trump, seats)
            chosen = game.bots["steady"](view, b"") - BID
            assert by_seat[state.turn] == chosen
            bids.add(chosen)
    assert len(bids) > 3


@pytest.mark.parametrize("variant", ["amsterdam", "rotterdam"])
def test_klaverjas_duties_are_those_of_the_engine(variant: str) -> None:
    for seed in range(10):
        for state in played_at_random(klaverjas.GAME, variant, 4, seed):
            if state.phase is Phase.PLAYING and state.trick:
                place = winning(state.trick, BEATS[state.current.trump])
                legal = klaverjas_search.legal_cards(
                    hand_of(state, state.turn),
                    1 << state.trick[0],
                    1 << state.trick[place],
                    place == len(state.trick) - 2,
                    state.current.trump,
                    variant == "rotterdam",
                )
                assert legal == klaverjas.legal_moves(state)


# Playing out, where nothing is left to choose: the last trick, from each of its seats


@pytest.mark.parametrize("variant", ["amsterdam", "rotterdam"])
def test_klaverjas_last_trick_scores_as_in_the_engine(variant: str) -> None:
    values: set[int] = set()
    for seed in range(20):
        for state in played_at_random(klaverjas.GAME, variant, 4, seed):
            if len(state.tricks) < 7:
                continue
            view = klaverjas.GAME.view(state, None)
            tricks = np.array([view.tricks_won[side] + view.tricks_won[side + 2] for side in (0, 1)], np.int64)
            points = np.array([view.card_points[side] + view.roem[side] for side in (0, 1)], np.int64)
            trump, maker = state.current.trump, state.current.maker
            trick = klaverjas_search.open_trick(view, trump)
            hands = hands_of(state, 4)
            klaverjas_search.play_out(hands, trump, variant == "rotterdam", state.turn, trick, tricks, points, 0)
            value = klaverjas_search.ahead_by(0, maker, tricks, points)
            scored = scored_points(klaverjas.GAME, state)
            assert value == scored[0] - scored[1]
            values.add(value)
    # Made, nat, and either side ahead.
    assert {162, -162} < values
    assert any(0 < abs(value) < 100 for value in values)


def test_euchre_last_trick_scores_as_in_the_engine() -> None:
    values: set[int] = set()
    for seed in range(60):
        for state in played_at_random(euchre.GAME, "standard", 4, seed):
            if len(state.tricks) < 4:
                continue
            view = euchre.GAME.view(state, None)
            tricks = np.array([view.tricks_won[side] + view.tricks_won[side + 2] for side in (0, 1)], np.int64)
            trump, maker, idle = state.current.trump, state.current.maker, state.current.sitting_out
            trick = euchre_search.open_trick(view, trump)
            hands = np.append(hands_of(state, 4), 0)
            euchre_search.play_out(hands, trump, maker, idle, state.turn, trick, tricks, 0)
            value = euchre_search.ahead_by(0, maker, idle, tricks)
            scored = scored_points(euchre.GAME, state)
            assert value == scored[0] - scored[1]
            values.add(value)
    assert values >= {-2, -1, 1, 2, 4} or values >= {-4, -2, -1, 1, 2}


@pytest.mark.parametrize(("game", "seats"), [(oh_hell.GAME, 3), (oh_hell.GAME, 7), (romanian_whist.GAME, 5)])
def test_exact_bid_last_trick_scores_as_in_the_engine(game: Game, seats: int) -> None:
    values: set[int] = set()
    for seed in range(8):
        for state in played_at_random(game, next(iter(game.variants)), seats, seed):
            view = game.view(state, None)
            if state.phase is not Phase.PLAYING or len(state.tricks) < view.hand_size - 1:
                continue
            bids, won = np.zeros(seats, np.int64), np.array(view.tricks_won, np.int64)
            for seat, call in view.calls:
                bids[seat] = call - BID
            trump = state.current.trump_cards
            trick = exact_bid_search.open_trick(view, trump)
            exact_bid_search.play_out(
                hands_of(state, seats), seats, state.turn, trick, 0, trump, state.current.duty, bids, won, True
            )
            tricks_score = game is oh_hell.GAME
            points = [exact_bid_search.points_of(bids[seat], won[seat], tricks_score) for seat in range(seats)]
            assert tuple(points) == scored_points(game, state)
            values.update(points)
    assert len(values) > 5


def hands_of(state: Any, seats: int) -> kernels.Ints:
    """All that is truly held, by seat."""
    return np.array([hand_of(state, seat) for seat in range(seats)], np.int64)


def scored_points(game: Game, state: Any) -> tuple[int, ...]:
    """The points of the deal once the last trick is played, in which nobody has a choice."""
    while state.turn != NO_SEAT and state.phase is not Phase.FINISHED:
        state = game.advance(state, next(members(game.legal_moves(state))))
    points: tuple[int, ...] = state.current.sheet.scored[-1].points
    return points


# Compiled code that is kept


def test_kept_code_is_for_this_source_only(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = kernels._Cache(kernels.below.py_func)  # type: ignore[attr-defined, no-untyped-call]
    codegen = kernels.below.targetctx.codegen()  # type: ignore[attr-defined]
    before = cache._index_key((), codegen)
    monkeypatch.setattr(kernels, "FINGERPRINT", "of other source")
    assert cache._index_key((), codegen) != before


def test_kernels_are_compiled_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(_function: Any) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(kernels, "_Cache", nowhere)

    def double(number: int) -> int:
        return 2 * number

    assert kernels.kernel(double)(21) == 42
