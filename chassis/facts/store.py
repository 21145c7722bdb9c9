"""A service's own facts in Postgres: the truth, of which JetStream holds a copy.

Appending a fact takes its number from the one row of `fact_head`, whose lock is held until the commit. So numbers have
no holes, run in the order of commits, and so do their times: who has read up to a number has missed nothing.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final
from uuid import UUID

import grpc

from chassis.database import Pool, Session
from chassis.errors import Refused
from chassis.log import NewFact

PAGE_FACTS: Final = 1_000
PAGE_FACTS_MAX: Final = 5_000
# Well below what a gRPC client takes in one message.
PAGE_BYTES_MAX: Final = 1_000_000


@dataclass(slots=True)
class Fact:
    """One fact of a log. `at_us` is log time: microseconds since 1970, never running back."""

    number: int
    subject: str
    payload: bytes
    at_us: int


@dataclass(slots=True)
class Head:
    """Which log it is, and its last number."""

    incarnation: UUID
    last: int


@dataclass(slots=True)
class Page:
    """Facts in order, and the head when they were read."""

    head: Head
    facts: list[Fact]


_HEAD: Final = "select incarnation, last from fact_head"
# Arrays: a row for each fact would repeat the head, and take twice as long to be read.
_READ: Final = """
    select head.incarnation, head.last, page.*
    from fact_head head cross join lateral (
        select array_agg(fact_no), array_agg(subject), array_agg(payload),
               array_agg((extract(epoch from at) * 1000000)::bigint)
        from (select * from facts where fact_no > $1 order by fact_no limit $2) next
    ) page"""

# The head's time says that all later facts will have this time or a later one.
_BEFORE: Final = """
    select h.incarnation, coalesce(
        (select fact_no from facts where at < t.at order by at desc, fact_no desc limit 1), 0
    ) as last
    from fact_head h, (select timestamptz 'epoch' + $1::bigint * interval '1 microsecond' as at) t
    where h.at >= t.at"""
# Who waits for the head to append a fact then computes its time anew, from this one.
_MOVE_HEAD_TIME: Final = "update fact_head set at = greatest(at, levata_now())"

_PUBLISH: Final = """
    with head as (
        update fact_head set last = last + cardinality($1::text[]), at = greatest(at, levata_now()) returning last, at
    ), published as (
        insert into facts (fact_no, subject, payload, at)
        select head.last - cardinality($1) + new.nth, new.subject, new.payload, head.at
        from head, unnest($1, $2::bytea[]) with ordinality as new (subject, payload, nth)
    )
    select last from head"""


async def publish(session: Session, facts: Sequence[NewFact]) -> int:
    """Append facts in the caller's transaction; answers the last number.

    It must be the transaction's last statement: every other writer of facts waits until the commit. Rows of an event
    log carry their facts with them instead (`chassis.log`).
    """
    assert session.is_in_transaction()
    last = await session.fetchval(_PUBLISH, [fact.subject for fact in facts], [fact.payload for fact in facts])
    assert isinstance(last, int)
    return last


class FactLog:
    """Reads the facts of the schema that the pool's role works in."""

    def __init__(self, pool: "Pool | Session") -> None:
        self._pool = pool

    async def head(self) -> Head:
        """The newest number."""
        record = await self._pool.fetchrow(_HEAD)
        assert record is not None
        return Head(*record)

    async def read(self, after: int, limit: int = PAGE_FACTS) -> Page:
        """Facts after a number; a page ends early when it becomes big, but is empty only at the head."""
        record = await self._pool.fetchrow(_READ, after, min(limit, PAGE_FACTS_MAX))
        assert record is not None
        incarnation, last, *columns = record
        if columns[0] is None:
            return Page(Head(incarnation, last), [])
        numbers, subjects, payloads, at_us = columns
        sizes = list(accumulate(map(len, payloads)))
        fitting = max(1, bisect_right(sizes, PAGE_BYTES_MAX))
        return Page(Head(incarnation, last), list(map(Fact, numbers[:fitting], subjects, payloads, at_us)))

    async def before(self, at_us: int) -> Head:
        """The last number with a time before `at_us`, for good; refused until that time has come."""
        record = await self._pool.fetchrow(_BEFORE, at_us)
        if record is None:
            await self._pool.execute(_MOVE_HEAD_TIME)
            record = await self._pool.fetchrow(_BEFORE, at_us)
        if record is None:
            raise Refused("NOT_YET", grpc.StatusCode.FAILED_PRECONDITION, "that time has not come")
        return Head(*record)
