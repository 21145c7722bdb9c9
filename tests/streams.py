"""Rows of a log for tests: a stream as its writer sees it."""

from uuid import UUID

import uuid_utils.compat as uuids

from chassis.log import Append, NewFact, chain_start, next_chain

FINISHED = 4


class Stream:
    """Makes the next row on top of those that `follow` was told of."""

    def __init__(self, stream_id: UUID | None = None) -> None:
        self.id = stream_id or uuids.uuid7()
        self.version = 0
        self.chain = chain_start(self.id)

    def next(self, payload: bytes = b"a move", *, facts: int = 0, command_id: UUID | None = None) -> Append:
        """The row that would come next; with so many facts."""
        version = self.version + 1
        chain = next_chain(self.chain, version, FINISHED, payload)
        published = tuple(
            NewFact(f"levata.games.finished.{self.id}", b"%d.%d" % (version, place)) for place in range(facts)
        )
        return Append(self.id, version, FINISHED, payload, self.chain, chain, command_id, None, published)

    def follow(self, row: Append) -> None:
        """This row is in the log."""
        self.version, self.chain = row.version, row.chain
