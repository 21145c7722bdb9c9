"""A table as a pure value: who sits where, the game being played, its clocks and whose deals were whose.

`open_table`, `move`, `resume_clock`, `go_away`, `return_to_seat`, `leave` and `take_seat` decide: they answer with a
`Step`, the commit that a command causes and the table after it, or with the reason to refuse. `apply` folds a commit
from the log; a live table and a folded one are equal at every version. Nothing here knows a clock, a database or a
message format.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import IntEnum, IntFlag, StrEnum
from typing import Any, Final, TypeVar, assert_never

from rules import game as g
from rules import registry
from rules.chance import Chance, commitment, daily_id, game_seed
from rules.eligibility import Involvement, is_eligible, is_own_deal
from rules.game import NO_SEAT, Dealt, Game, Phase, Rejection, Seat
from rules.moves import Move, Moves, is_card
from rules.values import value

T = TypeVar("T")

# Whose view of a game: a seat's number, or one of these. The open view, with all hands, is of finished games only.
Viewer = int
SPECTATOR: Final = -1
OPEN: Final = -2

EXPIRIES_UNTIL_AWAY: Final = 2
# A solo game that nobody touches for so long is played out by the bot.
SOLO_IDLE_SECONDS: Final = 24 * 3600
# A replica that has not been seen for so long has lost its games to whoever claims them.
HOST_SILENT_SECONDS: Final = 3


class Mode(IntEnum):
    """How a game came to be; the numbers are those of levata.table.v1.Mode."""

    QUICK_PLAY = 1
    FRIENDLY = 2
    SOLO = 3
    DAILY = 4


class Decider(IntEnum):
    """Who decided; the numbers are those of levata.table.v1.Decider."""

    PERSON = 1
    CLOCK = 2
    BOT = 3


class SeatRejection(StrEnum):
    """Why a seat is not left or taken; the value is the stable reason that clients see."""

    # Solo and daily games wait for their player.
    GAME_WAITS = "GAME_WAITS"
    SEATS_NOT_OPEN = "SEATS_NOT_OPEN"
    NO_SUCH_SEAT = "NO_SUCH_SEAT"
    ALREADY_SEATED = "ALREADY_SEATED"
    SEAT_TAKEN = "SEAT_TAKEN"
    SEAT_NOT_VACATED = "SEAT_NOT_VACATED"
    OTHER_SEAT_LEFT = "OTHER_SEAT_LEFT"


class Kind(IntFlag):
    """What is in a commit: the `kinds` column of the log, so that a reader can pick rows without decoding them."""

    CREATED = 1
    DEALT = 2
    MOVED = 4
    SEAT_CHANGED = 8
    CLOCK_RESUMED = 16
    DEAL_SCORED = 32
    FINISHED = 64
    CANCELLED = 128


@value
class Occupant:
    """Who holds a seat, and what the game was entered with."""

    # Account id in canonical form; empty for a bot.
    account: str = ""
    guest: bool = False
    # "steady" or "sharp"; empty for a person.
    bot_level: str = ""
    # Quick play only: room, entry and prize of the seat's own room, and the coffee chosen.
    room: int = 0
    coins: int = 0
    gold: int = 0
    prize: int = 0
    coffee: str = ""


@value
class Clock:
    """Seconds for a decision; 0 where a decision waits for ever (solo and daily)."""

    bid_seconds: int
    card_seconds: int


@value
class Secret:
    """What the deals come from. Never leaves the server before the game is over."""

    server_seed: bytes
    nonces: tuple[bytes, ...]


@value
class Created:
    """The game begins."""

    game_id: bytes
    game_type: str
    setup: g.Setup
    mode: Mode
    rules_version: int
    bot_version: int
    seats: tuple[Occupant, ...]
    clock: Clock
    commitment: bytes
    secret: Secret
    # The replica that hosts the game first.
    host: str
    # The UTC day of a daily: all games of a day and a game type have the same deals.
    day: date | None = None
    # Spectators see the game as it was so many seconds ago.
    spectator_delay_seconds: int = 0

    @property
    def disclosed_from_us(self) -> int:
        """When the finished game may be shown to all, its seed with it: others may still play a daily's deals."""
        return 0 if self.day is None else day_end_us(self.day)


