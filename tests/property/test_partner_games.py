"""Euchre and klaverjas over random deals, and their tables against the rules told in other words."""

import random
from collections.abc import Sequence
from itertools import combinations
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules import euchre, euchre_cards, klaverjas, klaverjas_cards
from rules.cards import BIT, CODE, NAME, RANKS, SUIT_CARDS, SUIT_OF, SUITS, Card, deck, mask, members
from rules.game import DealCards, DealScored, Dealt, Event, Game, MakeMove, Moved, Phase, Setup, View
from rules.klaverjas_cards import trick_roem
from rules.moves import DISCARD, ORDER_UP, ORDER_UP_ALONE
from rules.partners import ORDER, PARTNER, Sheet, winning
from tests.playing import random_chooser, setup_of, steps

SEEDS = st.binary(min_size=32, max_size=32)
CONTESTS = [(module, variant) for module in (euchre, klaverjas) for variant in module.GAME.variants]

every_contest = pytest.mark.parametrize(
    ("module", "variant"), CONTESTS, ids=[f"{module.GAME_TYPE}-{variant}" for module, variant in CONTESTS]
)


def in_tricks(view: View) -> list[Card]:
    """The cards played so far, as often as they were played."""
    return [card for trick in (*view.tricks, view.trick) for card in trick.cards]


@settings(max_examples=10)
@given(seed=SEEDS, choices=st.integers())
def test_euchre_keeps_its_cards(seed: bytes, choices: int) -> None:
    game = euchre.GAME
    pack: tuple[Card, ...] = ()
    for _, command, _, state in steps(game, setup_of(game, "standard", 4, seed), seed, random_chooser(choices)):
        if isinstance(command, DealCards):
            pack = command.pack
        if state.phase in (Phase.AWAITING_DEAL, Phase.FINISHED):
            continue
        views = [game.view(state, seat) for seat in range(4)]
        hands = [card for view in views for card in members(view.hand)]
        laid_away = [view.discarded for view in views if view.discarded is not None]
        taken_up = any(move in (ORDER_UP, ORDER_UP_ALONE) for _, move in views[0].calls)
        assert sorted([*hands, *in_tricks(views[0]), *laid_away]) == sorted(pack[: 20 + taken_up])


@settings(max_examples=10)
@given(seed=SEEDS, choices=st.integers())
def test_euchre_deals_have_five_tricks_with_and_without_a_loner(seed: bytes, choices: int) -> None:
    game = euchre.GAME
    for before, _, events, state in steps(game, setup_of(game, "standard", 4, seed), seed, random_chooser(choices)):
        deal = before.current
        active = {0, 1, 2, 3} - {deal.sitting_out}
        assert before.turn in active | {-1}
        if not any(isinstance(event, DealScored) for event in events):
            continue
        assert len(before.tricks) == 4
        assert all(set(trick.seats) == active for trick in before.tricks)
        assert deal.sitting_out in (-1, PARTNER[deal.maker])
        record = game.view(state, None).scored[-1]
        makers, defenders = deal.maker % 2, 1 - deal.maker % 2
        won = record.tricks_won[makers] + record.tricks_won[makers + 2]
        assert sum(record.tricks_won) == 5
        march = 2 if deal.sitting_out == -1 else 4
        assert record.points[makers] == {5: march, 4: 1, 3: 1}.get(won, 0)
        assert record.points[defenders] == (2 if won < 3 else 0)
        assert record.points[:2] == record.points[2:]


@pytest.mark.parametrize("variant", klaverjas.VARIANTS)
@settings(max_examples=10)
@given(seed=SEEDS, choices=st.integers())
def test_klaverjas_keeps_its_cards_and_accounts_for_every_point(variant: str, seed: bytes, choices: int) -> None:
    game = klaverjas.GAME
    for _, _, events, state in steps(game, setup_of(game, variant, 4, seed), seed, random_chooser(choices)):
        if state.phase in (Phase.BIDDING, Phase.PLAYING):
            hands = [card for seat in range(4) for card in members(game.view(state, seat).hand)]
            assert sorted([*hands, *in_tricks(game.view(state, None))]) == list(deck(5))
        if not any(isinstance(event, DealScored) for event in events):
            continue
        record = game.view(state, None).scored[-1]
        assert record.maker is not None
        won = [record.tricks_won[side] + record.tricks_won[side + 2] for side in (0, 1)]
        assert sum(won) == 8
        assert sum(record.card_points[:2]) == 162
        assert sum(record.points[:2]) == 162 + sum(record.roem[:2]) + 100 * (8 in won)
        makers, defenders = record.points[record.maker % 2], record.points[1 - record.maker % 2]
        assert makers == 0 or makers > defenders


@every_contest
@settings(max_examples=3)
@given(seed=SEEDS, choices=st.integers())
def test_advance_is_the_fold_of_the_consequences(module: ModuleType, variant: str, seed: bytes, choices: int) -> None:
    game: Game = module.GAME
    for before, command, events, after in steps(game, setup_of(game, variant, 4, seed), seed, random_chooser(choices)):
        if isinstance(command, MakeMove):
            assert module.consequences(before, command.move) == events
            assert game.advance(before, command.move) == after


