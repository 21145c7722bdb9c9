"""Euchre (games.md, 2): four seats, partners opposite, 24 cards, the first side to ten points wins.

A deal is called in up to two times round, the dealer may have to discard, then five tricks are played.

`decide` refuses in this order: GAME_FINISHED, WRONG_PHASE, NOT_YOUR_TURN, then BAD_PACK, or MUST_NAME_TRUMP and
SUIT_TURNED_DOWN, or CARD_NOT_HELD and MUST_FOLLOW_SUIT. A move that does not belong to the phase, or to the time round
of calling, is WRONG_PHASE whoever makes it.
"""

from typing import Final, assert_never

from rules.bots import euchre as bots
from rules.bots import sharp
from rules.cards import BIT, SUIT_OF, Card, Cards, Suit
from rules.euchre_cards import BEATS, DECK, SAME_SUIT
from rules.game import (
    MOVED,
    NO_SEAT,
    Command,
    DealCards,
    DealRecord,
    DealScored,
    Dealt,
    Draws,
    Event,
    Finished,
    Game,
    MakeMove,
    Moved,
    Phase,
    Rejection,
    Seat,
    Setup,
    Trick,
    View,
)
from rules.moves import ALL_CARDS, DISCARD, NAME_TRUMP, NAME_TRUMP_ALONE, ORDER_UP, ORDER_UP_ALONE, PASS, Move, Moves
from rules.partners import (
    LEFT_OF,
    NO_CARD,
    NO_TRUMP,
    ORDER,
    PARTNER,
    SEATS,
    SIDE_OF,
    Sheet,
    added,
    by_seat,
    dealt_in,
    hands_of,
    places,
    set_up,
    tricks_won,
    winners_of,
    winning,
)
from rules.values import maker, value

GAME_TYPE: Final = "euchre"
RULES_VERSION: Final = 1
VARIANTS: Final = {"standard": frozenset({SEATS})}
HAND_SIZE: Final = 5
WINNING_TOTAL: Final = 10

# The hot path compares by identity with these rather than looking the members up in their class each time.
_AWAITING_DEAL: Final = Phase.AWAITING_DEAL
_BIDDING: Final = Phase.BIDDING
_DISCARDING: Final = Phase.DISCARDING
_PLAYING: Final = Phase.PLAYING
_FINISHED: Final = Phase.FINISHED

_PASS: Final[Moves] = 1 << PASS
_ORDERS: Final[Moves] = 1 << ORDER_UP | 1 << ORDER_UP_ALONE
_NAMES: Final[Moves] = 0b1111 << NAME_TRUMP | 0b1111 << NAME_TRUMP_ALONE
# By the suit turned down: the others, alone or not.
_OTHER_NAMES: Final[tuple[Moves, ...]] = tuple(_NAMES & ~(0b10001 << NAME_TRUMP + suit) for suit in range(4))
assert NAME_TRUMP_ALONE - NAME_TRUMP == 4

_DEALT: Final = dealt_in(3, 2)

# The dealer, who calls eighth, is stuck.
_CALLS_BEFORE_STUCK: Final = 2 * SEATS - 1


@value
class Deal:
    """What stays the same while the cards of a deal are played."""

    sheet: Sheet
    # -1 before the first; once scored a deal stays the current one until the next is dealt.
    number: int
    # Of this deal; once it is scored, of the next.
    dealer: Seat
    # As dealt, by seat; the dealer's with the upcard once that was ordered up.
    hands: tuple[Cards, ...] = (0, 0, 0, 0)
    upcard: Card = NO_CARD
    calls: tuple[tuple[Seat, Move], ...] = ()
    trump: Suit = NO_TRUMP
    maker: Seat = NO_SEAT
    sitting_out: Seat = NO_SEAT
    discarded: Card = NO_CARD


@value
class State:
    """A game as the server knows it; a played card touches all but `current`."""

    phase: Phase
    turn: Seat
    # All cards that are still in hands; a seat's are these of those it was dealt.
    held: Cards
    # Who plays to the open trick, the leader first.
    order: tuple[Seat, ...]
    # The open trick, in the order played.
    trick: tuple[Card, ...]
    tricks: tuple[Trick, ...]
    current: Deal

    @property
    def deal(self) -> int:
        """Number of the current deal; -1 before the first."""
        return self.current.number

    @property
    def dealer(self) -> Seat:
        """Dealer of the current deal, or of the next one while it is awaited."""
        return self.current.dealer

    @property
    def totals(self) -> tuple[int, ...]:
        """Points by seat in the deals scored so far; partners carry the same."""
        return self.current.sheet.totals

    @property
    def winners(self) -> tuple[Seat, ...]:
        """Who took each trick of the current deal so far, until the deal is scored."""
        return winners_of(self.tricks, self.order[0])


