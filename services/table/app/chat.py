"""What this replica knows of the chat of one game: the last lines of each side, and who wants no lines of whom."""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from services.table.app.ports import ChatCounters, Mute, Side

# So many lines are sent when a stream begins.
RECENT_LINES: Final = 50
# Of one player in one game.
MUTES_MAX: Final = 100


class Heard(NamedTuple):
    """A line, encoded for the streams."""

    line_no: int
    account: str
    message: bytes


class Chat:
    """The chat of one game. Lines of a side are taken in order and without holes."""

    __slots__ = ("_lines", "_muted", "is_known", "last_line", "mute_changes")

    def __init__(self) -> None:
        # Whether the store was read: before that nobody's mutes are known, so that no line may be shown.
        self.is_known = False
        self.last_line = dict.fromkeys(Side, 0)
        self.mute_changes = 0
        # Made when there is something to keep: most games pass without a word.
        self._lines: dict[Side, deque[Heard]] = {}
        self._muted: dict[str, set[str]] = {}

    def is_behind(self, counters: ChatCounters) -> bool:
        """Whether the store has more than is known here."""
        return any(self.last_line[side] < counters.lines(side) for side in Side) or (
            self.mute_changes < counters.mute_changes
        )

    def is_next(self, side: Side, line_no: int) -> bool:
        """Whether nothing is missing between the last line that is known and this one."""
        return self.is_known and line_no == self.last_line[side] + 1

    def add(self, side: Side, line: Heard) -> None:
        """The next line of a side; those before it that are not known were too old to be kept."""
        assert line.line_no > self.last_line[side]
        self.last_line[side] = line.line_no
        self._lines.setdefault(side, deque(maxlen=RECENT_LINES)).append(line)

    def set_mutes(self, mutes: Iterable[Mute], changes: int) -> None:
        """All mutes of the game as they are after so many changes, or after more."""
        self._muted.clear()
        for mute in mutes:
            self._muted.setdefault(mute.account, set()).add(mute.muted_account)
        self.mute_changes = changes

    def wants(self, account: str, line: Heard) -> bool:
        """Whether somebody wants to be sent a line."""
        return not self._muted or line.account not in self._muted.get(account, ())

    def recent(self, side: Side) -> Iterable[Heard]:
        """The last lines of a side, oldest first."""
        return self._lines.get(side, ())
