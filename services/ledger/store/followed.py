"""How far the games' log was followed, in Postgres."""

from typing import Final

from chassis.database import Pool, refusing_while_away
from services.ledger.app.settlement import ParkedFact, Stand

_STAND: Final = """
    select heard.incarnation, coalesce(heard.last, 0), own.incarnation, own.last
    from fact_head own left join consumer_checkpoint heard on heard.consumer = $1"""
_PARKED: Final = """
    select fact_no, key, discarded is not null from parked_fact
    where consumer = $1 and fact_no <= $2 order by fact_no"""


class PostgresFollowed:
    """Implements `app.settlement.Followed`."""

    def __init__(self, pool: Pool, consumer: str) -> None:
        """`consumer` is the one of the games' facts."""
        self._pool = pool
        self._consumer = consumer

    async def stand(self, games_fact: int) -> Stand:
        """How things stand now; parked facts up to this number."""
        with refusing_while_away():
            # One moment: a parked fact that has its effect in between would be neither in the list nor in the log.
            async with (
                self._pool.acquire() as session,
                session.transaction(isolation="repeatable_read", readonly=True),
            ):
                row = await session.fetchrow(_STAND, self._consumer)
                assert row is not None
                parked = await session.fetch(_PARKED, self._consumer, games_fact)
        games_incarnation, reached, incarnation, last = row
        return Stand(games_incarnation, reached, incarnation, last, [ParkedFact(*fact) for fact in parked])