_sheet = maker(Sheet)
_record = maker(DealRecord)
_deal = maker(Deal)
_state = maker(State)
_trick = maker(Trick)


def deck(seats: int) -> tuple[Card, ...]:
    """The 24 cards, nine to ace."""
    assert seats == SEATS
    return DECK


def setup(variant: str, seats: int, draws: Draws) -> Setup | Rejection:
    """What is fixed before the first deal, drawn from the game's seed."""
    return set_up(VARIANTS, (), variant, seats, draws)


def start(setup: Setup) -> State:
    """The state before the first deal."""
    return _between_deals(_AWAITING_DEAL, Deal(_sheet(setup), -1, setup.first_dealer))


def _between_deals(phase: Phase, deal: Deal) -> State:
    return _state(phase, NO_SEAT, 0, ORDER[NO_SEAT][0], (), (), deal)


# Commands


def decide(state: State, command: Command) -> tuple[Event, ...] | Rejection:
    """The events of a command, or the first reason to refuse it, in the order that the module names."""
    if state.phase is _FINISHED:
        return Rejection.GAME_FINISHED
    match command:
        case MakeMove():
            return _decide_move(state, command.seat, command.move)
        case DealCards():
            return _decide_deal(state, command.pack)
        case _:
            assert_never(command)


def _decide_move(state: State, seat: Seat, move: Move) -> tuple[Event, ...] | Rejection:
    if move < 0 or not _moves_of_phase(state) >> move & 1:
        return Rejection.WRONG_PHASE
    if seat != state.turn:
        return Rejection.NOT_YOUR_TURN
    if not legal_moves(state) >> move & 1:
        return _why_illegal(state, move)
    return consequences(state, move)


def _moves_of_phase(state: State) -> Moves:
    """Every move that belongs to the phase, legal or not."""
    if state.phase is _PLAYING:
        return ALL_CARDS
    if state.phase is _BIDDING:
        return _PASS | (_ORDERS if len(state.current.calls) < SEATS else _NAMES)
    return ALL_CARDS << DISCARD if state.phase is _DISCARDING else 0


def _why_illegal(state: State, move: Move) -> Rejection:
    if state.phase is _BIDDING:
        return Rejection.MUST_NAME_TRUMP if move == PASS else Rejection.SUIT_TURNED_DOWN
    hand = state.current.hands[state.turn] & state.held
    if state.phase is _DISCARDING or not hand & BIT[move]:
        return Rejection.CARD_NOT_HELD
    return Rejection.MUST_FOLLOW_SUIT


def _decide_deal(state: State, pack: tuple[Card, ...]) -> tuple[Event, ...] | Rejection:
    if state.phase is not _AWAITING_DEAL:
        return Rejection.WRONG_PHASE
    if sorted(pack) != list(DECK):
        return Rejection.BAD_PACK
    return (Dealt(state.deal + 1, state.dealer, pack),)


def legal_moves(state: State) -> Moves:
    """All that the seat whose turn it is may do; 0 when it is nobody's turn."""
    deal = state.current
    if state.phase is _PLAYING:
        hand = deal.hands[state.turn] & state.held
        if not state.trick:
            return hand
        return hand & SAME_SUIT[deal.trump][state.trick[0]] or hand
    if state.phase is _BIDDING:
        if len(deal.calls) < SEATS:
            return _PASS | _ORDERS
        names = _OTHER_NAMES[SUIT_OF[deal.upcard]]
        return names if len(deal.calls) == _CALLS_BEFORE_STUCK else names | _PASS
    if state.phase is _DISCARDING:
        return (deal.hands[state.turn] & state.held) << DISCARD
    return 0


