"""Prepared games, hosts, claims and players' games: the table service's SQL besides the log itself."""

from collections.abc import Sequence
from datetime import date
from typing import Final
from uuid import UUID

import asyncpg

from chassis.database import Pool, refusing_while_away
from services.table.app.ports import Owner, PreparedGame
from services.table.domain import HOST_SILENT_SECONDS, Kind, Mode

CLAIM_BATCH: Final = 200
_SILENCE: Final = f"interval '{HOST_SILENT_SECONDS} seconds'"
# One time for a whole statement: it may stand still in its middle, as the server may.
_NOW: Final = "t as materialized (select levata_now() as at)"
# Of a row g, as seen by the host $1: released, or its host is silent while $1 itself has been seen for a whole while.
_IS_ABANDONED: Final = f"""(g.host_id is null or g.host_id <> $1
    and exists (select from hosts me, t where me.host_id = $1
                and me.seen_at > t.at - {_SILENCE} and me.seen_since <= t.at - {_SILENCE})
    and not exists (select from hosts h, t where h.host_id = g.host_id and h.seen_at > t.at - {_SILENCE}))"""


def _claim(which: str) -> str:
    return f"""
        with {_NOW}
        update game_hosts g set host_id = $1, epoch = g.epoch + 1
        from (
            select game_id, epoch from game_hosts g
            where not over and {which} and {_IS_ABANDONED}
            limit {CLAIM_BATCH} for update skip locked
        ) abandoned
        where g.game_id = abandoned.game_id and g.epoch = abandoned.epoch
        returning g.game_id, g.epoch"""


_CLAIM_ANY: Final = _claim("true")
_CLAIM_WANTED: Final = _claim("game_id = any($2::uuid[])")