@value
class Moved:
    """A seat bid, called, discarded or played a card."""

    seat: Seat
    move: Move
    decider: Decider


@value
class DealScored:
    """A deal is over; recorded though it follows from the moves, so that drift shows."""

    deal: int
    points: tuple[int, ...]
    # By seat: whether the deal was its holder's own.
    own: tuple[bool, ...]


@value
class SeatChanged:
    """From now on this occupant holds the seat, or is away from it."""

    seat: Seat
    occupant: Occupant
    away: bool


@value
class ClockResumed:
    """The clock of the open decision starts afresh; the first act of a new host carries its epoch."""

    epoch: int
    host: str


@value
class SeatResult:
    """How the game ended for a seat's last holder."""

    holder: Occupant
    place: int
    total: int
    own_deals: int
    eligible: bool
    # Accounts that gave the seat up during the game.
    left: tuple[str, ...]


@value
class Finished:
    """The game is over."""

    standings: tuple[int, ...]
    totals: tuple[int, ...]
    seats: tuple[SeatResult, ...]


@value
class Cancelled:
    """As version 1: the game will never be. Later: a running game that cannot go on."""

    reason: str


Event = Moved | Dealt | DealScored | Finished | SeatChanged | ClockResumed | Created | Cancelled

KIND_OF: Final[dict[type, Kind]] = {
    Created: Kind.CREATED,
    Dealt: Kind.DEALT,
    Moved: Kind.MOVED,
    SeatChanged: Kind.SEAT_CHANGED,
    ClockResumed: Kind.CLOCK_RESUMED,
    DealScored: Kind.DEAL_SCORED,
    Finished: Kind.FINISHED,
    Cancelled: Kind.CANCELLED,
}


@value
class Commit:
    """All events of one command: one row of the log."""

    version: int
    decided_at_us: int
    events: tuple[Event, ...]


@value
class BotQuestion:
    """A decision for a bot, with all that it may know: it can be answered anywhere, and always in the same way."""

    game_type: str
    rules_version: int
    level: str
    view: g.View
    chance: bytes

    def answer(self) -> Move:
        """The bot's move."""
        game = registry.game(self.game_type, self.rules_version)
        assert game is not None
        return game.bots[self.level](self.view, self.chance)


