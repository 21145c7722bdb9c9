"""Random deals of euchre and oh hell, held move by move against OpenSpiel: whose turn, what is legal, what it scores.

What is compared, and where its rules are not ours:
- oh hell: all of a deal, the hook included. It plays single deals, so that each deal of our games is one of its own.
- euchre: it asks the maker whether to go alone after the dealer has discarded, where ours says so with the call; an
  idle dealer discards there and not with us; and it does not let the dealer lay the upcard itself away. Its result is
  the points of the side that scores, and as many below zero for the other.
"""

import random
from typing import Any

import pyspiel
import pytest

from rules import euchre, oh_hell
from rules.cards import NAME, Card, members
from rules.game import NO_SEAT, DealCards, Phase, Seat, Setup
from rules.moves import BID, DISCARD, NAME_TRUMP, NAME_TRUMP_ALONE, ORDER_UP, ORDER_UP_ALONE, PASS, Move
from tests.playing import after, setup_of

# Its order of suits in the two games, and what its actions start from.
EUCHRE_SUITS = "CDHS"
OH_HELL_SUITS = "CDSH"
THEIR_BID = 52
THEIR_PASS = 24
THEIR_NAME = 25
THEIR_ALONE, THEIR_PARTNER = 29, 30


def their_card(card: Card, lowest_rank: int, suits: str) -> int:
    """Its code of a card: by rank, then by suit."""
    return (card % 13 - lowest_rank) * 4 + suits.index(NAME[card][1])


def deal_theirs(theirs: Any, state: Any, first: Seat, lowest_rank: int, suits: str, turned: Card) -> None:
    """Deal the same hands there, one card at a time from this seat on, and turn the same card."""
    hands = [list(members(hand)) for hand in state.current.hands]
    for row in range(len(hands[0])):
        for hand in (*hands[first:], *hands[:first]):
            theirs.apply_action(their_card(hand[row], lowest_rank, suits))
    theirs.apply_action(their_card(turned, lowest_rank, suits))


@pytest.mark.parametrize("seats", [3, 4, 5, 6, 7])
def test_oh_hell(seats: int) -> None:
    chance = random.Random(seats)
    setup = setup_of(oh_hell.GAME, "standard", seats, bytes(32))
    deck = oh_hell.GAME.deck(seats)
    for size in setup.hand_sizes * 3:
        dealer = chance.randrange(seats)
        state = oh_hell.GAME.start(Setup("standard", seats, dealer, (size,)))
        state = after(oh_hell.GAME, state, DealCards(tuple(chance.sample(deck, len(deck)))))
        theirs = pyspiel.load_game("oh_hell", {"players": seats, "num_tricks_fixed": size}).new_initial_state()
        theirs.apply_action(theirs.legal_actions()[0])
        theirs.apply_action(dealer)
        deal_theirs(theirs, state, 0, 0, OH_HELL_SUITS, state.current.turned)

        def their_move(move: Move) -> int:
            return THEIR_BID + move - BID if move >= BID else their_card(move, 0, OH_HELL_SUITS)

        while state.turn != NO_SEAT and state.phase is not Phase.FINISHED:
            legal = list(members(oh_hell.GAME.legal_moves(state)))
            assert theirs.current_player() == state.turn
            assert theirs.legal_actions() == sorted(map(their_move, legal))
            move = chance.choice(legal)
            theirs.apply_action(their_move(move))
            state = oh_hell.GAME.advance(state, move)
        assert theirs.is_terminal()
        assert theirs.returns() == list(state.totals)


def test_euchre() -> None:
    chance = random.Random(5)
    deck = euchre.GAME.deck(4)
    seen: set[str] = set()
    for number in range(400):
        dealer = number % 4
        state = euchre.GAME.start(Setup("standard", 4, dealer, ()))
        state = after(euchre.GAME, state, DealCards(tuple(chance.sample(deck, len(deck)))))
        theirs = pyspiel.load_game("euchre").new_initial_state()
        theirs.apply_action(dealer)
        upcard = state.current.upcard
        deal_theirs(theirs, state, dealer, 7, EUCHRE_SUITS, upcard)
        upcard_suit = upcard // 13
        alone: int | None = None
        while state.turn != NO_SEAT:
            legal = list(members(euchre.GAME.legal_moves(state)))
            assert theirs.current_player() == state.turn
            if state.phase is Phase.BIDDING:
                # Alone or not is a second question there.
                calls = {THEIR_PASS if call == PASS else THEIR_NAME + suit_called(call, upcard_suit) for call in legal}
                assert set(theirs.legal_actions()) == calls
                move = chance.choice(legal)
                theirs.apply_action(THEIR_PASS if move == PASS else THEIR_NAME + suit_called(move, upcard_suit))
                if move != PASS:
                    is_alone = move == ORDER_UP_ALONE or move >= NAME_TRUMP_ALONE
                    alone = THEIR_ALONE if is_alone else THEIR_PARTNER
                    seen.add(f"{'ordered' if move < NAME_TRUMP else 'named'} {'alone' if is_alone else 'together'}")
                state = euchre.GAME.advance(state, move)
                if move in (ORDER_UP, ORDER_UP_ALONE) and state.phase is Phase.PLAYING:
                    seen.add("idle dealer")
                    theirs.apply_action(theirs.legal_actions()[0])
            elif state.phase is Phase.DISCARDING:
                discards = [move for move in legal if move != DISCARD + upcard]
                assert theirs.legal_actions() == sorted(map(their_euchre_card, discards))
                move = chance.choice(discards)
                theirs.apply_action(their_euchre_card(move))
                state = euchre.GAME.advance(state, move)
            else:
                assert theirs.legal_actions() == sorted(map(their_euchre_card, legal))
                move = chance.choice(legal)
                theirs.apply_action(their_euchre_card(move))
                state = euchre.GAME.advance(state, move)
            if alone is not None and state.phase is Phase.PLAYING:
                theirs.apply_action(alone)
                alone = None
        assert theirs.is_terminal()
        first, second = state.totals[:2]
        assert theirs.returns() == [first - second, second - first] * 2
    assert seen == {"ordered alone", "ordered together", "named alone", "named together", "idle dealer"}


def suit_called(call: Move, upcard_suit: int) -> int:
    """The suit that a call makes trump."""
    return upcard_suit if call in (ORDER_UP, ORDER_UP_ALONE) else (call - NAME_TRUMP) % 4


def their_euchre_card(move: Move) -> int:
    """Its code of the card that is played or laid away."""
    return their_card(move - DISCARD if move >= DISCARD else move, 7, EUCHRE_SUITS)
