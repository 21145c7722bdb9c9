"""Entries of games in Postgres."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from chassis.database import Pool, Session, refusing_while_away
from services.ledger.app.ports import Decided, HeldGame, Moved, nobody_is_told
from services.ledger.domain.entries import Entrant, RoomTerms
from services.ledger.domain.journal import Currency, Entry, players_of
from services.ledger.store.journal import put_down

# Whoever asks for the same game at the same time waits here for the first one's end.
_BEGIN: Final = """
    insert into game_entry (game_id, input_hash) values ($1, $2) on conflict do nothing returning true"""
_GAME: Final = "select input_hash, began, seated from game_entry where game_id = $1 for update"
_ENTRANTS: Final = """
    select account_id, room, coffee, coins, gold, prize, refusal from entrant where game_id = $1 order by place"""
_KEEP: Final = """
    insert into entrant (game_id, account_id, place, room, coffee, coins, gold, prize, refusal)
    select $1, * from unnest(
        $2::uuid[], $3::smallint[], $4::smallint[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[]
    )"""
_END: Final = """
    insert into game_entry (game_id, began, began_at, seated, game_type, variant)
    values ($1, $2, levata_now(), $3, $4, $5)
    on conflict (game_id) do update
    set began = excluded.began, began_at = excluded.began_at, seated = excluded.seated,
        game_type = excluded.game_type, variant = excluded.variant
    where game_entry.began is null"""
_UNSETTLED_COUNT: Final = """
    select count(*) from game_entry where began is null and held_at < levata_now() - make_interval(secs => $1)"""
_FREE: Final = "select account, currency, posted - held as free from balance where account = any($1) and posted > held"
_UNSETTLED: Final = """
    select game_id from game_entry
    where began is null and held_at < levata_now() - make_interval(secs => $1)
      and coalesce(ask_again_at < levata_now(), true)
    order by held_at limit $2"""
_ASKED: Final = """
    update game_entry set ask_again_at = levata_now() + make_interval(secs => $2)
    where game_id = $1 and began is null"""


class PostgresEntries:
    """Implements `app.ports.Entries`."""

    def __init__(self, pool: Pool, moved: Moved = nobody_is_told) -> None:
        self._pool = pool
        self._moved = moved

    @asynccontextmanager
    async def holding(self, game_id: UUID, input_hash: bytes) -> AsyncIterator["PostgresHolding"]:
        """A transaction about this game's entries."""
        with refusing_while_away():
            async with self._pool.acquire() as session, session.transaction():
                is_new = await session.fetchval(_BEGIN, game_id, input_hash)
                holding = PostgresHolding(session, game_id, None if is_new else await held_game(session, game_id))
                yield holding
        self._moved(holding.moved)

    async def unsettled_count(self, older_than_seconds: float) -> int:
        """How many games' entries have been held for so long without an end."""
        with refusing_while_away():
            count = await self._pool.fetchval(_UNSETTLED_COUNT, older_than_seconds)
        assert isinstance(count, int)
        return count

    async def free(self, accounts: Sequence[UUID]) -> dict[UUID, dict[Currency, int]]:
        """What accounts can spend."""
        with refusing_while_away():
            rows = await self._pool.fetch(_FREE, accounts)
        free: dict[UUID, dict[Currency, int]] = {account: {} for account in accounts}
        for row in rows:
            free[row["account"]][Currency(row["currency"])] = row["free"]
        return free

    async def unsettled(self, older_than_seconds: float, limit: int) -> list[UUID]:
        """Those of them that are to be asked about now, the oldest first."""
        with refusing_while_away():
            rows = await self._pool.fetch(_UNSETTLED, older_than_seconds, limit)
        return [row["game_id"] for row in rows]

    async def asked(self, game_id: UUID, again_seconds: float) -> None:
        """Remember that one was asked about."""
        with refusing_while_away():
            await self._pool.execute(_ASKED, game_id, again_seconds)


class PostgresHolding:
    """Implements `app.ports.Holding`."""

    def __init__(self, session: Session, game_id: UUID, known: HeldGame | None) -> None:
        self._session = session
        self._game_id = game_id
        self._known = known
        # Accounts that entries were put down of.
        self.moved: set[UUID] = set()

    async def known(self) -> HeldGame | None:
        """What was held before."""
        return self._known

    async def put_down(self, entries: Sequence[Entry]) -> list[Decided]:
        """Decide entries."""
        self.moved = players_of(entries)
        return await put_down(self._session, entries)

    async def keep(self, entrants: Sequence[Entrant]) -> None:
        """Keep the answer."""
        await self._session.execute(
            _KEEP,
            self._game_id,
            [each.account for each in entrants],
            list(range(len(entrants))),
            [each.room for each in entrants],
            ["" if each.coffee is None else each.coffee.value for each in entrants],
            [each.terms.coins for each in entrants],
            [each.terms.gold for each in entrants],
            [each.terms.prize for each in entrants],
            [None if each.refusal is None else each.refusal.value for each in entrants],
        )


async def held_game(session: Session, game_id: UUID) -> HeldGame | None:
    """What is known of a game's entries, its row locked until the transaction ends; None for nothing."""
    row = await session.fetchrow(_GAME, game_id)
    if row is None:
        return None
    entrants = tuple(
        Entrant(
            entrant["account_id"],
            entrant["room"],
            Currency(entrant["coffee"]) if entrant["coffee"] else None,
            RoomTerms(entrant["coins"], entrant["gold"], entrant["prize"]),
            None if entrant["refusal"] is None else Currency(entrant["refusal"]),
        )
        for entrant in await session.fetch(_ENTRANTS, game_id)
    )
    return HeldGame(row["input_hash"], row["began"], entrants, frozenset(row["seated"]))


async def end_game(
    session: Session,
    game_id: UUID,
    *,
    began: bool,
    seated: Collection[UUID] = (),
    of: tuple[str | None, str | None] = (None, None),
) -> HeldGame:
    """Keep what became of a game's entries, in the caller's transaction; answers with what was known before.

    `of` is the game type and the variant of a game that began.
    """
    before = await held_game(session, game_id)
    if before is None or before.began is None:
        await session.execute(_END, game_id, began, list(seated), *of)
        # Somebody may have begun to hold entries between the two statements.
        before = before or await held_game(session, game_id)
        assert before is not None
        return HeldGame(before.input_hash, None, before.entrants)
    return before
