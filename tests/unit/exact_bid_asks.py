"""The questions of the worked cases that Romanian whist and oh hell share, answered through the engines."""

from collections.abc import Sequence
from typing import Any

from rules.cards import CODE, NAME, SUITS, members
from rules.game import Game, Phase
from rules.moves import BID, bid
from tests.playing import after_moves, names, pack_dealing, single_deal

Given = dict[str, Any]


def trump_name(game: Game, state: Any) -> str | None:
    """The trump suit's letter."""
    trump = game.view(state, None).trump
    return None if trump is None else SUITS[trump]


def state_after_bids(game: Game, seats: int, hand_size: int, bids: Sequence[int], dealer: int = -1) -> Any:
    """A deal of any cards, with these bids from forehand on."""
    state = single_deal(game, game.deck(seats), seats, hand_size, dealer)
    return after_moves(game, state, *map(bid, bids))


def open_bids(game: Game, state: Any) -> list[int]:
    """The legal bids, as numbers of tricks."""
    return [move - BID for move in members(game.legal_moves(state))]


def actor(state: Any, players: Sequence[str]) -> object:
    """Whose turn it is for what."""
    return {"phase": {Phase.BIDDING: "bid", Phase.PLAYING: "play"}[state.phase], "seat": players[state.turn]}


def state_with_trick(game: Game, seats: int, trick: Sequence[str], hand: Sequence[str], trump: str, size: int) -> Any:
    """A deal in which seats 0, 1, … have just played these cards, and the next holds this hand.

    The others' further cards are chosen so that they were free to play what they played.
    """
    free = [NAME[card] for card in game.deck(seats) if NAME[card] not in (*trick, *hand)]
    turned = next((name for name in free if name[1] == trump), "") if trump else ""
    hands = [[card] for card in trick] + [list(hand)] * bool(hand)
    hands += [[] for _ in range(seats - len(hands))]
    pool = [name for name in free if name != turned]
    led = trick[0][1] if trick else ""

    def may_hold(seat: int, name: str) -> bool:
        if seat >= len(trick) or trick[seat][1] == led:
            return True
        return name[1] != led and (name[1] != trump or trick[seat][1] == trump)

    # Those who may hold the least choose first.
    for seat in sorted(range(seats), key=lambda seat: sum(may_hold(seat, name) for name in pool)):
        fitting = [name for name in pool if may_hold(seat, name)][: size - len(hands[seat])]
        hands[seat] += fitting
        pool = [name for name in pool if name not in fitting]
    pack = pack_dealing(game.deck(seats), [" ".join(held) for held in hands], turned)
    state = single_deal(game, pack, seats, size)
    assert trump_name(game, state) == (trump or None)
    for _ in range(seats):
        state = after_moves(game, state, bid(open_bids(game, state)[0]))
    return after_moves(game, state, *(CODE[card] for card in trick))


def open_cards(game: Game, hand: Sequence[str], trick: Sequence[str], trump: str) -> set[str]:
    """The cards of this hand that may be played to this trick, four at the table."""
    state = state_with_trick(game, 4, trick, hand, trump, len(hand))
    assert set(names(game.view(state, state.turn).hand)) == set(hand)
    return set(names(game.legal_moves(state)))


def trick_taker(game: Game, trick: Sequence[tuple[str, str]], trump: str, size: int) -> str:
    """The seat that leads after this trick."""
    players = [player for player, _ in trick]
    state = state_with_trick(game, len(trick), [card for _, card in trick], (), trump, size)
    leader: int = state.turn
    return players[leader]