def consequences(state: State, move: Move) -> tuple[Event, ...]:
    """The events of a legal move of the seat whose turn it is. Does not check that it is legal."""
    moved = MOVED[state.turn][move]
    if not _ends_deal(state):
        return (moved,)
    after = _after_scoring(_after_trick(state, (*state.trick, move)))
    scored = DealScored(after.deal, after.current.sheet.scored[-1].points)
    if not _is_over(after):
        return moved, scored
    return moved, scored, Finished(standings(after))


def advance(state: State, move: Move) -> State:
    """The state after a legal move and all that follows from it: its `consequences` folded, but never made."""
    if state.phase is not _PLAYING:
        return _after_call(state, move) if state.phase is _BIDDING else _after_discard(state, move - DISCARD)
    trick = state.trick + (move,)  # noqa: RUF005 - half the time of unpacking, on the hottest line there is
    order = state.order
    played = len(trick)
    if played < len(order):
        return _state(_PLAYING, order[played], state.held ^ BIT[move], order, trick, state.tricks, state.current)
    after = _after_trick(state, trick)
    if after.turn != NO_SEAT:
        return after
    scored = _after_scoring(after)
    return _after_finish(scored) if _is_over(scored) else scored


def _ends_deal(state: State) -> bool:
    """Whether one card is left to play."""
    return len(state.tricks) == HAND_SIZE - 1 and len(state.trick) == len(state.order) - 1


def _is_over(state: State) -> bool:
    return max(state.totals) >= WINNING_TOTAL


# Events


def evolve(state: State, event: Event) -> State:
    """The state after an event. Never refuses: a failed assertion means that the log or the code is wrong."""
    # Apart from the others, because a log is nearly all moves and a class pattern takes twice the time.
    if isinstance(event, Moved):
        move = event.move
        assert event.seat == state.turn
        assert state.phase is not _PLAYING or state.current.hands[event.seat] & state.held & BIT[move]
        # The scoring that follows the last card is an event of its own.
        return _after_trick(state, (*state.trick, move)) if _ends_deal(state) else advance(state, move)
    match event:
        case Dealt():
            return _after_dealing(state, event)
        case DealScored():
            after = _after_scoring(state)
            assert (event.deal, event.points) == (after.deal, after.current.sheet.scored[-1].points)
            return after
        case Finished():
            assert event.standings == standings(state)
            return _after_finish(state)
        case _:
            assert_never(event)


def _after_trick(state: State, trick: tuple[Card, ...]) -> State:
    deal, order = state.current, state.order
    winner = order[winning(trick, BEATS[deal.trump])]
    tricks = (*state.tricks, _trick(order, trick))
    turn = winner if len(tricks) < HAND_SIZE else NO_SEAT
    held = state.held ^ BIT[trick[-1]]
    return _state(_PLAYING, turn, held, ORDER[deal.sitting_out][winner], (), tricks, deal)


def _after_call(state: State, move: Move) -> State:
    deal = state.current
    assert state.phase is _BIDDING
    seat = state.turn
    calls = (*deal.calls, (seat, move))
    if move == PASS:
        passed = _deal(deal.sheet, deal.number, deal.dealer, deal.hands, deal.upcard, calls)
        return _state(_BIDDING, LEFT_OF[seat], state.held, state.order, (), (), passed)

    ordered = move <= ORDER_UP_ALONE
    alone = move == ORDER_UP_ALONE or move >= NAME_TRUMP_ALONE
    sitting_out = PARTNER[seat] if alone else NO_SEAT
    dealer, hands, held = deal.dealer, deal.hands, state.held
    if ordered:
        upcard = BIT[deal.upcard]
        held |= upcard
        hands = (*hands[:dealer], hands[dealer] | upcard, *hands[dealer + 1 :])
    trump = SUIT_OF[deal.upcard] if ordered else (move - NAME_TRUMP) % 4
    called = _deal(deal.sheet, deal.number, dealer, hands, deal.upcard, calls, trump, seat, sitting_out)
    # Forehand leads, or the next who does not sit out.
    order = ORDER[sitting_out][ORDER[sitting_out][LEFT_OF[dealer]][0]]
    # A dealer who sits out keeps the upcard in the idle hand.
    if ordered and sitting_out != dealer:
        return _state(_DISCARDING, dealer, held, order, (), (), called)
    return _state(_PLAYING, order[0], held, order, (), (), called)