@every_contest
@settings(max_examples=6)
@given(seed=SEEDS, choices=st.integers())
def test_twins_show_a_viewer_the_same(module: ModuleType, variant: str, seed: bytes, choices: int) -> None:
    """Shuffle all that a viewer cannot know, play the same again: the view must not change."""
    game: Game = module.GAME
    chance = random.Random(choices)
    deal: list[Event] = []
    awaiting: Any = None
    told_apart = 0
    for before, command, events, state in steps(game, setup_of(game, variant, 4, seed), seed, random_chooser(choices)):
        if isinstance(command, DealCards):
            awaiting, deal = before, []
        if any(isinstance(event, DealScored) for event in events):
            continue
        deal += events
        if chance.random() < 0.2:
            viewer = chance.choice([0, 1, 2, 3, None])
            twin = twin_of(game, state, viewer, awaiting, deal, chance)
            assert game.view(twin, viewer) == game.view(state, viewer)
            told_apart += twin != state
    assert told_apart


def twin_of(
    game: Game, state: Any, viewer: int | None, awaiting: Any, deal: Sequence[Event], chance: random.Random
) -> Any:
    """The deal played again with all shuffled that a viewer cannot know: the cards, and which one was discarded."""
    view = game.view(state, viewer)
    played = in_tricks(view)
    dealt, *moves = deal
    assert isinstance(dealt, Dealt)
    seen = {*members(view.hand), *played, view.turned, view.discarded}
    hidden = [card for card in dealt.pack if card not in seen]
    swapped = dict(zip(hidden, chance.sample(hidden, len(hidden)), strict=True))
    pack = tuple(swapped.get(card, card) for card in dealt.pack)
    twin = game.evolve(awaiting, Dealt(dealt.deal, dealt.dealer, pack))
    for event in moves:
        if isinstance(event, Moved) and event.move >= DISCARD and view.discarded is None:
            # Any of the six but those that the dealer was seen to play later.
            six = [move for move in members(game.legal_moves(twin)) if move - DISCARD not in played]
            twin = game.evolve(twin, Moved(event.seat, chance.choice(six)))
        else:
            twin = game.evolve(twin, event)
    return twin


# The tables, against the rules told in other words.


def euchre_suit(name: str, trump: str) -> str:
    """The suit that a card belongs to."""
    colour = {"C": "S", "S": "C", "D": "H", "H": "D"}
    return trump if name == "J" + colour[trump] else name[1]


def euchre_rank(name: str, trump: str) -> int:
    """A card's rank within its suit."""
    if euchre_suit(name, trump) == trump and name[0] == "J":
        return 20 if name[1] == trump else 19
    return RANKS.index(name[0])


@pytest.mark.parametrize("trump", SUITS)
def test_what_beats_what_in_euchre(trump: str) -> None:
    beats = euchre_cards.BEATS[SUITS.index(trump)]
    same_suit = euchre_cards.SAME_SUIT[SUITS.index(trump)]
    for first in deck(7):
        for second in deck(7):
            one, other = NAME[first], NAME[second]
            same = euchre_suit(one, trump) == euchre_suit(other, trump)
            higher = same and euchre_rank(other, trump) > euchre_rank(one, trump)
            ruffs = not same and euchre_suit(other, trump) == trump
            assert bool(beats[first] & BIT[second]) == (higher or ruffs)
            assert bool(same_suit[first] & BIT[second]) == same


@settings(max_examples=20)
@given(seed=SEEDS, choices=st.integers())
def test_euchre_cards_follow_suit_and_the_best_takes_the_trick(seed: bytes, choices: int) -> None:
    game = euchre.GAME
    for before, command, _, after in steps(game, setup_of(game, "standard", 4, seed), seed, random_chooser(choices)):
        if not isinstance(command, MakeMove) or before.phase is not Phase.PLAYING:
            continue
        view = game.view(before, command.seat)
        assert view.trump is not None
        trump = SUITS[view.trump]
        hand = [NAME[card] for card in members(view.hand)]
        if view.trick.cards:
            led = euchre_suit(NAME[view.trick.cards[0]], trump)
            following = {name for name in hand if euchre_suit(name, trump) == led}
            assert {NAME[move] for move in members(view.legal)} == (following or set(hand))
        else:
            assert {NAME[move] for move in members(view.legal)} == set(hand)
        tricks = game.view(after, None).tricks
        if len(tricks) > len(view.tricks):
            names = [NAME[card] for card in tricks[-1].cards]
            led = euchre_suit(names[0], trump)
            ruffs = [name for name in names if euchre_suit(name, trump) == trump]
            inside = ruffs or [name for name in names if euchre_suit(name, trump) == led]
            best = max(inside, key=lambda name: euchre_rank(name, trump))
            assert after.turn == tricks[-1].seats[names.index(best)]


