"""A game as a replay brings it, put in the order in which one tells it: deals, calls, tricks, scores.

Only what the commits say; nothing is computed by rules.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from levata.table.v1 import play_pb2, table_pb2

Card: TypeAlias = play_pb2.Card.ValueType
Suit: TypeAlias = play_pb2.Suit.ValueType


@dataclass
class Trick:
    """Cards in the order played."""

    moves: list[table_pb2.Moved] = field(default_factory=list)
    # None while it is open.
    winner: int | None = None
    # What each seat's side had taken in the deal after this trick (klaverjas).
    card_points: Sequence[int] = ()
    roem: Sequence[int] = ()

    @property
    def leader(self) -> int:
        """The seat that played first."""
        return self.moves[0].seat

    def card_of(self, seat: int) -> Card | None:
        """What a seat played, if it did."""
        return next((move.move.play_card for move in self.moves if move.seat == seat), None)


@dataclass
class Deal:
    """One deal, finished or not."""

    dealt: table_pb2.Dealt
    # By seat, as far as the replay shows them, before any exchange.
    hands: dict[int, list[Card]]
    # Bids and calls in order, a discard among them.
    calls: list[table_pb2.Moved] = field(default_factory=list)
    tricks: list[Trick] = field(default_factory=list)
    seat_changes: list[table_pb2.SeatChanged] = field(default_factory=list)
    scored: table_pb2.DealScored | None = None

    @property
    def trump(self) -> Suit:
        """As dealt, or as called since."""
        for call in reversed(self.calls):
            match call.move.WhichOneof("kind"):
                case "order_up":
                    return suit_of(self.dealt.turned)
                case "name_trump":
                    return call.move.name_trump.suit
        return self.dealt.trump

    @property
    def is_alone(self) -> bool:
        """Whether the caller plays without the partner (euchre)."""
        return any(call.move.order_up.alone or call.move.name_trump.alone for call in self.calls)

    @property
    def moves(self) -> list[table_pb2.Moved]:
        """All of them, in order."""
        return self.calls + [move for trick in self.tricks for move in trick.moves]


@dataclass
class Game:
    """A whole game, or as much of it as there is yet."""

    game_id: str
    created: table_pb2.Created
    created_at_ms: int
    # The seat from whose view it is told; None where it is open.
    seat: int | None
    deals: list[Deal] = field(default_factory=list)
    # Who sits where at the end.
    seats: list[play_pb2.SeatInfo] = field(default_factory=list)
    finished: table_pb2.Finished | None = None
    version: int = 0
    # Of the last commit; empty while the game runs.
    chain: bytes = b""

    @property
    def totals(self) -> list[int]:
        """Points by seat so far."""
        scored = [deal.scored for deal in self.deals if deal.scored is not None]
        return list(scored[-1].totals) if scored else [0] * len(self.seats)


def recorded(game_id: str, responses: Iterable[table_pb2.ReplayResponse], seat: int | None) -> Game:
    """The game that a whole replay tells."""
    replay = iter(responses)
    first = next(replay)
    created = first.commit.events[0].created
    game = Game(game_id, created, first.commit.decided_at_ms, seat, seats=list(created.seats))
    _record(game, first)
    for response in replay:
        _record(game, response)
    return game


def suit_of(card: Card) -> Suit:
    """A card's suit; unspecified for no card."""
    return Suit((card - 1) // 13 + 1) if card else play_pb2.SUIT_UNSPECIFIED


def _record(game: Game, response: table_pb2.ReplayResponse) -> None:
    game.version = response.commit.version
    game.chain = response.chain
    for event in response.commit.events:
        match event.WhichOneof("kind"):
            case "dealt":
                game.deals.append(Deal(event.dealt, _hands(event.dealt, game.seat)))
            case "moved":
                _record_move(game.deals[-1], event.moved)
            case "trick_taken":
                taken, trick = event.trick_taken, game.deals[-1].tricks[-1]
                trick.winner, trick.card_points, trick.roem = taken.seat, tuple(taken.card_points), tuple(taken.roem)
            case "deal_scored":
                game.deals[-1].scored = event.deal_scored
            case "seat_changed":
                game.seats[event.seat_changed.seat] = event.seat_changed.info
                game.deals[-1].seat_changes.append(event.seat_changed)
            case "finished":
                game.finished = event.finished


def _hands(dealt: table_pb2.Dealt, seat: int | None) -> dict[int, list[Card]]:
    if dealt.hands:
        return {seat: list(hand.cards) for seat, hand in enumerate(dealt.hands)}
    return {} if seat is None else {seat: list(dealt.hand)}


def _record_move(deal: Deal, moved: table_pb2.Moved) -> None:
    if moved.move.WhichOneof("kind") != "play_card":
        deal.calls.append(moved)
        return
    if not deal.tricks or deal.tricks[-1].winner is not None:
        deal.tricks.append(Trick())
    deal.tricks[-1].moves.append(moved)