@dataclass(slots=True)
class Table:
    """A table at a version. Treated as a value: only `_Fold` and `apply` write to a fresh copy."""

    created: Created
    game: Game
    chance: Chance
    version: int
    play: Any
    # The seat whose decision is open, NO_SEAT when none is; and all that it may do.
    turn: Seat
    legal: Moves
    occupants: tuple[Occupant, ...]
    away: tuple[bool, ...]
    # Clock expiries in a row, by seat; what a bot decides in the person's place neither adds nor ends any.
    expiries: tuple[int, ...]
    # The version at which the open decision opened, and since when its clock runs.
    opened_version: int
    opened_at_us: int
    # What each seat decided itself in this deal, and whose the finished deals were.
    involvement: tuple[Involvement, ...]
    own: tuple[tuple[bool, ...], ...]
    left: tuple[tuple[str, ...], ...]
    finished: Finished | None = None
    cancelled: bool = False

    @property
    def over(self) -> bool:
        """Whether nothing will happen any more."""
        return self.finished is not None or self.cancelled

    @property
    def deadline_us(self) -> int:
        """When the open decision's clock runs out; 0 without a clock or an open decision."""
        if self.turn == NO_SEAT:
            return 0
        clock = self.created.clock
        seconds = clock.card_seconds if self.play.phase in _CARD_PHASES else clock.bid_seconds
        return self.opened_at_us + seconds * 1_000_000 if seconds else 0

    @property
    def abandoned_at_us(self) -> int:
        """When a game without a clock is left to the bot: a solo after a day untouched, a daily at its day's end.

        0 where there is a clock, or nobody to wait for.
        """
        if self.turn == NO_SEAT or self.server_decides:
            return 0
        match self.created.mode:
            case Mode.SOLO:
                return self.opened_at_us + SOLO_IDLE_SECONDS * 1_000_000
            case Mode.DAILY:
                return self.created.disclosed_from_us
            case _:
                return 0

    def is_disclosed(self, now_us: int) -> bool:
        """Whether the game may be shown open now, and its seed."""
        return self.finished is not None and now_us >= self.created.disclosed_from_us

    def is_closed_to_people(self, now_us: int) -> bool:
        """Whether only the bot decides from now on: at the end of its day a daily's cards may be known to all."""
        return self.created.day is not None and now_us >= self.created.disclosed_from_us

    @property
    def server_decides(self) -> bool:
        """Whether the open decision belongs to a bot, or to a person who is away."""
        turn = self.turn
        return turn != NO_SEAT and (not self.occupants[turn].account or self.away[turn])

    def seat_of(self, account: str) -> Seat | None:
        """The seat that this account holds now."""
        for seat, occupant in enumerate(self.occupants):
            if occupant.account == account:
                return seat
        return None

    def seat_left_by(self, account: str) -> Seat | None:
        """The seat that this account gave up; a person holds one seat of a game at most, then as later."""
        for seat, accounts in enumerate(self.left):
            if account in accounts:
                return seat
        return None

    def is_vacated(self, seat: Seat) -> bool:
        """Whether a bot keeps this seat until a person takes it: somebody left it, at a friendly table."""
        return self.created.mode is Mode.FRIENDLY and bool(self.left[seat]) and not self.occupants[seat].account

    def is_away_until_acting(self, seat: Seat) -> bool:
        """Whether the person let the clock run out too often: being connected does not bring them back."""
        return self.away[seat] and self.expiries[seat] >= EXPIRIES_UNTIL_AWAY

    def bot_question(self) -> "BotQuestion":
        """What the bot of the seat whose turn it is has to decide."""
        seat = self.turn
        level = self.occupants[seat].bot_level or DEFAULT_BOT
        view, chance = self.game.view(self.play, seat), self.chance.bot_chance(seat, self.play.deal)
        return BotQuestion(self.game.game_type, self.game.rules_version, level, view, chance)

    def bot_move(self) -> Move:
        """The move that the bot of the seat whose turn it is makes."""
        return self.bot_question().answer()

    def copy(self) -> "Table":
        """A copy to write to; the fields' values are immutable."""
        return Table(
            self.created,
            self.game,
            self.chance,
            self.version,
            self.play,
            self.turn,
            self.legal,
            self.occupants,
            self.away,
            self.expiries,
            self.opened_version,
            self.opened_at_us,
            self.involvement,
            self.own,
            self.left,
            self.finished,
            self.cancelled,
        )


_CARD_PHASES: Final = frozenset({Phase.PLAYING, Phase.DISCARDING})
UNTIMED: Final = frozenset({Mode.SOLO, Mode.DAILY})
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()
_DAY_US: Final = 24 * 3600 * 1_000_000
DEFAULT_BOT: Final = "steady"
# Levels whose decisions take milliseconds, too long for who must not wait.
SLOW_BOTS: Final = frozenset({"sharp"})


@value
class Step:
    """What a command does: the commit to append, and the table once it is committed."""

    commit: Commit
    table: Table


def open_table(
    *,
    game_id: bytes,
    game: Game,
    setup: g.Setup,
    mode: Mode,
    seats: Sequence[Occupant],
    clock: Clock,
    secret: Secret,
    host: str,
    now_us: int,
    day: date | None = None,
    spectator_delay_seconds: int = 0,
) -> Step:
    """The first commit of a game: it is created and its first deal is dealt."""
    created = Created(
        game_id,
        game.game_type,
        setup,
        mode,
        game.rules_version,
        game.bot_version,
        tuple(seats),
        clock,
        commitment(secret.server_seed),
        secret,
        host,
        day,
        spectator_delay_seconds,
    )
    table = _new_table(created, now_us)
    events: list[Event] = [created]
    _deal_next(table, events)
    return _step(table, events, 0, now_us)