def klaverjas_rank(name: str, trump: str) -> int:
    """A card's rank within its suit."""
    return ("78QKTA9J" if name[1] == trump else "789JQKTA").index(name[0])


def klaverjas_taker(trick: Sequence[str], trump: str) -> int:
    """The place of the card that is winning."""
    trumps = [name for name in trick if name[1] == trump]
    inside = trumps or [name for name in trick if name[1] == trick[0][1]]
    return trick.index(max(inside, key=lambda name: klaverjas_rank(name, trump)))


def klaverjas_allows(name: str, hand: Sequence[str], trick: Sequence[str], trump: str, rotterdam: bool) -> bool:
    """games.md, 4, "Play", clause by clause."""
    trumps = [held for held in hand if held[1] == trump]
    highest = max((klaverjas_rank(played, trump) for played in trick if played[1] == trump), default=-1)
    over = [held for held in trumps if klaverjas_rank(held, trump) > highest]
    if not trick:
        return True
    led = trick[0][1]
    # When trump is led: higher than every trump in the trick; unable to, any trump.
    if led == trump:
        return name in (over or trumps or hand)
    following = [held for held in hand if held[1] == led]
    if following or not trumps:
        return name in (following or hand)
    # Rotterdam: always trump, over if possible.
    if rotterdam:
        return name in (over or trumps)
    plain = [held for held in hand if held[1] != trump]
    partner_wins = klaverjas_taker(trick, trump) == len(trick) - 2
    # Amsterdam, an opponent is winning: trump over; with low trumps only discard, unless they are all you hold.
    if not partner_wins:
        return name in (over or plain or hand)
    # Amsterdam, partner is winning: anything but a trump below the partner's, unless they are all you hold.
    is_low = name[1] == trump and klaverjas_rank(name, trump) < highest
    return not is_low or not (over or plain)


@pytest.mark.parametrize("variant", klaverjas.VARIANTS)
@settings(max_examples=300)
@given(
    cards=st.permutations(deck(5)),
    trump=st.integers(0, 3),
    played=st.integers(0, 3),
    held=st.integers(1, 8),
)
def test_klaverjas_duties(variant: str, cards: list[Card], trump: int, played: int, held: int) -> None:
    trick, hand = tuple(cards[:played]), cards[played : played + held]
    deal = klaverjas.Deal(
        sheet=Sheet(Setup(variant, 4, 0, (8,) * 16)),
        rotterdam=variant == klaverjas.ROTTERDAM,
        number=0,
        dealer=0,
        hands=(mask(hand), 0, 0, 0),
        trump=trump,
        maker=0,
    )
    order = ORDER[-1][-played % 4]
    state = klaverjas.State(Phase.PLAYING, 0, mask(hand), order, trick, (), (0, 0), (0, 0), deal)
    names, trick_names = [NAME[card] for card in hand], [NAME[card] for card in trick]
    assert {NAME[move] for move in members(klaverjas.legal_moves(state))} == {
        name
        for name in names
        if klaverjas_allows(name, names, trick_names, SUITS[trump], variant == klaverjas.ROTTERDAM)
    }


@given(trick=st.permutations(deck(5)), trump=st.integers(0, 3))
def test_klaverjas_tricks_go_to_the_best_card(trick: list[Card], trump: int) -> None:
    for length in range(1, 5):
        names = [NAME[card] for card in trick[:length]]
        assert winning(tuple(trick[:length]), klaverjas_cards.BEATS[trump]) == klaverjas_taker(names, SUITS[trump])


def roem_in_words(names: Sequence[str], trump: str) -> int:
    """games.md, 4, "Roem", by looking at every three and four cards."""
    ranks, suits = {name[0] for name in names}, {name[1] for name in names}
    four_alike = {"K": 100, "Q": 100, "A": 100, "T": 100, "J": 200}.get(names[0][0], 0) if len(ranks) == 1 else 0
    order = "AKQJT987"
    runs = [order[start : start + length] for length in (3, 4) for start in range(9 - length)]
    longest = max(
        (len(run) for run in runs for suit in suits if {rank + suit for rank in run} <= set(names)), default=0
    )
    stuk = 20 if {"K" + trump, "Q" + trump} <= set(names) else 0
    return four_alike + {0: 0, 3: 20, 4: 50}[longest] + stuk


def test_roem_of_every_trick_there_is() -> None:
    for cards in combinations(deck(5), 4):
        names = [NAME[card] for card in cards]
        # Trump matters to stuk alone: it is enough to try the suits that have a king in the trick.
        for trump in {SUIT_OF[CODE[name]] for name in names if name[0] == "K"} or {0}:
            assert trick_roem(mask(cards), trump) == roem_in_words(names, SUITS[trump])


def test_trumps_of_klaverjas_outrank_all_else() -> None:
    for trump in range(4):
        for card in deck(5):
            over = klaverjas_cards.OVER[trump][card]
            assert over & ~SUIT_CARDS[trump] == 0
            assert SUIT_OF[card] == trump or over == mask(deck(5)) & SUIT_CARDS[trump]
