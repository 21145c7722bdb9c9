"""What every game has in common: the vocabulary between the engines and those who play them.

A game is a module with the functions of `Game`; `rules.registry` lists them. The rest of the system (table service,
bots, replay, audit, offline checks) plays any of them through this interface and knows none of them.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum, StrEnum
from typing import Any, Final, Protocol

from rules.cards import Card, Cards, Suit
from rules.moves import MOVE_END, Move, Moves
from rules.values import value

Seat = int
NO_SEAT: Final = -1
SEATS_MAX: Final = 7


class Phase(IntEnum):
    """What a game is waiting for."""

    AWAITING_DEAL = 0
    BIDDING = 1
    DISCARDING = 2
    PLAYING = 3
    FINISHED = 4


class Rejection(StrEnum):
    """Why a command is refused; the value is the stable reason that clients see."""

    GAME_FINISHED = "GAME_FINISHED"
    WRONG_PHASE = "WRONG_PHASE"
    NOT_YOUR_TURN = "NOT_YOUR_TURN"
    BAD_PACK = "BAD_PACK"
    BID_OUT_OF_RANGE = "BID_OUT_OF_RANGE"
    HOOK_FORBIDDEN = "HOOK_FORBIDDEN"
    CARD_NOT_HELD = "CARD_NOT_HELD"
    MUST_FOLLOW_SUIT = "MUST_FOLLOW_SUIT"
    MUST_TRUMP = "MUST_TRUMP"
    MUST_OVERTRUMP = "MUST_OVERTRUMP"
    MAY_NOT_UNDERTRUMP = "MAY_NOT_UNDERTRUMP"
    MUST_NAME_TRUMP = "MUST_NAME_TRUMP"
    SUIT_TURNED_DOWN = "SUIT_TURNED_DOWN"
    UNKNOWN_GAME = "UNKNOWN_GAME"
    UNKNOWN_VARIANT = "UNKNOWN_VARIANT"
    SEATS_NOT_ALLOWED = "SEATS_NOT_ALLOWED"


class Draws(Protocol):
    """The words that a game's seed gives (`rules.chance.Chance`)."""

    def below(self, label: str, index: int, bound: int) -> int:
        """The first draw below `bound` of the stream (label, index)."""
        ...

    def shuffled(self, label: str, index: int, items: tuple[int, ...]) -> tuple[int, ...]:
        """`items` in the order that the stream (label, index) gives."""
        ...


@value
class Setup:
    """What is fixed before the first deal."""

    variant: str
    seats: int
    first_dealer: Seat
    # Cards in each deal; empty where a game has as many deals as it takes.
    hand_sizes: tuple[int, ...]


@value
class DealCards:
    """Command of the shell: deal from this pack, index 0 first."""

    pack: tuple[Card, ...]


@value
class MakeMove:
    """Command of a seat."""

    seat: Seat
    move: Move


Command = MakeMove | DealCards


@value
class Dealt:
    """Deal number `deal` (from 0) was dealt from this pack."""

    deal: int
    dealer: Seat
    pack: tuple[Card, ...]


@value
class Moved:
    """A seat bid, called, discarded or played a card."""

    seat: Seat
    move: Move


# MOVED[seat][move]: the events made once, because making one takes as long as applying it.
MOVED: Final[tuple[tuple[Moved, ...], ...]] = tuple(
    tuple(Moved(seat, move) for move in range(MOVE_END)) for seat in range(SEATS_MAX)
)


@value
class DealScored:
    """A deal is over. `points` is what it adds to each seat's total; partners carry the same."""

    deal: int
    points: tuple[int, ...]


@value
class Finished:
    """The game is over. `standings` are places by seat, from 1."""

    standings: tuple[int, ...]


Event = Moved | Dealt | DealScored | Finished


@value
class Trick:
    """Cards in the order played, and the seats that played them."""

    seats: tuple[Seat, ...] = ()
    cards: tuple[Card, ...] = ()


@value
class DealRecord:
    """A finished deal, as the score sheet shows it."""

    deal: int
    hand_size: int
    points: tuple[int, ...]
    tricks_won: tuple[int, ...]
    # By seat; empty in games without bids.
    bids: tuple[int, ...] = ()
    # Games of partners: who named which trump.
    maker: Seat | None = None
    trump: Suit | None = None
    # Klaverjas: what each seat's side took, last trick included, before nat and pit.
    card_points: tuple[int, ...] = ()
    roem: tuple[int, ...] = ()


