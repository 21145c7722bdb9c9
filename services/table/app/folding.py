"""Games as their logs have them: the only way from rows to tables."""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple
from uuid import UUID

from services.table.app.ports import GameLog, Loaded
from services.table.domain import Commit, Created, Table, apply

PAGE: Final = 200


class Replayed(NamedTuple):
    """One commit of a game's log, with the table before and after it."""

    before: Table | None
    commit: Commit
    after: Table
    chain: bytes


async def load(log: GameLog, game_id: UUID) -> Loaded | None:
    """A game as it is now; None when there is none, or when it was cancelled before it began."""
    table = None
    logged = await log.read(game_id)
    for commit, _, _ in logged:
        if table is None and not isinstance(commit.events[0], Created):
            return None
        table = apply(table, commit)
    return None if table is None else Loaded(table, logged[-1].chain)


async def history(log: GameLog, game_id: UUID, up_to: int | None = None) -> AsyncIterator[Replayed]:
    """A game's commits from the first, as far as `up_to` or as the log has them."""
    table: Table | None = None
    version = 0
    while up_to is None or version < up_to:
        limit = PAGE if up_to is None else min(PAGE, up_to - version)
        page = await log.read(game_id, version, limit)
        for commit, chain, _ in page:
            if table is None and not isinstance(commit.events[0], Created):
                return
            after = apply(table, commit)
            yield Replayed(table, commit, after, chain)
            table = after
            version = commit.version
        if len(page) < limit:
            return
