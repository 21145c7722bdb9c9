"""How many people watch one game, put together from what each replica knows of its own streams.

Every replica tells all others whom it has, when that changes and every few seconds; what is not heard again for a while
is forgotten. So nobody has to be asked, whoever hosts the game, and a replica that dies takes its spectators along.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from services.table.app.ports import Side

SILENT_SECONDS: Final = 10.0


class _Elsewhere(NamedTuple):
    accounts: Collection[str]
    heard_at: float


class Spectators:
    """The count of one game's spectators: as it is, for players, and as spectators may know it. Times are passed in."""

    __slots__ = ("_delay", "_elsewhere", "_later", "here", "shown")

    def __init__(self, delay: float) -> None:
        self._delay = delay
        # Each account once, with the number of its streams here.
        self.here: dict[str, int] = {}
        self._elsewhere: dict[str, _Elsewhere] = {}
        self.shown = dict.fromkeys(Side, 0)
        # What the spectators are to be told, and when.
        self._later: list[tuple[float, int]] = []

    @property
    def is_settled(self) -> bool:
        """Whether nothing changes by time alone."""
        return not self._elsewhere and not self._later

    def enter(self, account: str) -> None:
        """A stream more."""
        self.here[account] = self.here.get(account, 0) + 1

    def leave(self, account: str) -> None:
        """A stream less."""
        self.here[account] -= 1
        if not self.here[account]:
            del self.here[account]

    def heard(self, replica: str, accounts: Collection[str], now: float) -> None:
        """Another replica tells whom it has."""
        if accounts:
            self._elsewhere[replica] = _Elsewhere(accounts, now)
        else:
            self._elsewhere.pop(replica, None)

    def changes(self, now: float) -> dict[Side, int]:
        """What each side is to be told now, if it has not been told so already."""
        for replica in [r for r, e in self._elsewhere.items() if now - e.heard_at > SILENT_SECONDS]:
            del self._elsewhere[replica]
        count = len(set(self.here).union(*(elsewhere.accounts for elsewhere in self._elsewhere.values())))
        changed = {}
        if count != self.shown[Side.PLAYERS]:
            changed[Side.PLAYERS] = count
            self._later.append((now + self._delay, count))
        while self._later and self._later[0][0] <= now:
            changed[Side.SPECTATORS] = self._later.pop(0)[1]
        if changed.get(Side.SPECTATORS) == self.shown[Side.SPECTATORS]:
            del changed[Side.SPECTATORS]
        self.shown |= changed
        return changed
