"""Refunds in Postgres."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

import asyncpg
from levata.ledger.v1 import facts_pb2

from chassis.database import Pool, Session, refusing_while_away
from chassis.facts import publish
from chassis.log import NewFact
from rules.calendar import week_of
from services.ledger.app.ports import Decided, Moved, PlayedSeat, nobody_is_told
from services.ledger.app.refusals import request_id_reused
from services.ledger.domain.journal import Currency, Entry, Transfer
from services.ledger.domain.refunds import PlayedGame
from services.ledger.store.journal import put_down

_SUBJECT: Final = "levata.ledger.refunded."

# Of the whole day, so that its refunds come one after another. Finished games have all their seats.
_LOCK_DAY: Final = """
    select s.game_id, s.seat, s.place, s.eligible, s.prize, s.day, s.refund_request
    from settled_seat s
    where s.account_id = $1 and s.day = (select day from settled_seat where game_id = $2 and account_id = $1)
    order by s.game_id for update"""
_FINISHED_AT: Final = """
    select (extract(epoch from finished_at) * 1000000)::bigint from settled_game where game_id = $1"""
_USED: Final = (
    "select exists (select from settled_seat where account_id = $1 and refund_request = $2 and game_id <> $3)"
)
_TRANSFERS: Final = """
    select t.debit, t.credit, t.currency::text, t.amount
    from entry e join transfer t using (number)
    where e.cause_kind = 'game' and e.cause_id = $1 and e.kind in ('posted', 'post') and (e.what = 'refund') = $3
      and (t.debit = $2 or t.credit = $2)
    order by e.number, t.line"""
_KEEP: Final = """
    update settled_seat
    set refund_request = $3, refunded_at = timestamptz 'epoch' + $4::bigint * interval '1 microsecond'
    where game_id = $1 and account_id = $2"""


class PostgresRefunds:
    """Implements `app.ports.Refunds`."""

    def __init__(self, pool: Pool, moved: Moved = nobody_is_told) -> None:
        self._pool = pool
        self._moved = moved

    @asynccontextmanager
    async def refunding(self, account: UUID, game_id: UUID) -> AsyncIterator["PostgresRefunding"]:
        """A transaction about this entry."""
        with refusing_while_away():
            async with self._pool.acquire() as session, session.transaction():
                day = await session.fetch(_LOCK_DAY, account, game_id)
                yield PostgresRefunding(session, account, game_id, day)
        self._moved([account])


class PostgresRefunding:
    """Implements `app.ports.Refunding`."""

    def __init__(self, session: Session, account: UUID, game_id: UUID, day: Sequence[asyncpg.Record]) -> None:
        self._session = session
        self._account = account
        self._game_id = game_id
        self._day = day

    async def played(self) -> PlayedSeat | None:
        """What is known of the account's seat."""
        row = next((row for row in self._day if row["game_id"] == self._game_id), None)
        if row is None:
            return None
        finished_at_us = await self._session.fetchval(_FINISHED_AT, self._game_id)
        return PlayedSeat(
            PlayedGame(self._game_id, self._account, row["place"], row["eligible"], finished_at_us, row["day"]),
            row["seat"],
            row["prize"],
            row["refund_request"],
            sum(other["refund_request"] is not None for other in self._day),
        )

    async def is_used(self, request_id: UUID) -> bool:
        """Whether the account took another game's entry back by this request."""
        return bool(await self._session.fetchval(_USED, self._account, request_id, self._game_id))

    async def moved(self) -> list[Transfer]:
        """All that the game has moved between the account and the house."""
        return await self._transfers(refund=False)

    async def refunded(self) -> list[Transfer]:
        """What the refund moved."""
        return await self._transfers(refund=True)

    async def _transfers(self, *, refund: bool) -> list[Transfer]:
        rows = await self._session.fetch(_TRANSFERS, str(self._game_id), self._account, refund)
        return [Transfer(debit, credit, Currency(currency), amount) for debit, credit, currency, amount in rows]

    async def refund(self, played: PlayedSeat, entry: Entry, request_id: UUID, now_us: int) -> Decided:
        """Put the entry down, keep whose request it was, and tell the others."""
        (decided,) = await put_down(self._session, [entry])
        if decided.outcome.stands:
            try:
                await self._session.execute(_KEEP, self._game_id, self._account, request_id, now_us)
            except asyncpg.UniqueViolationError:
                # It took another day's game back in the same moment.
                raise request_id_reused() from None
            await publish(self._session, [_refunded(played)])
        return decided


def _refunded(played: PlayedSeat) -> NewFact:
    game = played.game
    refunded = facts_pb2.RefundedFact(
        game_id=str(game.game_id),
        seat=played.seat,
        prize=played.prize,
        finished_at_us=game.finished_at_us,
        day=game.day.isoformat(),
        week=week_of(game.day).isoformat(),
    )
    message = facts_pb2.LedgerFact(account_id=str(game.account), refunded=refunded)
    return NewFact(f"{_SUBJECT}{game.account}", message.SerializeToString())
