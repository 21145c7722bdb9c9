"""What the app needs of the outside: the log, the other tables in Postgres, and messages for viewers.

`store` and `rpc` implement these; `__main__` puts them together.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from enum import Enum, IntEnum
from typing import NamedTuple, Protocol
from uuid import UUID

from chassis.log import AppendResult
from rules.values import value
from services.table.domain import Commit, Kind, Mode, Table, Viewer


class Loaded(NamedTuple):
    """A game as the log has it."""

    table: Table
    chain: bytes


class Logged(NamedTuple):
    """One commit of the log."""

    commit: Commit
    chain: bytes
    # Of the command that caused it.
    key: UUID | None


class Submitted(NamedTuple):
    """A row that is on its way into the log."""

    chain: bytes
    payload: bytes


class Owner(NamedTuple):
    """Whose a running game is."""

    # None: released.
    host_id: UUID | None
    epoch: int
    # Whether the host has been seen lately.
    is_alive: bool


class CommandName(NamedTuple):
    """A command as the log keeps it: which it is, and what tells a repetition from another under the same id."""

    key: UUID
    content_hash: bytes


class Applied(NamedTuple):
    """A command that the log has."""

    version: int
    kinds: Kind
    content_hash: bytes


@value
class PreparedGame:
    """A game's id and seed, before it is created."""

    game_id: UUID
    game_type: str
    variant: str
    seats: int
    mode: Mode
    server_seed: bytes
    commitment: bytes
    # Of a daily: the UTC day whose deals it has.
    day: date | None = None


class GameLog(Protocol):
    """The games' event log. Reading is refused while Postgres is away; an append then is UNKNOWN."""

    def submit(
        self,
        game_id: UUID,
        previous_chain: bytes,
        before: Table | None,
        commit: Commit,
        after: Table | None,
        command: CommandName | None,
        done: Callable[[AppendResult], None],
    ) -> Submitted:
        """Append a commit; answers at once with its row, and calls `done` with the outcome."""
        ...

    async def append_first(
        self, game_id: UUID, commit: Commit, after: Table | None, command: CommandName | None
    ) -> tuple[AppendResult, bytes]:
        """Append a game's first commit; its outcome and its row's chain. Goes on when its caller is cancelled."""
        ...

    async def read(self, game_id: UUID, after_version: int = 0, limit: int | None = None) -> Sequence[Logged]:
        """Commits after a version, oldest first."""
        ...

    async def head(self, game_id: UUID) -> Logged | None:
        """The newest commit."""
        ...

    async def first(self, game_id: UUID) -> Applied | None:
        """What the first commit is: the game's creation or its cancellation."""
        ...

    async def read_kinds(self, game_ids: Sequence[UUID], kinds: Kind) -> dict[UUID, Sequence[Commit]]:
        """Of many games the commits in which any of these kinds is, oldest first; a game without any is left out."""
        ...

    async def versions(self, game_ids: Sequence[UUID]) -> dict[UUID, int]:
        """The newest versions of many games."""
        ...

    async def applied(self, game_id: UUID, key: UUID) -> Applied | None:
        """The command of this key."""
        ...


class Store(Protocol):
    """Prepared games, hosts, claims and players' games. Refused while Postgres is away."""

    async def prepare(self, request_id: UUID, game: PreparedGame) -> PreparedGame:
        """Store a prepared game; a request that was made before gets the game it got then."""
        ...

    async def prepared(self, game_id: UUID) -> PreparedGame | None:
        """A prepared game."""
        ...

    async def offer_daily_seed(self, game_type: str, day: date, seed: bytes) -> bytes:
        """The seed of a day's deals: this one, if the day has none yet."""
        ...

    async def daily_seed(self, game_type: str, day: date) -> bytes | None:
        """The seed of a day's deals, if anybody has asked for it on that day."""
        ...

    async def host_new_game(self, game_id: UUID, host_id: UUID, accounts: Sequence[UUID]) -> int:
        """Before a game's first commit: who hosts it, at which epoch, and whose it is; 0 if another host runs it.

        Means nothing while the log has no row of the game.
        """
        ...

    async def note_player(self, game_id: UUID, account: UUID) -> None:
        """Before a commit that may give the account a seat: the game is one of those that its list looks at."""
        ...

    async def heartbeat(self, host_id: UUID, address: str) -> None:
        """This replica is alive, by the database's clock."""
        ...

    async def owner(self, game_id: UUID) -> Owner | None:
        """Whose a game is; None for a game that nobody was to host yet, or that is over."""
        ...

    async def own_games(self, host_id: UUID) -> list[tuple[UUID, int]]:
        """The running games that this replica owns, with their epochs."""
        ...

    async def claim_abandoned(self, host_id: UUID, wanted: Sequence[UUID] = ()) -> list[tuple[UUID, int]]:
        """Take over games that were released, or whose hosts are silent, a batch at a time and of the wanted ones if
        there are any: their ids and new epochs.

        A host that has not itself been seen for a whole while without a break judges nobody.
        """
        ...

    async def mark_over(self, game_id: UUID) -> None:
        """Nobody needs to host this game any more, and what was said at it is forgotten."""
        ...

    async def release(self, host_id: UUID) -> None:
        """Leave all games to others at once, and be gone."""
        ...

    async def make_log_partitions(self) -> None:
        """See to it that the log has room for the games of the months to come."""
        ...

    async def forget_dead_hosts(self) -> None:
        """Remove replicas that are long gone and host nothing."""
        ...

    async def games_of(
        self, accounts: Sequence[UUID], before: UUID | None, running_only: bool, limit: int
    ) -> list[list[UUID]]:
        """Each account's created games, newest first, older than `before`: so many of each."""
        ...


