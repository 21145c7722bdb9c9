"""A friendly table until its game begins: who sits where, who owns it, and when it can be dealt.

Each command answers with the table as it is then, or with the first reason to refuse it; nothing is changed in place.
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final
from uuid import UUID

from rules import registry
from rules.values import value

NOBODY: Final = UUID(int=0)


class TableRejection(StrEnum):
    """Why a command is refused."""

    UNKNOWN_GAME = "UNKNOWN_GAME"
    UNKNOWN_VARIANT = "UNKNOWN_VARIANT"
    UNKNOWN_BOT = "UNKNOWN_BOT"
    TABLE_DEALING = "TABLE_DEALING"
    NOT_THE_OWNER = "NOT_THE_OWNER"
    NOT_AT_THE_TABLE = "NOT_AT_THE_TABLE"
    NO_SUCH_SEAT = "NO_SUCH_SEAT"
    SEAT_TAKEN = "SEAT_TAKEN"
    TABLE_FULL = "TABLE_FULL"
    REMOVED_FROM_TABLE = "REMOVED_FROM_TABLE"
    NOT_READY = "NOT_READY"
    TOO_FEW_SEATED = "TOO_FEW_SEATED"


@value
class Options:
    """What is played, and how."""

    game_type: str
    variant: str
    bid_seconds: int = 0
    spectator_delay_seconds: int = 0


@value
class Chair:
    """A seat: a person's, a bot's, or free, perhaps kept for somebody."""

    account: UUID | None = None
    guest: bool = False
    ready: bool = False
    # Order of sitting down.
    since: int = 0
    # Has answered the commitment.
    answered: bool = False
    bot_level: str = ""
    kept_for: UUID | None = None

    @property
    def is_taken(self) -> bool:
        """Whether somebody, or a bot, sits there."""
        return self.account is not None or bool(self.bot_level)


FREE: Final = Chair()


@value
class FriendlyTable:
    """A table that waits."""

    table_id: UUID
    code: str
    options: Options
    # NOBODY once everybody has gone: it is closed then.
    owner: UUID
    chairs: tuple[Chair, ...]
    # Who was sent away.
    removed: tuple[UUID, ...] = ()
    # How often it was dealt, and the game that it is being dealt for.
    deals: int = 0
    game_id: UUID | None = None
    commitment: bytes = b""

    @property
    def dealing(self) -> bool:
        """Whether it is being dealt: nobody comes or goes."""
        return self.game_id is not None

    def seat_of(self, account: UUID) -> int | None:
        """Where somebody sits."""
        return next((seat for seat, chair in enumerate(self.chairs) if chair.account == account), None)

    @property
    def people(self) -> tuple[UUID, ...]:
        """All persons, the longest seated first."""
        seated = sorted((chair for chair in self.chairs if chair.account is not None), key=lambda chair: chair.since)
        return tuple(chair.account for chair in seated if chair.account is not None)

    @property
    def taken(self) -> tuple[Chair, ...]:
        """Chairs that are taken, in their order: the seats of the game."""
        return tuple(chair for chair in self.chairs if chair.is_taken)


Decided = FriendlyTable | TableRejection


def open_table(table_id: UUID, code: str, options: Options, owner: UUID, now_us: int) -> Decided:
    """A new table, its owner in the first seat."""
    checked = _checked(options)
    if isinstance(checked, TableRejection):
        return checked
    first = Chair(owner, since=now_us, ready=True)
    return FriendlyTable(table_id, code, checked, owner, (first, *[FREE] * (_seats_max(checked) - 1)))


def sit(table: FriendlyTable, account: UUID, guest: bool, seat: int | None, now_us: int) -> Decided:
    """Somebody takes a seat; who sits there already keeps the seat."""
    if table.dealing:
        return TableRejection.TABLE_DEALING
    if account in table.removed:
        return TableRejection.REMOVED_FROM_TABLE
    if table.seat_of(account) is not None:
        return table
    if seat is None:
        free = [at for at, chair in enumerate(table.chairs) if not chair.is_taken and chair.kept_for in (None, account)]
        # One's own before any other.
        free.sort(key=lambda at: table.chairs[at].kept_for != account)
        if not free:
            return TableRejection.TABLE_FULL
        seat = free[0]
    if seat >= len(table.chairs):
        return TableRejection.NO_SUCH_SEAT
    if table.chairs[seat].is_taken or table.chairs[seat].kept_for not in (None, account):
        return TableRejection.SEAT_TAKEN
    return _with_chair(table, seat, Chair(account, guest, since=now_us))


def stand(table: FriendlyTable, account: UUID) -> Decided:
    """Somebody gives the seat up; the owner's role goes to whoever has been seated longest."""
    seat = table.seat_of(account)
    if seat is None:
        return table
    if table.dealing:
        return TableRejection.TABLE_DEALING
    left = _with_chair(table, seat, FREE)
    if account != table.owner:
        return left
    # A guest owns no table while anybody else could.
    people = left.people
    guests = {chair.account for chair in left.chairs if chair.guest}
    heir = next((each for each in people if each not in guests), people[0] if people else NOBODY)
    return replace(left, owner=heir)


