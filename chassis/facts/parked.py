"""Facts whose effect failed: kept with their error, with the later facts of the same key in a queue behind them.

What runs in a consumer's transaction does so after that has locked the consumer's checkpoint row, so that consuming and
retrying never overlap.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from chassis.database import Session
from chassis.facts.store import Fact

ERROR_CHARACTERS_MAX: Final = 4_000

_BLOCKED: Final = """
    select distinct key from parked_fact where consumer = $1 and key = any($2::text[]) and discarded is null"""
_PARK: Final = """
    insert into parked_fact (consumer, fact_no, key, subject, payload, at, error, attempts)
    values ($1, $2, $3, $4, $5, timestamptz 'epoch' + $6::bigint * interval '1 microsecond', $7, $8)"""
_FIRST: Final = """
    select fact_no, subject, payload, (extract(epoch from at) * 1000000)::bigint from parked_fact
    where consumer = $1 and key = $2 and discarded is null order by fact_no limit 1"""
_FAILED: Final = """
    update parked_fact set
        retry = false,
        error = case when fact_no = $3 then $4 else error end,
        attempts = attempts + case when fact_no = $3 then 1 else 0 end
    where consumer = $1 and key = $2"""
_TO_RETRY: Final = "select distinct key from parked_fact where consumer = $1 and retry and discarded is null"
_FAILURES: Final = """
    select count(*) from parked_fact where consumer = $1 and error is not null and discarded is null"""


class ParkedFacts:
    """One consumer's parked facts."""

    def __init__(self, consumer: str) -> None:
        self._consumer = consumer

    async def blocked(self, session: Session, keys: Sequence[str]) -> set[str]:
        """Those of `keys` whose facts must queue."""
        return {record["key"] for record in await session.fetch(_BLOCKED, self._consumer, keys)}

    async def park(self, session: Session, key: str, fact: Fact, error: str | None, attempts: int) -> None:
        """Put a fact at the end of its key's queue; without an error it only waits there."""
        cut = error and error[:ERROR_CHARACTERS_MAX]
        await session.execute(
            _PARK, self._consumer, fact.number, key, fact.subject, fact.payload, fact.at_us, cut, attempts
        )

    async def failures(self, session: Session) -> int:
        """How many facts failed; those that only wait behind them do not count."""
        count = await session.fetchval(_FAILURES, self._consumer)
        assert isinstance(count, int)
        return count

    async def to_retry(self, session: Session) -> list[str]:
        """Keys that an operator wants to be tried again."""
        return [record["key"] for record in await session.fetch(_TO_RETRY, self._consumer)]

    async def first(self, session: Session, key: str) -> Fact | None:
        """The head of a key's queue."""
        record = await session.fetchrow(_FIRST, self._consumer, key)
        return None if record is None else Fact(*record)

    async def remove(self, session: Session, fact: Fact) -> None:
        """Its effect has been."""
        await session.execute(
            "delete from parked_fact where consumer = $1 and fact_no = $2", self._consumer, fact.number
        )

    async def failed_again(self, session: Session, key: str, fact: Fact, error: str) -> None:
        """The head of the queue failed once more; the operator has to ask anew."""
        await session.execute(_FAILED, self._consumer, key, fact.number, error[:ERROR_CHARACTERS_MAX])


# For the operator. The consumer itself acts on it within seconds, in its own process.


async def request_retry(session: Session, consumer: str, key: str | None = None) -> int:
    """Have the parked facts of a key, or of all keys, tried again in order; answers how many there are."""
    status = await session.execute(
        "update parked_fact set retry = true where consumer = $1 and key = coalesce($2, key) and discarded is null",
        consumer,
        key,
    )
    return int(status.split()[-1])


async def discard(session: Session, consumer: str, fact_no: int, reason: str) -> bool:
    """Decide that a parked fact shall have no effect, and have those behind it tried; answers whether it was there."""
    async with session.transaction():
        key = await session.fetchval(
            "update parked_fact set discarded = $3 where consumer = $1 and fact_no = $2 and discarded is null"
            " returning key",
            consumer,
            fact_no,
            reason,
        )
        if key is not None:
            await request_retry(session, consumer, key)
    return key is not None


async def accept_incarnation(session: Session, consumer: str, incarnation: UUID, resume_after: int) -> None:
    """Let a consumer go on with another incarnation of its source's log, from a number on.

    The number is the smallest `began_after` of the owner's incarnations since the one that the consumer knew
    (`fact_incarnation` in the owner's schema), unless the consumer is behind it anyway. Effects have unique keys by
    meaning, so that a smaller number only takes longer.
    """
    async with session.transaction():
        await session.execute(
            "update consumer_checkpoint set incarnation = $2, last = least(last, $3), moved_at = levata_now()"
            " where consumer = $1",
            consumer,
            incarnation,
            resume_after,
        )
        # Facts that are gone, or that come again.
        await session.execute(
            "delete from parked_fact p using consumer_checkpoint c"
            " where p.consumer = $1 and c.consumer = $1 and p.fact_no > c.last",
            consumer,
        )