class Store:
    """Implements `app.ports.Store` on the schema `tables`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def _row(self, query: str, *arguments: object) -> asyncpg.Record | None:
        with refusing_while_away():
            return await self._pool.fetchrow(query, *arguments)

    async def _rows(self, query: str, *arguments: object) -> list[asyncpg.Record]:
        with refusing_while_away():
            return await self._pool.fetch(query, *arguments)

    async def _execute(self, query: str, *arguments: object) -> None:
        with refusing_while_away():
            await self._pool.execute(query, *arguments)

    async def prepare(self, request_id: UUID, game: PreparedGame) -> PreparedGame:
        """Store a prepared game; a request that was made before gets the game it got then."""
        row = await self._row(
            """
            with fresh as (
                insert into prepared_games
                    (game_id, request_id, game_type, variant, seats, mode, server_seed, commitment, day)
                values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
                on conflict (request_id) do nothing
                returning *
            )
            select * from fresh union all select * from prepared_games where request_id = $2 limit 1
            """,
            game.game_id,
            request_id,
            game.game_type,
            game.variant,
            game.seats,
            game.mode.value,
            game.server_seed,
            game.commitment,
            game.day,
        )
        if row is None:
            # Another call with the same request committed between this statement's snapshot and its insert.
            row = await self._row("select * from prepared_games where request_id = $1", request_id)
        assert row is not None
        return _prepared(row)

    async def prepared(self, game_id: UUID) -> PreparedGame | None:
        """A prepared game."""
        row = await self._row("select * from prepared_games where game_id = $1", game_id)
        return None if row is None else _prepared(row)

    async def offer_daily_seed(self, game_type: str, day: date, seed: bytes) -> bytes:
        """The seed of a day's deals: this one, if the day has none yet."""
        await self._execute(
            "insert into daily_seeds (day, game_type, server_seed) values ($1, $2, $3) on conflict do nothing",
            day,
            game_type,
            seed,
        )
        known = await self.daily_seed(game_type, day)
        assert known is not None
        return known

    async def daily_seed(self, game_type: str, day: date) -> bytes | None:
        """The seed of a day's deals, if anybody has asked for it on that day."""
        row = await self._row("select server_seed from daily_seeds where day = $1 and game_type = $2", day, game_type)
        return None if row is None else row["server_seed"]

    async def host_new_game(self, game_id: UUID, host_id: UUID, accounts: Sequence[UUID]) -> int:
        """Before a game's first commit: who hosts it, at which epoch, and whose it is."""
        row = await self._row(
            # A create that came to nothing may have left the row to another host, or with a later epoch.
            """
            with whose as (
                insert into player_games (account_id, game_id) select account_id, $1 from unnest($3::uuid[]) account_id
                on conflict do nothing
            )
            insert into game_hosts as g (game_id, host_id, epoch) values ($1, $2, 1)
            on conflict (game_id) do update
            set host_id = excluded.host_id,
                epoch = g.epoch + case when g.host_id = excluded.host_id then 0 else 1 end
            where g.host_id = excluded.host_id
               or not exists (select from game_log l where l.game_id = g.game_id)
            returning epoch
            """,
            game_id,
            host_id,
            accounts,
        )
        return 0 if row is None else row["epoch"]

    async def note_player(self, game_id: UUID, account: UUID) -> None:
        """Before a commit that may give the account a seat: the game is one of those that its list looks at."""
        await self._execute(
            "insert into player_games (account_id, game_id) values ($1, $2) on conflict do nothing", account, game_id
        )

    async def heartbeat(self, host_id: UUID, address: str) -> None:
        """This replica is alive, by the database's clock."""
        await self._execute(
            f"""
            insert into hosts as h (host_id, address, seen_at) values ($1, $2, levata_now())
            on conflict (host_id) do update
            set seen_at = excluded.seen_at,
                seen_since = case when h.seen_at > excluded.seen_at - {_SILENCE} then h.seen_since
                                  else excluded.seen_at end
            """,
            host_id,
            address,
        )

    async def owner(self, game_id: UUID) -> Owner | None:
        """Whose a game is; None for a game that nobody was to host yet, or that is over."""
        row = await self._row(
            f"""
            select host_id, epoch, exists (
                select from hosts h where h.host_id = g.host_id and h.seen_at > levata_now() - {_SILENCE}
            ) as is_alive
            from game_hosts g where game_id = $1 and not over
            """,
            game_id,
        )
        return None if row is None else Owner(row["host_id"], row["epoch"], row["is_alive"])

    async def own_games(self, host_id: UUID) -> list[tuple[UUID, int]]:
        """The running games that this replica owns, with their epochs."""
        rows = await self._rows("select game_id, epoch from game_hosts where host_id = $1 and not over", host_id)
        return [(row["game_id"], row["epoch"]) for row in rows]

    async def claim_abandoned(self, host_id: UUID, wanted: Sequence[UUID] = ()) -> list[tuple[UUID, int]]:
        """Take over abandoned games, a batch at a time, of the wanted ones if there are any; the row's lock lets only
        one claimer have each. Answers with their new epochs."""
        query, arguments = (_CLAIM_WANTED, (host_id, wanted)) if wanted else (_CLAIM_ANY, (host_id,))
        return [(row["game_id"], row["epoch"]) for row in await self._rows(query, *arguments)]

    async def mark_over(self, game_id: UUID) -> None:
        """Nobody needs to host this game any more, and what was said at it is forgotten."""
        await self._execute(
            """
            with over as (update game_hosts set over = true where game_id = $1)
            delete from chats where game_id = $1
            """,
            game_id,
        )

    async def release(self, host_id: UUID) -> None:
        """Leave all games to others at once, and be gone."""
        with refusing_while_away():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(
                    "update game_hosts set host_id = null where host_id = $1 and not over", host_id
                )
                await connection.execute("delete from hosts where host_id = $1", host_id)

    async def make_log_partitions(self) -> None:
        """See to it that the log has room for the games of the months to come."""
        await self._execute("select make_game_log_partitions()")

    async def forget_dead_hosts(self) -> None:
        """Remove replicas that are long gone and host nothing."""
        await self._execute(
            """
            delete from hosts h where seen_at < levata_now() - interval '1 hour'
            and not exists (select from game_hosts g where g.host_id = h.host_id and not over)
            """
        )

    async def games_of(
        self, accounts: Sequence[UUID], before: UUID | None, running_only: bool, limit: int
    ) -> list[list[UUID]]:
        """Each account's created games, newest first, older than `before`: so many of each."""
        rows = await self._rows(
            """
            select array(
                select p.game_id from player_games p join game_hosts h using (game_id)
                where p.account_id = a.account_id and ($2::uuid is null or p.game_id < $2) and not (h.over and $3)
                  and exists (
                      select from game_log l where l.game_id = p.game_id and l.version = 1 and l.kinds & $5 <> 0
                  )
                order by p.game_id desc limit $4
            ) as game_ids
            from unnest($1::uuid[]) with ordinality a (account_id, nth) order by nth
            """,
            accounts,
            before,
            running_only,
            limit,
            Kind.CREATED.value,
        )
        return [row["game_ids"] for row in rows]


def _prepared(row: asyncpg.Record) -> PreparedGame:
    return PreparedGame(
        row["game_id"],
        row["game_type"],
        row["variant"],
        row["seats"],
        Mode(row["mode"]),
        row["server_seed"],
        row["commitment"],
        row["day"],
    )