def be_ready(table: FriendlyTable, account: UUID, ready: bool) -> Decided:
    """Somebody is ready, or not yet."""
    seat = table.seat_of(account)
    if seat is None:
        return TableRejection.NOT_AT_THE_TABLE
    if table.dealing:
        return TableRejection.TABLE_DEALING
    return _with_chair(table, seat, replace(table.chairs[seat], ready=ready))


def remove(table: FriendlyTable, by: UUID, account: UUID) -> Decided:
    """The owner sends somebody away, for good."""
    refused = _refused_to(table, by)
    if refused is not None:
        return refused
    seat = table.seat_of(account)
    if seat is None or account == by:
        return TableRejection.NOT_AT_THE_TABLE
    return replace(_with_chair(table, seat, FREE), removed=(*table.removed, account))


def set_bot(table: FriendlyTable, by: UUID, seat: int, level: str) -> Decided:
    """The owner puts a bot on a seat that nobody has, or takes it off."""
    refused = _refused_to(table, by)
    if refused is not None:
        return refused
    if seat >= len(table.chairs):
        return TableRejection.NO_SUCH_SEAT
    if table.chairs[seat].account is not None:
        return TableRejection.SEAT_TAKEN
    game = registry.game(table.options.game_type)
    assert game is not None
    if level and level not in game.bots:
        return TableRejection.UNKNOWN_BOT
    return _with_chair(table, seat, Chair(bot_level=level))


def set_options(table: FriendlyTable, by: UUID, options: Options) -> Decided:
    """The owner says what is played: everybody has to be ready anew."""
    refused = _refused_to(table, by)
    if refused is not None:
        return refused
    checked = _checked(options)
    if isinstance(checked, TableRejection):
        return checked
    seats_max = _seats_max(checked)
    game = registry.game(checked.game_type)
    assert game is not None
    people = [chair for chair in table.chairs if chair.account is not None]
    if len(people) > seats_max:
        return TableRejection.TABLE_FULL
    chairs = list(table.chairs)
    # Seats that the game does not have: free ones first, then bots; people keep together.
    while len(chairs) > seats_max:
        spare = next((at for at in reversed(range(len(chairs))) if not chairs[at].is_taken), None)
        spare = spare if spare is not None else max(at for at, chair in enumerate(chairs) if chair.bot_level)
        del chairs[spare]
    chairs += [FREE] * (seats_max - len(chairs))
    fresh = tuple(
        Chair(bot_level=chair.bot_level if chair.bot_level in game.bots else "")
        if chair.account is None
        else replace(chair, ready=chair.account == table.owner)
        for chair in chairs
    )
    return replace(table, options=checked, chairs=fresh)


def check_deal(table: FriendlyTable, by: UUID) -> TableRejection | None:
    """Why the owner cannot deal now."""
    refused = _refused_to(table, by)
    if refused is not None:
        return refused
    game = registry.game(table.options.game_type)
    assert game is not None
    if len(table.taken) not in game.variants[table.options.variant]:
        return TableRejection.TOO_FEW_SEATED
    if not all(chair.ready or chair.account in (None, table.owner) for chair in table.chairs):
        return TableRejection.NOT_READY
    return None


def begin_deal(table: FriendlyTable, game_id: UUID, commitment: bytes) -> FriendlyTable:
    """From now on nobody comes or goes."""
    unanswered = tuple(replace(chair, answered=False) for chair in table.chairs)
    return replace(table, chairs=unanswered, game_id=game_id, commitment=commitment, deals=table.deals + 1)


def rematch(
    table_id: UUID, code: str, options: Options, chairs: Sequence[Chair], by: UUID, now_us: int
) -> FriendlyTable:
    """A table with the seats of a game that is over: each person's is kept, bots sit where they sat."""
    kept = tuple(
        Chair(bot_level=chair.bot_level) if chair.account is None else Chair(kept_for=chair.account) for chair in chairs
    )
    spare = (FREE,) * (_seats_max(options) - len(kept))
    table = sit(FriendlyTable(table_id, code, options, by, kept + spare), by, False, None, now_us)
    assert isinstance(table, FriendlyTable)
    return table


def _refused_to(table: FriendlyTable, by: UUID) -> TableRejection | None:
    if by != table.owner:
        return TableRejection.NOT_THE_OWNER
    return TableRejection.TABLE_DEALING if table.dealing else None


def _checked(options: Options) -> Options | TableRejection:
    game = registry.game(options.game_type)
    if game is None:
        return TableRejection.UNKNOWN_GAME
    variant = options.variant or next(iter(game.variants))
    return replace(options, variant=variant) if variant in game.variants else TableRejection.UNKNOWN_VARIANT


def _seats_max(options: Options) -> int:
    game = registry.game(options.game_type)
    assert game is not None
    return max(game.variants[options.variant])


def _with_chair(table: FriendlyTable, seat: int, chair: Chair) -> FriendlyTable:
    return replace(table, chairs=(*table.chairs[:seat], chair, *table.chairs[seat + 1 :]))