def _after_discard(state: State, card: Card) -> State:
    deal = state.current
    assert state.phase is _DISCARDING
    assert deal.hands[state.turn] & BIT[card]
    discarded = _deal(
        deal.sheet,
        deal.number,
        deal.dealer,
        deal.hands,
        deal.upcard,
        deal.calls,
        deal.trump,
        deal.maker,
        deal.sitting_out,
        card,
    )
    return _state(_PLAYING, state.order[0], state.held ^ BIT[card], state.order, (), (), discarded)


def _after_dealing(state: State, dealt: Dealt) -> State:
    before, pack, dealer = state.current, dealt.pack, dealt.dealer
    assert state.phase is _AWAITING_DEAL
    assert (dealt.deal, dealer) == (before.number + 1, before.dealer)
    hands = hands_of(pack, _DEALT[dealer])
    deal = _deal(before.sheet, dealt.deal, dealer, hands, upcard=pack[SEATS * HAND_SIZE])
    order = ORDER[NO_SEAT][LEFT_OF[dealer]]
    return _state(_BIDDING, order[0], sum(hands), order, (), (), deal)


def _after_scoring(state: State) -> State:
    deal = state.current
    sheet = deal.sheet
    assert len(state.tricks) == HAND_SIZE
    won = tricks_won(state.tricks, state.order[0])
    makers, defenders = deal_score(won[deal.maker] + won[PARTNER[deal.maker]], deal.sitting_out != NO_SEAT)
    points = by_seat((defenders, makers) if SIDE_OF[deal.maker] else (makers, defenders))
    record = _record(deal.number, HAND_SIZE, points, won, (), deal.maker, deal.trump)
    scored = _sheet(sheet.setup, added(sheet.totals, points), (*sheet.scored, record))
    return _between_deals(_AWAITING_DEAL, _deal(scored, deal.number, LEFT_OF[deal.dealer]))


def _after_finish(state: State) -> State:
    return _between_deals(_FINISHED, state.current)


def deal_score(makers_tricks: int, alone: bool) -> tuple[int, int]:
    """Points of a deal for the makers and for the defenders."""
    if makers_tricks == HAND_SIZE:
        return (4 if alone else 2), 0
    return (1, 0) if makers_tricks >= 3 else (0, 2)


def standings(state: State) -> tuple[int, ...]:
    """Places by seat, from 1, of a game that a side has won."""
    assert max(state.totals) >= WINNING_TOTAL
    return places(state.totals)


# Views


def view(state: State, seat: Seat | None) -> View:
    """All that this seat, or a spectator (None), may be sent now."""
    deal, held = state.current, state.held
    return View(
        seat=seat,
        seats=SEATS,
        variant=deal.sheet.setup.variant,
        phase=state.phase,
        deal=deal.number,
        deal_count=0,
        dealer=deal.dealer,
        turn=state.turn,
        hand_size=HAND_SIZE,
        hand=0 if seat is None else deal.hands[seat] & held,
        hand_counts=tuple([(hand & held).bit_count() for hand in deal.hands]),
        # Everybody saw it, and whether the dealer took it.
        turned=None if deal.upcard == NO_CARD else deal.upcard,
        trump=None if deal.trump == NO_TRUMP else deal.trump,
        calls=deal.calls,
        trick=Trick(state.order[: len(state.trick)], state.trick),
        tricks=state.tricks,
        tricks_won=tricks_won(state.tricks, state.order[0]),
        totals=deal.sheet.totals,
        scored=deal.sheet.scored,
        standings=standings(state) if state.phase is _FINISHED else (),
        legal=legal_moves(state) if seat is not None and seat == state.turn else 0,
        maker=None if deal.maker == NO_SEAT else deal.maker,
        sitting_out=None if deal.sitting_out == NO_SEAT else deal.sitting_out,
        discarded=deal.discarded if seat == deal.dealer and deal.discarded != NO_CARD else None,
    )


GAME: Final = Game(
    game_type=GAME_TYPE,
    rules_version=RULES_VERSION,
    variants=VARIANTS,
    partners=True,
    daily=("standard", 4),
    quick_play={"standard": 4},
    cards_count=True,
    deck=deck,
    setup=setup,
    start=start,
    decide=decide,
    evolve=evolve,
    advance=advance,
    legal_moves=legal_moves,
    view=view,
    standings=standings,
    bots={"steady": bots.steady, "sharp": sharp.euchre},
    bot_version=bots.VERSION,
)
