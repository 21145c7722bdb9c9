"""What the use cases need of the outside; `store` and `rpc` implement it."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date, timedelta
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from services.matchmaker.app.marks import MarksFound
from services.matchmaker.domain.friendly import FriendlyTable
from services.matchmaker.domain.pairing import Decision
from services.matchmaker.domain.quick_play import Pool, QuickTable, QuickTicket

# The store


# A turn is over when its holder was not heard for so long; the holder looks four times as often.
TURN_US: Final = 2_000_000


class Fenced(Exception):
    """Another replica forms this pool's tables now: nothing was changed."""


class Ended(NamedTuple):
    """Why somebody's last ticket ended."""

    ticket_id: UUID
    room: int
    pool: Pool
    reason: str


class Standing(NamedTuple):
    """What there is to say of an account in quick play."""

    ticket: QuickTicket | None = None
    table: QuickTable | None = None
    # All who have a seat at the table, in the order of joining.
    seated: Sequence[QuickTicket] = ()
    # Only where there is no ticket.
    ended: Ended | None = None


class Outline(NamedTuple):
    """All that is alive in a pool, in so few words that tens of thousands can be compared often."""

    found: MarksFound
    tables: Sequence[QuickTable]


class Dealt(NamedTuple):
    """Somebody at a table that is being dealt."""

    ticket: QuickTicket
    # What they add to the shuffle.
    nonce: bytes


class Answer(NamedTuple):
    """What somebody adds to a game's shuffle."""

    account: UUID
    game_id: UUID
    nonce: bytes


class PreparedTable(NamedTuple):
    """What the table service has prepared for a table."""

    table_id: UUID
    game_id: UUID
    commitment: bytes


class Started(NamedTuple):
    """A table whose game runs."""

    table_id: UUID
    game_id: UUID
    playing: Sequence[UUID]
    # Those who are not in it, and why.
    refused: Mapping[UUID, str]


class Turn(NamedTuple):
    """A replica's right to form a pool's tables; a later one has a higher epoch."""

    pool: Pool
    epoch: int


class Tickets(Protocol):
    """Tickets, for who calls. Refused while the database is away."""

    async def standing(self, account: UUID) -> Standing:
        """What there is to say of an account."""
        ...

    async def standings(self, accounts: Sequence[UUID]) -> Sequence[Standing]:
        """What there is to say of each account, of one moment, in the order asked."""
        ...

    async def add(self, tickets: Sequence[QuickTicket]) -> Sequence[QuickTicket]:
        """Add tickets; for each account the one that it has now, which may be an older one."""
        ...

    async def known(self, accounts: Sequence[UUID]) -> Sequence[bool]:
        """Which of these have a ticket."""
        ...

    async def cancel(self, account: UUID, ticket_id: UUID) -> QuickTicket | None:
        """Remove a ticket whose table is not being dealt; the ticket as it is if there still is one."""
        ...

    async def answer(self, answers: Sequence[Answer]) -> Sequence[Pool | None]:
        """Keep what players add to the shuffles of tables that are not dealt yet; None for who sits at no such one."""
        ...

    async def seen(self, accounts: Sequence[UUID]) -> Sequence[None]:
        """These players are there."""
        ...

    async def left(self, account: UUID, game_id: UUID) -> bool:
        """The player holds no seat of this game any more; whether this is news."""
        ...

    async def without_ticket(self, accounts: Collection[UUID]) -> Sequence[UUID]:
        """Those of these accounts that have none."""
        ...


class Forming(Protocol):
    """Pools, for who forms their tables. Raises Fenced for a turn that is over."""

    async def take_turn(self, pool: Pool) -> Turn | None:
        """Take or keep the turn, unless another replica has it."""
        ...

    async def outline(self, pool: Pool, sums: Sequence[int]) -> Outline:
        """All that is alive in a pool; of the tickets what differs from these `Marks.sums`."""
        ...

    async def tickets(self, accounts: Sequence[UUID]) -> Sequence[QuickTicket]:
        """The tickets of these accounts that do not play yet; accounts without one are left out."""
        ...

    async def seat(self, turn: Turn, decisions: Sequence[Decision]) -> Sequence[QuickTicket]:
        """Carry out what a round decided; the tickets whose table is another one now.

        Those that were cancelled meanwhile, and that another turn has seated, are not among them.
        """
        ...

    async def dealt(self, tables: Sequence[UUID]) -> Sequence[Sequence[Dealt]]:
        """Who is at each of these tables that are being dealt, in the order of joining."""
        ...

    async def keep_prepared(self, tables: Sequence[PreparedTable]) -> None:
        """These have been prepared."""
        ...

    async def begin_deal(self, turn: Turn, tables: Mapping[UUID, int]) -> Sequence[QuickTicket]:
        """From now on nobody comes or goes at those of these tables that still have as many seats taken."""
        ...

    async def started(self, tables: Sequence[Started]) -> Sequence[None]:
        """The games of these tables run."""
        ...

    async def not_started(self, table_id: UUID, refused: Mapping[UUID, str]) -> None:
        """No game will come of a table. Its people look for another one, with the waiting that they have behind them,
        but for those who were refused."""
        ...

    async def close_empty(self, turn: Turn, tables: Sequence[UUID]) -> None:
        """Close tables at which nobody is left."""
        ...

    async def end_gone(self, turn: Turn, silent_us: int) -> Sequence[QuickTicket]:
        """End the tickets of those who were not heard for so long; answers with them."""
        ...