def move(table: Table, seat: Seat, chosen: Move, decider: Decider, now_us: int) -> Step | Rejection:
    """What it does when `seat` decides `chosen`; refusals in the order of the engine's checks."""
    if table.over:
        return Rejection.GAME_FINISHED
    decided = table.game.decide(table.play, g.MakeMove(seat, chosen))
    if isinstance(decided, Rejection):
        return decided
    after = table.copy()
    events: list[Event] = []
    if after.away[seat] and decider is Decider.PERSON:
        _record(after, events, SeatChanged(seat, after.occupants[seat], away=False))
    for event in decided:
        match event:
            case g.Moved():
                _record(after, events, Moved(seat, chosen, decider))
            case g.DealScored(deal, points):
                _record(after, events, DealScored(deal, points, _own_flags(after)))
            case g.Finished(standings):
                _record(after, events, _finish(after, standings))
            case g.Dealt():
                raise AssertionError("a seat's move deals no cards")
            case _:
                assert_never(event)
    expired = after.expiries[seat] >= EXPIRIES_UNTIL_AWAY and not after.away[seat]
    if expired and not after.over:
        _record(after, events, SeatChanged(seat, after.occupants[seat], away=True))
    if after.play.phase == Phase.AWAITING_DEAL:
        _deal_next(after, events)
    return _step(after, events, table.version, now_us)


def resume_clock(table: Table, epoch: int, host: str, now_us: int) -> Step | Rejection:
    """The open decision's clock starts afresh under this host."""
    if table.over:
        return Rejection.GAME_FINISHED
    return _changed(table, [ClockResumed(epoch, host)], now_us)


def go_away(table: Table, seats: Sequence[Seat], now_us: int) -> Step | Rejection:
    """From now on a bot answers for the persons in these seats."""
    if table.over:
        return Rejection.GAME_FINISHED
    return _changed(table, [SeatChanged(seat, table.occupants[seat], away=True) for seat in seats], now_us)


def return_to_seat(table: Table, seat: Seat, now_us: int) -> Step | Rejection:
    """A person who was away decides again from the next decision on."""
    if table.over:
        return Rejection.GAME_FINISHED
    return _changed(table, [SeatChanged(seat, table.occupants[seat], away=False)], now_us)


def leave(table: Table, seat: Seat, now_us: int) -> Step | Rejection | SeatRejection:
    """The person gives the seat up: to a bot, at a friendly table until somebody takes it."""
    if table.over:
        return Rejection.GAME_FINISHED
    if table.created.mode in UNTIMED:
        return SeatRejection.GAME_WAITS
    return _changed(table, [SeatChanged(seat, Occupant(bot_level=DEFAULT_BOT), away=False)], now_us)


def take_seat(table: Table, seat: Seat, account: str, guest: bool, now_us: int) -> Step | Rejection | SeatRejection:
    """A person takes a vacated seat and plays on from there.

    Who gave up a seat may come back to that one only: nobody ever sees two hands of a game.
    """
    if table.over:
        return Rejection.GAME_FINISHED
    if table.created.mode is not Mode.FRIENDLY:
        return SeatRejection.SEATS_NOT_OPEN
    if seat >= len(table.occupants):
        return SeatRejection.NO_SUCH_SEAT
    if table.seat_of(account) is not None:
        return SeatRejection.ALREADY_SEATED
    if table.occupants[seat].account:
        return SeatRejection.SEAT_TAKEN
    if not table.is_vacated(seat):
        return SeatRejection.SEAT_NOT_VACATED
    if table.seat_left_by(account) not in (None, seat):
        return SeatRejection.OTHER_SEAT_LEFT
    return _changed(table, [SeatChanged(seat, Occupant(account, guest), away=False)], now_us)


