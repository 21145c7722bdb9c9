"""What a picture of a pool is compared by: a mark a ticket, and their sums, so that what is equal is not read.

Accounts are divided into buckets by the last byte of their ids, which is random. Where a bucket's sum is the same on
both sides, so are its marks; tens of thousands of tickets, of which some have changed, cost some thousand rows.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

BUCKETS: Final = 256


class MarksFound(NamedTuple):
    """The marks in those buckets whose sums were other ones."""

    buckets: Collection[int]
    marks: Mapping[UUID, int]


class Marks:
    """Marks by account: 64 bits, signed, another one whenever a ticket changes."""

    def __init__(self) -> None:
        self._buckets: list[dict[UUID, int]] = [{} for _ in range(BUCKETS)]
        self._sums = [0] * BUCKETS

    @property
    def sums(self) -> Sequence[int]:
        """Of each bucket, the exclusive or of its marks; 0 for none."""
        return self._sums

    def put(self, account: UUID, mark: int) -> None:
        """The account's mark is this."""
        self.drop(account)
        bucket = account.bytes[-1]
        self._buckets[bucket][account] = mark
        self._sums[bucket] ^= mark

    def drop(self, account: UUID) -> None:
        """The account has none."""
        bucket = account.bytes[-1]
        self._sums[bucket] ^= self._buckets[bucket].pop(account, 0)

    def differing(self, found: MarksFound) -> set[UUID]:
        """Accounts whose marks are not those that were found: other ones, missing ones and ones too many."""
        known = {pair for bucket in found.buckets for pair in self._buckets[bucket].items()}
        return {account for account, _ in known ^ found.marks.items()}
