"""Klaverjas (games.md, 4): four seats, partners opposite, 32 cards, 16 deals, by Amsterdam or Rotterdam rules.

Trump is named, then eight tricks are played under the duties to follow, trump and overtrump in which the variants
differ; roem is found in the tricks without being claimed.

`decide` refuses in this order: GAME_FINISHED, WRONG_PHASE, NOT_YOUR_TURN, then BAD_PACK, or MUST_NAME_TRUMP, or
CARD_NOT_HELD, MUST_FOLLOW_SUIT, MUST_TRUMP, MUST_OVERTRUMP and MAY_NOT_UNDERTRUMP. A move that does not belong to the
phase is WRONG_PHASE whoever makes it.
"""

from typing import Final, assert_never

from rules.bots import klaverjas as bots
from rules.bots import sharp
from rules.cards import BIT, SUIT_CARDS, SUIT_OF, Card, Cards, Suit, mask
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
from rules.klaverjas_cards import BEATS, DECK, DECK_CARDS, OVER, trick_points, trick_roem
from rules.moves import ALL_CARDS, NAME_TRUMP, PASS, Move, Moves
from rules.partners import (
    LEFT_OF,
    NO_TRUMP,
    ORDER,
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

GAME_TYPE: Final = "klaverjas"
RULES_VERSION: Final = 1
AMSTERDAM: Final = "amsterdam"
ROTTERDAM: Final = "rotterdam"
VARIANTS: Final = {AMSTERDAM: frozenset({SEATS}), ROTTERDAM: frozenset({SEATS})}
DEAL_COUNT: Final = 16
HAND_SIZE: Final = 8
LAST_TRICK_POINTS: Final = 10
PIT_POINTS: Final = 100

# The hot path compares by identity with these rather than looking the members up in their class each time.
_AWAITING_DEAL: Final = Phase.AWAITING_DEAL
_BIDDING: Final = Phase.BIDDING
_PLAYING: Final = Phase.PLAYING
_FINISHED: Final = Phase.FINISHED

_PASS: Final[Moves] = 1 << PASS
_NAMES: Final[Moves] = 0b1111 << NAME_TRUMP

_DEALT: Final = dealt_in(3, 2, 3)

# What the two sides have taken.
Sides = tuple[int, int]


@value
class Deal:
    """What stays the same while the cards of a deal are played."""

    sheet: Sheet
    rotterdam: bool
    # -1 before the first; once scored a deal stays the current one until the next is dealt.
    number: int
    # Of this deal; once it is scored, of the next.
    dealer: Seat
    # As dealt, by seat.
    hands: tuple[Cards, ...] = (0, 0, 0, 0)
    calls: tuple[tuple[Seat, Move], ...] = ()
    trump: Suit = NO_TRUMP
    maker: Seat = NO_SEAT


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
    # By side, in this deal so far.
    card_points: Sides
    roem: Sides
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


@value
class DealScore:
    """What a deal adds to each side's total, and what became of the contract."""

    points: Sides
    # The side that named trump failed, and the other has all the points.
    nat: bool
    # The side that took all eight tricks.
    pit: int | None


def deck(seats: int) -> tuple[Card, ...]:
    """The 32 cards, seven to ace."""
    assert seats == SEATS
    return DECK


def setup(variant: str, seats: int, draws: Draws) -> Setup | Rejection:
    """What is fixed before the first deal, drawn from the game's seed."""
    return set_up(VARIANTS, (HAND_SIZE,) * DEAL_COUNT, variant, seats, draws)


def start(setup: Setup) -> State:
    """The state before the first deal."""
    return _between_deals(_AWAITING_DEAL, Deal(_sheet(setup), setup.variant == ROTTERDAM, -1, setup.first_dealer))


def _between_deals(phase: Phase, deal: Deal) -> State:
    return _state(phase, NO_SEAT, 0, ORDER[NO_SEAT][0], (), (), (0, 0), (0, 0), deal)


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
    return _PASS | _NAMES if state.phase is _BIDDING else 0


def _why_illegal(state: State, move: Move) -> Rejection:
    if state.phase is _BIDDING:
        return Rejection.MUST_NAME_TRUMP
    deal, trick = state.current, state.trick
    hand = deal.hands[state.turn] & state.held
    if not hand & BIT[move]:
        return Rejection.CARD_NOT_HELD
    if hand & SUIT_CARDS[SUIT_OF[trick[0]]] and SUIT_OF[move] != SUIT_OF[trick[0]]:
        return Rejection.MUST_FOLLOW_SUIT
    trumps = SUIT_CARDS[deal.trump]
    if not BIT[move] & trumps:
        return Rejection.MUST_TRUMP
    # A trump that is too low: where a trump had to be played, or where none had to.
    had_to_trump = (
        deal.rotterdam
        or SUIT_OF[trick[0]] == deal.trump
        or not (winning(trick, BEATS[deal.trump]) == _partner_place(trick) or legal_moves(state) & ~trumps)
    )
    return Rejection.MUST_OVERTRUMP if had_to_trump else Rejection.MAY_NOT_UNDERTRUMP


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
        trick = state.trick
        if not trick:
            return hand
        led = SUIT_OF[trick[0]]
        following = hand & SUIT_CARDS[led]
        if following and led != deal.trump:
            return following
        return _duty(hand, trick, deal)
    if state.phase is _BIDDING:
        # Forehand, the fifth to call when all have passed, must name a trump.
        return _NAMES if len(deal.calls) == SEATS else _PASS | _NAMES
    return 0


def _duty(hand: Cards, trick: tuple[Card, ...], deal: Deal) -> Cards:
    """What a hand may play to a trump lead, or to a plain one that it cannot follow."""
    trumps = hand & SUIT_CARDS[deal.trump]
    if not trumps:
        return hand
    best = winning(trick, BEATS[deal.trump])
    over = trumps & OVER[deal.trump][trick[best]]
    if deal.rotterdam or SUIT_OF[trick[0]] == deal.trump:
        return over or trumps
    # Low trumps are allowed when they are all that is left.
    high_or_plain = over | hand ^ trumps or hand
    return high_or_plain if best == _partner_place(trick) else over or high_or_plain


def _partner_place(trick: tuple[Card, ...]) -> int:
    """Where in the trick the card of the next seat's partner is; negative when there is none yet."""
    return len(trick) - 2


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
        return _after_call(state, move)
    trick = state.trick + (move,)  # noqa: RUF005 - half the time of unpacking, on the hottest line there is
    played = len(trick)
    if played < SEATS:
        order = state.order
        return _state(
            _PLAYING,
            order[played],
            state.held ^ BIT[move],
            order,
            trick,
            state.tricks,
            state.card_points,
            state.roem,
            state.current,
        )
    after = _after_trick(state, trick)
    if after.held:
        return after
    scored = _after_scoring(after)
    return _after_finish(scored) if _is_over(scored) else scored


def _ends_deal(state: State) -> bool:
    """Whether one card is left."""
    return state.phase is _PLAYING and not state.held & (state.held - 1)


def _is_over(state: State) -> bool:
    return state.deal + 1 == DEAL_COUNT


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
    trump = deal.trump
    held = state.held ^ BIT[trick[-1]]
    winner = order[winning(trick, BEATS[trump])]
    points = _add(state.card_points, winner, trick_points(trick, trump) + (0 if held else LAST_TRICK_POINTS))
    roem = _add(state.roem, winner, trick_roem(mask(trick), trump))
    tricks = (*state.tricks, _trick(order, trick))
    turn = winner if held else NO_SEAT
    return _state(_PLAYING, turn, held, ORDER[NO_SEAT][winner], (), tricks, points, roem, deal)


def _add(sides: Sides, seat: Seat, points: int) -> Sides:
    first, second = sides
    return (first, second + points) if SIDE_OF[seat] else (first + points, second)


def _after_call(state: State, move: Move) -> State:
    deal, order = state.current, state.order
    assert state.phase is _BIDDING
    seat = state.turn
    calls = (*deal.calls, (seat, move))
    if move == PASS:
        phase, turn, trump, namer = _BIDDING, LEFT_OF[seat], NO_TRUMP, NO_SEAT
    else:
        phase, turn, trump, namer = _PLAYING, order[0], move - NAME_TRUMP, seat
    called = _deal(deal.sheet, deal.rotterdam, deal.number, deal.dealer, deal.hands, calls, trump, namer)
    return _state(phase, turn, state.held, order, (), (), (0, 0), (0, 0), called)


def _after_dealing(state: State, dealt: Dealt) -> State:
    before, dealer = state.current, dealt.dealer
    assert state.phase is _AWAITING_DEAL
    assert (dealt.deal, dealer) == (before.number + 1, before.dealer)
    deal = _deal(before.sheet, before.rotterdam, dealt.deal, dealer, hands_of(dealt.pack, _DEALT[dealer]))
    order = ORDER[NO_SEAT][LEFT_OF[dealer]]
    return _state(_BIDDING, order[0], DECK_CARDS, order, (), (), (0, 0), (0, 0), deal)


def _after_scoring(state: State) -> State:
    deal = state.current
    sheet = deal.sheet
    assert state.phase is _PLAYING
    assert not state.held
    won = tricks_won(state.tricks, state.order[0])
    tricks = (won[0] + won[2], won[1] + won[3])
    points = by_seat(deal_score(SIDE_OF[deal.maker], tricks, state.card_points, state.roem).points)
    card_points, roem = by_seat(state.card_points), by_seat(state.roem)
    record = _record(deal.number, HAND_SIZE, points, won, (), deal.maker, deal.trump, card_points, roem)
    scored = _sheet(sheet.setup, added(sheet.totals, points), (*sheet.scored, record))
    return _between_deals(_AWAITING_DEAL, _deal(scored, deal.rotterdam, deal.number, LEFT_OF[deal.dealer]))


def _after_finish(state: State) -> State:
    return _between_deals(_FINISHED, state.current)


def deal_score(makers: int, tricks: Sides, card_points: Sides, roem: Sides) -> DealScore:
    """The score of a deal by side; `makers` is the side that named trump, `card_points` have the last trick's ten."""
    pit = tricks.index(HAND_SIZE) if HAND_SIZE in tricks else None
    taken = [card_points[side] + roem[side] + (PIT_POINTS if side == pit else 0) for side in (0, 1)]
    nat = taken[makers] <= taken[1 - makers]
    if nat:
        taken[1 - makers] += taken[makers]
        taken[makers] = 0
    return DealScore((taken[0], taken[1]), nat, pit)


def standings(state: State) -> tuple[int, ...]:
    """Places by seat, from 1, of a game whose deals are all scored."""
    assert len(state.current.sheet.scored) == DEAL_COUNT
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
        deal_count=DEAL_COUNT,
        dealer=deal.dealer,
        turn=state.turn,
        hand_size=HAND_SIZE,
        hand=0 if seat is None else deal.hands[seat] & held,
        hand_counts=tuple([(hand & held).bit_count() for hand in deal.hands]),
        turned=None,
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
        card_points=by_seat(state.card_points),
        roem=by_seat(state.roem),
    )


GAME: Final = Game(
    game_type=GAME_TYPE,
    rules_version=RULES_VERSION,
    variants=VARIANTS,
    partners=True,
    daily=("amsterdam", 4),
    quick_play={"amsterdam": 4},
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
    bots={"steady": bots.steady, "sharp": sharp.klaverjas},
    bot_version=bots.VERSION,
)