def cancellation(game_id: bytes, reason: str, now_us: int) -> Commit:
    """The only commit of a game that will never be."""
    return Commit(1, now_us, (Cancelled(reason),))


def apply(table: Table | None, commit: Commit) -> Table:
    """The table after a commit of the log. Never refuses: a failed assertion means a wrong log or wrong code."""
    if table is None:
        assert commit.version == 1
        created = commit.events[0]
        assert isinstance(created, Created)
        after = _new_table(created, commit.decided_at_us)
        rest: Sequence[Event] = commit.events[1:]
    else:
        assert commit.version == table.version + 1
        after = table.copy()
        rest = commit.events
    for event in rest:
        _evolve(after, event)
    _close_commit(after, commit)
    return after


def kinds_of(commit: Commit) -> Kind:
    """The kinds of a commit's events."""
    kinds = Kind(0)
    for event in commit.events:
        kinds |= KIND_OF[type(event)]
    return kinds


def chance_of(game_id: bytes, game_type: str, day: date | None, secret: Secret) -> Chance:
    """The draws of a game; of a daily they hang on the day and the game type, and not on its id."""
    seed_id = game_id if day is None else daily_id(game_type, day.isoformat())
    return Chance(game_seed(secret.server_seed, seed_id, secret.nonces))


def day_of(now_us: int) -> date:
    """The UTC day of a time."""
    return date.fromordinal(_FIRST_DAY + now_us // _DAY_US)


def day_end_us(day: date) -> int:
    """When a UTC day ends."""
    return (day.toordinal() + 1 - _FIRST_DAY) * _DAY_US


def clock_for(mode: Mode, asked: Clock) -> Clock:
    """The clock of a mode: solo and daily games have none, the others their defaults where nothing was asked."""
    if mode in UNTIMED:
        return Clock(0, 0)
    return Clock(asked.bid_seconds or 20, asked.card_seconds or 15)


def _new_table(created: Created, now_us: int) -> Table:
    game = registry.game(created.game_type, created.rules_version)
    assert game is not None, f"{created.game_type} version {created.rules_version} is not in the registry"
    count = len(created.seats)
    return Table(
        created=created,
        game=game,
        chance=chance_of(created.game_id, created.game_type, created.day, created.secret),
        version=0,
        play=game.start(created.setup),
        turn=NO_SEAT,
        legal=0,
        occupants=created.seats,
        away=(False,) * count,
        expiries=(0,) * count,
        opened_version=1,
        opened_at_us=now_us,
        involvement=(Involvement(),) * count,
        own=(),
        left=((),) * count,
    )


def _deal_next(table: Table, events: list[Event]) -> None:
    number = table.play.deal + 1
    pack = table.chance.shuffled("deal", number, table.game.deck(len(table.occupants)))
    dealt = table.game.decide(table.play, g.DealCards(pack))
    assert not isinstance(dealt, Rejection), dealt
    for event in dealt:
        assert isinstance(event, Dealt)
        _record(table, events, event)


def _finish(table: Table, standings: tuple[int, ...]) -> Finished:
    totals = table.play.totals
    mode = table.created.mode
    results = []
    for seat, occupant in enumerate(table.occupants):
        own = tuple(flags[seat] for flags in table.own)
        # Without a clock one is away at the end only from a game that the bot played out: it pays nothing.
        played = bool(occupant.account) and not (mode in UNTIMED and table.away[seat])
        eligible = played and is_eligible(own, quick_play=mode is Mode.QUICK_PLAY)
        results.append(SeatResult(occupant, standings[seat], totals[seat], sum(own), eligible, table.left[seat]))
    return Finished(standings, totals, tuple(results))


def _own_flags(table: Table) -> tuple[bool, ...]:
    cards_count = table.game.cards_count
    return tuple(
        bool(table.occupants[seat].account) and is_own_deal(involvement, cards_count=cards_count, away=table.away[seat])
        for seat, involvement in enumerate(table.involvement)
    )


def _changed(table: Table, changes: Sequence[Event], now_us: int) -> Step:
    after = table.copy()
    events: list[Event] = []
    for change in changes:
        _record(after, events, change)
    return _step(after, events, table.version, now_us)


def _record(table: Table, events: list[Event], event: Event) -> None:
    events.append(event)
    _evolve(table, event)


def _step(table: Table, events: list[Event], version: int, now_us: int) -> Step:
    commit = Commit(version + 1, now_us, tuple(events))
    _close_commit(table, commit)
    return Step(commit, table)


def _close_commit(table: Table, commit: Commit) -> None:
    """Once per commit, after its events: the open decision and its clock."""
    table.version = commit.version
    for event in commit.events:
        kind = type(event)
        if kind is Moved or kind is Dealt:
            table.opened_version = commit.version
            table.opened_at_us = commit.decided_at_us
            break
        if kind is ClockResumed and table.created.mode not in UNTIMED:
            table.opened_at_us = commit.decided_at_us
        elif type(event) is SeatChanged and event.seat == table.play.turn and not event.away:
            # Whoever comes to a decision that is open has the whole time for it.
            table.opened_at_us = commit.decided_at_us
    over = table.over
    table.turn = NO_SEAT if over else table.play.turn
    table.legal = 0 if over else table.game.legal_moves(table.play)


def _evolve(table: Table, event: Event) -> None:
    match event:
        case Moved(seat, chosen, decider):
            table.involvement = _replaced(
                table.involvement, seat, _involved(table.involvement[seat], table.legal, chosen, decider)
            )
            if decider is Decider.CLOCK:
                table.expiries = _replaced(table.expiries, seat, table.expiries[seat] + 1)
            elif decider is Decider.PERSON and table.expiries[seat]:
                table.expiries = _replaced(table.expiries, seat, 0)
            table.play = table.game.evolve(table.play, g.MOVED[seat][chosen])
        case Dealt():
            table.involvement = (Involvement(),) * len(table.occupants)
            table.play = table.game.evolve(table.play, event)
        case DealScored(deal, points, own):
            table.own = (*table.own, own)
            table.play = table.game.evolve(table.play, g.DealScored(deal, points))
        case Finished(standings):
            table.play = table.game.evolve(table.play, g.Finished(standings))
            table.finished = event
        case SeatChanged(seat, occupant, away):
            if table.occupants[seat] != occupant:
                leaver = table.occupants[seat].account
                if leaver and leaver not in table.left[seat]:
                    table.left = _replaced(table.left, seat, (*table.left[seat], leaver))
                # Who takes a seat over starts with no own deals, and what came to the seat before was not theirs.
                table.own = tuple(_replaced(flags, seat, False) for flags in table.own)
                came = table.involvement[seat]
                table.involvement = _replaced(table.involvement, seat, Involvement(came.calls, 0, came.choices, 0))
                table.occupants = _replaced(table.occupants, seat, occupant)
            table.away = _replaced(table.away, seat, away)
            if not away:
                table.expiries = _replaced(table.expiries, seat, 0)
        case ClockResumed():
            pass
        case Cancelled():
            table.cancelled = True
        case Created():
            raise AssertionError("a game is created once")
        case _:
            assert_never(event)


def _involved(before: Involvement, legal: Moves, chosen: Move, decider: Decider) -> Involvement:
    person = decider is Decider.PERSON
    if not is_card(chosen):
        return Involvement(before.calls + 1, before.own_calls + person, before.choices, before.own_choices)
    if legal & (legal - 1):
        return Involvement(before.calls, before.own_calls, before.choices + 1, before.own_choices + person)
    return before


def _replaced(items: tuple[T, ...], index: int, item: T) -> tuple[T, ...]:
    return (*items[:index], item, *items[index + 1 :])
