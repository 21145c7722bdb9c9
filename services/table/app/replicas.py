"""The other replicas, as the app sees them (`rpc/replicas.py` implements it over NATS).

Whatever is sent to them may be lost: the log repairs what was announced, and who asked asks again.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from services.table.app.requests import Outcome, Request
from services.table.domain import Commit

# How long a host may wait before it takes up a request.
ATTEMPT_SECONDS: Final = 1.0


class LiveCommit(NamedTuple):
    """A commit, as its game's host announces it once it is in the log."""

    commit: Commit
    # Of the command that caused it.
    key: UUID | None


class Asked(NamedTuple):
    """A request on its way to a game's host."""

    game_id: UUID
    # At which the game was seen to be the host's.
    epoch: int
    # Later than this it is not taken any more: whoever waited has asked again.
    expires_at_us: int
    request: Request


class Answer(NamedTuple):
    """What became of a request at the game's host."""

    outcome: Outcome
    repeated: bool


# None: it was not that host's game, nobody answered, or not in time. Nothing is to be concluded from it.
Answered: TypeAlias = Callable[[Answer | None], None]
# Ends what `Replicas.follow` began.
Unfollow: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Replicas(Protocol):
    """The way to the other replicas."""

    async def reach(self) -> None:
        """Answers when something that was sent now has gone through; for as long as the caller waits for that."""
        ...

    @property
    def reconnects(self) -> int:
        """How often the way was lost and found again: what was announced meanwhile was not heard."""
        ...

    def announce_commit(self, game_id: UUID, version: int, payload: bytes, key: UUID | None) -> None:
        """Tell who follows the game of a commit, by its payload in the log. Does not wait."""
        ...

    def ask(self, host_id: UUID, asked: Asked, answered: Answered) -> None:
        """Ask a game's host. Does not wait; `answered` is called once."""
        ...

    async def follow(self, game_id: UUID, hear: Callable[[LiveCommit], None]) -> Unfollow:
        """Hear what a game's host announces. When this has answered, whatever is announced from then on is heard,
        unless the way to the others is lost."""
        ...


class NoReplicas:
    """Without NATS this replica is on its own: others may host games, but nothing is heard of them."""

    reconnects = 0

    async def reach(self) -> None:
        """There is nobody whose word could be late."""

    def announce_commit(self, game_id: UUID, version: int, payload: bytes, key: UUID | None) -> None:
        """Nobody hears."""

    def ask(self, host_id: UUID, asked: Asked, answered: Answered) -> None:
        """Nobody answers."""
        answered(None)

    async def follow(self, game_id: UUID, hear: Callable[[LiveCommit], None]) -> Unfollow:
        """The log tells, once a second."""
        return self._unfollow

    async def _unfollow(self) -> None:
        pass