class Side(IntEnum):
    """Who hears a line of chat. The numbers are those of the column `side`."""

    PLAYERS = 1
    SPECTATORS = 2


@value
class ChatLine:
    """A line that was said."""

    # Counted for each side of a game.
    line_no: int
    account: str
    text: str
    said_at_us: int


class SayResult(Enum):
    """Why a line was not taken."""

    # Its request id had another text.
    OTHER_TEXT = "other text"
    # Of the speaker's own, or of all together.
    TOO_MANY = "too many"
    CROWDED = "crowded"
    GAME_OVER = "game over"


class ChatCounters(NamedTuple):
    """How far a game's chat has come."""

    player_lines: int = 0
    spectator_lines: int = 0
    mute_changes: int = 0

    def lines(self, side: Side) -> int:
        """How many lines a side has said."""
        return self.player_lines if side is Side.PLAYERS else self.spectator_lines


class Mute(NamedTuple):
    """Who wants no lines of whom."""

    account: str
    muted_account: str


class ChatStore(Protocol):
    """The lines of running games, and who wants none of whom. Refused while Postgres is away."""

    async def say(self, game_id: UUID, side: Side, account: UUID, request_id: UUID, text: str) -> ChatLine | SayResult:
        """Keep a line, or tell why not; a request that was made before gets the line that it made then."""
        ...

    async def lines(self, game_id: UUID, side: Side, after_line: int, limit: int) -> list[ChatLine]:
        """The last lines of a side after a line, oldest first."""
        ...

    async def mute(self, game_id: UUID, account: UUID, other: UUID, muted: bool, mutes_max: int) -> bool:
        """Remember or forget that `account` wants no lines of `other`'s; False if it would be too many."""
        ...

    async def mutes(self, game_id: UUID) -> list[Mute]:
        """All mutes of a game."""
        ...

    async def counters(self, games: Collection[UUID]) -> dict[UUID, ChatCounters]:
        """How far the chats of many games have come, in one query; games without a word are left out."""
        ...

    async def keep_house(self) -> None:
        """Delete what is left of the chats of games that are over, and what no limit looks at any more."""
        ...


class OtherReplicas(Protocol):
    """Telling the other replicas what their streams must hear of. Nothing waits for it, and it may be lost."""

    async def said(self, game_id: UUID, side: Side, line: ChatLine) -> None:
        """A line was said."""
        ...

    async def muted(self, game_id: UUID) -> None:
        """Somebody's mutes in this game have changed."""
        ...

    async def watching(self, spectators: Mapping[UUID, Collection[str]]) -> None:
        """Whom this replica has as spectators of these games."""
        ...


class CommitMessages(Protocol):
    """One commit, as each viewer of it is sent it."""

    def message(self, viewer: Viewer) -> bytes:
        """For a viewer's stream."""
        ...

    def answer(self, viewer: Viewer, command_id: str) -> bytes:
        """For the stream that the command came on."""
        ...


class Messages(Protocol):
    """Messages for viewers' streams, encoded."""

    def commit_messages(self, before: Table | None, commit: Commit, after: Table) -> CommitMessages:
        """A commit, encoded for whoever views it."""
        ...

    def snapshot(self, table: Table, viewer: Viewer) -> bytes:
        """All that the viewer may know now."""
        ...

    def watching(self, spectators: int) -> bytes:
        """So many people watch."""
        ...

    def chat_line(self, line: ChatLine) -> bytes:
        """A line of chat."""
        ...

    def heartbeat(self, version: int) -> bytes:
        """Still at this version."""
        ...

    def closing(self, reason: str, resume_after_version: int) -> bytes:
        """The last message of a stream that the server ends in order."""
        ...