class Attempts(Protocol):
    """Attempts at the day's games that count. Refused while the database is away."""

    async def counted(self, account: UUID, day: date, game_type: str) -> UUID | None:
        """The game of the attempt that counts, if it has begun."""
        ...

    async def keep(self, account: UUID, day: date, game_type: str, game_id: UUID) -> None:
        """It has begun."""
        ...


# Other services

# Modes of games, as the table service has them.
QUICK_PLAY, FRIENDLY, SOLO, DAILY = "QUICK_PLAY", "FRIENDLY", "SOLO", "DAILY"


class PreparedGame(NamedTuple):
    """A game whose id and seed are fixed."""

    game_id: UUID
    commitment: bytes
    # Of a daily: its UTC day.
    day: str = ""


class Seat(NamedTuple):
    """Who will sit in a seat, and what the game was entered with; without an account a bot."""

    account: UUID | None = None
    guest: bool = False
    bot_level: str = ""
    nonce: bytes = b""
    room: int = 0
    coins: int = 0
    gold: int = 0
    prize: int = 0
    coffee: str = ""


class Clock(NamedTuple):
    """Seconds for a decision; 0 for the mode's default."""

    bid_seconds: int = 0
    card_seconds: int = 0


DEFAULT_CLOCK: Final = Clock()


class NewGame(NamedTuple):
    """A prepared game, and who plays it."""

    game_id: UUID
    seats: Sequence[Seat]


class NotCreated(Exception):
    """The id will never be a game."""


class Games(Protocol):
    """The table service. Every call is safe to repeat, and may fail."""

    async def prepare(self, request_id: UUID, game_type: str, variant: str, seats: int, mode: str) -> PreparedGame:
        """Fix a game's id and seed."""
        ...

    async def prepare_all(self, tables: Sequence[QuickTable]) -> Sequence[PreparedGame | Exception]:
        """Fix the games of tables of quick play; the table's id makes it the same game, whoever asks and how often."""
        ...

    async def create(
        self, game_id: UUID, seats: Sequence[Seat], clock: Clock = DEFAULT_CLOCK, spectator_delay_seconds: int = 0
    ) -> None:
        """Start a prepared game; NotCreated if its id was closed."""
        ...

    async def create_all(self, games: Sequence[NewGame]) -> Sequence[Exception | None]:
        """Start prepared games of quick play; for each nothing, or the error of `create`."""
        ...

    async def cancel(self, game_id: UUID) -> bool:
        """Close an id for good, unless its game was created; whether it was."""
        ...

    async def seated_in(self, account: UUID) -> frozenset[UUID]:
        """The running games in which an account holds a seat."""
        ...


class Entrants(NamedTuple):
    """Who wants to be let in to a game."""

    game_id: UUID
    tickets: Sequence[QuickTicket]


class Entry(NamedTuple):
    """What somebody pays and plays for, or why the entry is refused."""

    account: UUID
    refusal: str
    coins: int
    gold: int
    prize: int


class Ledger(Protocol):
    """The ledger. Every call is safe to repeat, and may fail."""

    async def purses(self, accounts: Sequence[UUID]) -> Sequence[Mapping[str, int]]:
        """What is free, by currency."""
        ...

    async def hold(self, games: Sequence[Entrants]) -> Sequence[Sequence[Entry] | Exception]:
        """Hold all entries of these games; for each what became of them, or why nothing could be held: NotCreated
        where its id was closed."""
        ...


class Rank(NamedTuple):
    """How far a player has come."""

    xp: int
    level: int
    # A share of all players, from 0, the best.
    standing: float


