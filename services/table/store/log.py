"""The games' log: commits of the domain as rows of the chassis' log, with the facts that they publish."""

from collections.abc import Callable, Sequence
from uuid import UUID

from chassis.database import refusing_while_away
from chassis.log import Append, AppendResult, GroupWriter, LogReader, Row, chain_start, next_chain
from services.table.app.ports import Applied, CommandName, Logged, Submitted
from services.table.domain import Commit, Kind, Table, kinds_of
from services.table.store.codec import decode, encode
from services.table.store.facts import PUBLISHED, facts_of


class GameLog:
    """Implements `app.ports.GameLog`."""

    def __init__(self, writer: GroupWriter, reader: LogReader) -> None:
        self._writer = writer
        self._reader = reader

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
        row = _row(game_id, previous_chain, before, commit, after, command)
        self._writer.submit(row, done)
        return Submitted(row.chain, row.payload)

    async def append_first(
        self, game_id: UUID, commit: Commit, after: Table | None, command: CommandName | None
    ) -> tuple[AppendResult, bytes]:
        """Append a game's first commit; its outcome and its row's chain. Goes on when its caller is cancelled."""
        row = _row(game_id, chain_start(game_id), None, commit, after, command)
        return await self._writer.append(row), row.chain

    async def read(self, game_id: UUID, after_version: int = 0, limit: int | None = None) -> Sequence[Logged]:
        """Commits after a version, oldest first."""
        with refusing_while_away():
            rows = await self._reader.read(game_id, after_version, limit)
        return [_logged(game_id, row) for row in rows]

    async def head(self, game_id: UUID) -> Logged | None:
        """The newest commit."""
        with refusing_while_away():
            row = await self._reader.head(game_id)
        return None if row is None else _logged(game_id, row)

    async def first(self, game_id: UUID) -> Applied | None:
        """What the first commit is: the game's creation or its cancellation."""
        with refusing_while_away():
            rows = await self._reader.read(game_id, 0, 1)
        return _applied(rows[0]) if rows else None

    async def read_kinds(self, game_ids: Sequence[UUID], kinds: Kind) -> dict[UUID, Sequence[Commit]]:
        """Of many games the commits in which any of these kinds is, oldest first; a game without any is left out."""
        with refusing_while_away():
            games = await self._reader.read_kinds(game_ids, int(kinds))
        return {game_id: [_logged(game_id, row).commit for row in rows] for game_id, rows in games.items()}

    async def versions(self, game_ids: Sequence[UUID]) -> dict[UUID, int]:
        """The newest versions of many games."""
        with refusing_while_away():
            return await self._reader.versions(game_ids)

    async def applied(self, game_id: UUID, key: UUID) -> Applied | None:
        """The command of this key."""
        with refusing_while_away():
            row = await self._reader.find_command(game_id, key)
        return None if row is None else _applied(row)


def _row(
    game_id: UUID,
    previous_chain: bytes,
    before: Table | None,
    commit: Commit,
    after: Table | None,
    command: CommandName | None,
) -> Append:
    kinds = int(kinds_of(commit))
    payload = encode(commit)
    return Append(
        game_id,
        commit.version,
        kinds,
        payload,
        previous_chain,
        next_chain(previous_chain, commit.version, kinds, payload),
        None if command is None else command.key,
        None if command is None else command.content_hash,
        facts_of(game_id, before, commit, after) if kinds & PUBLISHED else (),
    )


def _logged(game_id: UUID, row: Row) -> Logged:
    return Logged(decode(row.version, row.payload, game_id.bytes), row.chain, row.command_id)


def _applied(row: Row) -> Applied:
    return Applied(row.version, Kind(row.kinds), row.input_hash or b"")