@value
class View:
    """All that one viewer may ever be sent about the game now, and all that a bot decides from."""

    # The viewer's seat; None for a spectator, who sees no hand.
    seat: Seat | None
    seats: int
    variant: str
    phase: Phase
    deal: int
    # 0 where a game has as many deals as it takes.
    deal_count: int
    dealer: Seat
    # Whose turn it is; NO_SEAT when nobody's.
    turn: Seat
    hand_size: int
    hand: Cards
    hand_counts: tuple[int, ...]
    turned: Card | None
    trump: Suit | None
    # Bids and calls of this deal in order.
    calls: tuple[tuple[Seat, Move], ...]
    trick: Trick
    # Tricks already taken in this deal.
    tricks: tuple[Trick, ...]
    tricks_won: tuple[int, ...]
    totals: tuple[int, ...]
    scored: tuple[DealRecord, ...]
    standings: tuple[int, ...]
    # All that the viewer may do now; 0 unless it is the viewer's turn.
    legal: Moves
    # Who named trump, and who sits out beside a loner.
    maker: Seat | None = None
    sitting_out: Seat | None = None
    # The card that the viewer itself laid away (euchre's dealer).
    discarded: Card | None = None
    # Klaverjas: what each seat's side has taken in this deal so far.
    card_points: tuple[int, ...] = ()
    roem: tuple[int, ...] = ()


class State(Protocol):
    """What the shell reads of any game's state; each engine adds its own."""

    @property
    def phase(self) -> Phase: ...

    @property
    def turn(self) -> Seat: ...

    @property
    def deal(self) -> int:
        """Number of the current deal; -1 before the first."""
        ...

    @property
    def dealer(self) -> Seat:
        """Dealer of the current deal, or of the next one while it is awaited."""
        ...

    @property
    def totals(self) -> tuple[int, ...]: ...

    @property
    def tricks(self) -> tuple[Trick, ...]:
        """The tricks of the current deal that were taken, until the deal is scored."""
        ...

    @property
    def winners(self) -> tuple[Seat, ...]:
        """Who took each trick of the current deal so far, until the deal is scored."""
        ...


# A bot decides from its view and 32 bytes of chance that depend on (game seed, seat, deal) alone. Pure and
# deterministic: the same view and chance give the same move for as long as its version is kept.
Bot = Callable[[View, bytes], Move]


@value
class Game:
    """One game type at one version of its rules."""

    game_type: str
    rules_version: int
    # Allowed numbers of seats by variant; the first variant is the default.
    variants: Mapping[str, frozenset[int]]
    # Sides of partners: seats that share points and a place; empty where each plays alone.
    partners: bool
    # Variant and seats of its daily game.
    daily: tuple[str, int]
    # Variants of quick play, with their seats; all else is for friendly and solo tables.
    quick_play: Mapping[str, int]
    # Whether playing the cards well is as much of a deal as its bids and calls (rules.eligibility).
    cards_count: bool
    # The canonical deck for a number of seats, in the order that the shuffle starts from.
    deck: Callable[[int], tuple[Card, ...]]
    # Setup from the game's seed, or why variant and seats do not go together.
    setup: Callable[[str, int, Draws], Setup | Rejection]
    # The state before the first deal.
    start: Callable[[Setup], Any]
    # The events of a command, or the first reason to refuse it, in a fixed order of checks. Changes nothing.
    decide: Callable[[Any, Command], tuple[Event, ...] | Rejection]
    # The state after an event. Never refuses: a failed assertion means that the log or the code is wrong.
    evolve: Callable[[Any, Event], Any]
    # The state after a legal move and all its events, which are never made: for playouts. Does not check that it is
    # legal.
    advance: Callable[[Any, Move], Any]
    # All that the seat whose turn it is may do, as a set of move codes; 0 when it is nobody's turn.
    legal_moves: Callable[[Any], Moves]
    view: Callable[[Any, Seat | None], View]
    # Places by seat, from 1, of a finished game.
    standings: Callable[[Any], tuple[int, ...]]
    # Bots by level: "steady", "sharp".
    bots: Mapping[str, Bot]
    bot_version: int