class League(Protocol):
    """The league. May fail."""

    async def ranks(self, accounts: Sequence[UUID]) -> Sequence[Rank]:
        """How far these have come."""
        ...


class Accounts(Protocol):
    """The accounts service. May fail."""

    async def companions(self, accounts: Sequence[UUID]) -> Sequence[tuple[UUID, ...]]:
        """For each of these, the accounts that were used on one device with it."""
        ...


# Those who wait, and the other replicas


class Players(Protocol):
    """The way to players' own streams. Does not wait."""

    def tell(self, account: UUID, standing: Standing, ahead: int | None, number: int) -> None:
        """Tell what there is to say of an account; later numbers replace earlier ones."""
        ...


class Replicas(Protocol):
    """The way to the replica that forms a pool's tables. Does not wait, and may lose what it is told."""

    def changed(self, pool: Pool, account: UUID) -> None:
        """The account's ticket is not what it was."""
        ...


# Friendly tables


class SeatedElsewhere(Exception):
    """Somebody who sits down has a seat at another table that waits."""


class Line(NamedTuple):
    """A line of a table's chat."""

    line_no: int
    account: UUID
    text: str


class Told(NamedTuple):
    """A friendly table, and what is told with it."""

    table: FriendlyTable
    # Later states have higher numbers.
    number: int
    opened_at_ms: int
    lines: Sequence[Line] = ()
    # It is played; what it holds is who sits there.
    running: bool = False


class FriendlyGame(NamedTuple):
    """A game that began at a friendly table."""

    game_id: UUID
    table: FriendlyTable


class Changing(Protocol):
    """One transaction about a table, which holds the table until it ends."""

    @property
    def table(self) -> FriendlyTable | None:
        """The table as it is; None for none."""
        ...

    async def save(self, table: FriendlyTable) -> Told:
        """The table is this from now on; without people it is closed. Raises SeatedElsewhere."""
        ...


class FriendlyStore(Protocol):
    """Friendly tables. Refused while the database is away."""

    async def add(self, table: FriendlyTable) -> Told | None:
        """Open a table; None if its id or its code is taken. Raises SeatedElsewhere."""
        ...

    def changing(self, table_id: UUID) -> AbstractAsyncContextManager[Changing]:
        """A transaction about a table; rolled back when it is left with an error."""
        ...

    async def get(self, table_id: UUID) -> Told | None:
        """A table that waits."""
        ...

    async def by_code(self, code: str) -> Told | None:
        """A table that waits, by its code."""
        ...

    async def of(self, accounts: Sequence[UUID]) -> Sequence[Told | None]:
        """The table at which each of them sits, in the order asked."""
        ...

    async def waiting(self, game_type: str, free_only: bool, before: UUID | None, limit: int) -> Sequence[Told]:
        """Tables that wait, the newest first."""
        ...

    async def running(self, game_type: str, free_only: bool, before: UUID | None, limit: int) -> Sequence[Told]:
        """Tables that are played, the newest first."""
        ...

    async def answer(self, account: UUID, game_id: UUID, nonce: bytes) -> UUID | None:
        """Keep what somebody adds to the shuffle; the table, or None if there is none that waits for it."""
        ...

    async def unanswered(self, table_id: UUID) -> int:
        """How many have not answered the commitment."""
        ...

    async def fix(self, table_id: UUID) -> Mapping[UUID, bytes] | None:
        """From now on no answer is taken: what was added to the shuffle. None if it is not being dealt any more."""
        ...

    async def began(self, table: FriendlyTable) -> None:
        """The game of a table runs; the table is no more."""
        ...

    async def game(self, game_id: UUID) -> FriendlyGame | None:
        """A game that began at a friendly table, lately."""
        ...

    async def gone(self, silent: timedelta) -> Sequence[tuple[UUID, UUID]]:
        """Who was not heard for so long, and at which table."""
        ...

    async def waiting_count(self) -> int:
        """How many tables wait."""
        ...

    async def overdue(self) -> Sequence[UUID]:
        """Tables whose deal takes too long: who began it may have died."""
        ...

    async def say(self, table_id: UUID, account: UUID, text: str) -> int | None:
        """Keep a line; its number, or None if the player has said too much, or the table is no more."""
        ...


class Guests(Protocol):
    """The way to the streams of those at friendly tables. Does not wait."""

    def tell_table(self, account: UUID, told: Told | None, number: int) -> None:
        """The table at which somebody sits, whole; None for none any more."""
        ...
