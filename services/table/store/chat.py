"""The chat of running games in Postgres: lines, mutes, and how much anybody may say."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

import asyncpg

from chassis.database import Pool, refusing_while_away
from rules.chat import CROWD_LINES_MAX, LINES_MAX, LINES_SECONDS
from services.table.app.ports import ChatCounters, ChatLine, Mute, SayResult, Side

_LINE: Final = "line_no, account_id, text, (extract(epoch from said_at) * 1000000)::bigint as said_at_us"

# One statement, so that limit, number and line stand or fall together. The limit is judged on the speaker's row and the
# number taken from the game's row, both locked: whoever waited for a lock sees what the one before has left. A crowd is
# seen as it was when the statement began, so that a few lines more may slip through.
_SAY: Final = f"""
    with game as (
        select from game_hosts where game_id = $1 and not over
    ), known as (
        select {_LINE} from chat_lines where game_id = $1 and account_id = $3 and request_id = $4
    ), crowd as (
        select from chats c join chat_lines l using (game_id)
        where c.game_id = $1 and l.side = $2
          and l.line_no + {CROWD_LINES_MAX - 1} =
              case when $2 = {Side.PLAYERS} then player_lines else spectator_lines end
          and l.said_at between levata_now() - interval '1 second' and levata_now()
    ), allowed as (
        insert into chat_speakers as s (account_id, spoke_at)
        select $3, array[levata_now()] from game
        where not exists (select from known) and not exists (select from crowd)
        on conflict (account_id) do update
        set spoke_at = s.spoke_at[greatest(cardinality(s.spoke_at) - {LINES_MAX - 2}, 1):] || levata_now()
        -- Not between, nor unknown because there are not so many. A time to come is that of a clock set back.
        where s.spoke_at[cardinality(s.spoke_at) - {LINES_MAX - 1}]
              between levata_now() - interval '{LINES_SECONDS} seconds' and levata_now() is not true
        returning true
    ), numbered as (
        insert into chats as c (game_id, player_lines, spectator_lines)
        select $1, ($2 = {Side.PLAYERS})::int, ($2 = {Side.SPECTATORS})::int from allowed
        on conflict (game_id) do update
        set player_lines = c.player_lines + excluded.player_lines,
            spectator_lines = c.spectator_lines + excluded.spectator_lines
        returning case when $2 = {Side.PLAYERS} then player_lines else spectator_lines end as line_no
    ), said as (
        insert into chat_lines (game_id, side, line_no, account_id, request_id, text, said_at)
        select $1, $2, line_no, $3, $4, $5, levata_now() from numbered
        returning {_LINE}
    )
    select exists (select from game) as runs, exists (select from crowd) as is_crowded, line.*
    from (select) as one left join (select * from known union all select * from said) as line on true"""

_THIS_MUTE: Final = "game_id = $1 and account_id = $2 and muted_account_id = $3"
# Locks the game's chat, so that mutes come one after another.
_CHANGE_MUTES: Final = """
    insert into chats as c (game_id, mute_changes) values ($1, 1)
    on conflict (game_id) do update set mute_changes = c.mute_changes + 1"""


class ChatStore:
    """Implements `app.ports.ChatStore` on the schema `tables`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def say(self, game_id: UUID, side: Side, account: UUID, request_id: UUID, text: str) -> ChatLine | SayResult:
        """Keep a line, or tell why not; a request that was made before gets the line that it made then."""
        arguments = game_id, side.value, account, request_id, text
        with refusing_while_away():
            try:
                row = await self._pool.fetchrow(_SAY, *arguments)
            except asyncpg.UniqueViolationError:
                # The same request was under way elsewhere and has been committed since.
                row = await self._pool.fetchrow(_SAY, *arguments)
        assert row is not None
        if row["line_no"] is None:
            if not row["runs"]:
                return SayResult.GAME_OVER
            return SayResult.CROWDED if row["is_crowded"] else SayResult.TOO_MANY
        line = _line(row)
        return line if line.text == text else SayResult.OTHER_TEXT

    async def lines(self, game_id: UUID, side: Side, after_line: int, limit: int) -> list[ChatLine]:
        """The last lines of a side after a line, oldest first."""
        with refusing_while_away():
            rows = await self._pool.fetch(
                f"""
                select {_LINE} from chat_lines where game_id = $1 and side = $2 and line_no > $3
                order by line_no desc limit $4
                """,
                game_id,
                side.value,
                after_line,
                limit,
            )
        return [_line(row) for row in reversed(rows)]

    async def mute(self, game_id: UUID, account: UUID, other: UUID, muted: bool, mutes_max: int) -> bool:
        """Remember or forget that `account` wants no lines of `other`'s; False if it would be too many."""
        whom = game_id, account, other
        with refusing_while_away():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_CHANGE_MUTES, game_id)
                if not muted:
                    await connection.execute(f"delete from chat_mutes where {_THIS_MUTE}", *whom)
                    return True
                await connection.execute(
                    """
                    insert into chat_mutes (game_id, account_id, muted_account_id) select $1, $2, $3
                    where (select count(*) from chat_mutes where game_id = $1 and account_id = $2) < $4
                    on conflict do nothing
                    """,
                    *whom,
                    mutes_max,
                )
                done: bool = await connection.fetchval(
                    f"select exists (select from chat_mutes where {_THIS_MUTE})", *whom
                )
                return done

    async def mutes(self, game_id: UUID) -> list[Mute]:
        """All mutes of a game."""
        with refusing_while_away():
            rows = await self._pool.fetch(
                "select account_id, muted_account_id from chat_mutes where game_id = $1", game_id
            )
        return [Mute(str(row["account_id"]), str(row["muted_account_id"])) for row in rows]

    async def counters(self, games: Collection[UUID]) -> dict[UUID, ChatCounters]:
        """How far the chats of many games have come, in one query; games without a word are left out."""
        with refusing_while_away():
            rows = await self._pool.fetch(
                "select game_id, player_lines, spectator_lines, mute_changes from chats where game_id = any($1)", games
            )
        return {row[0]: ChatCounters(*row[1:]) for row in rows}

    async def keep_house(self) -> None:
        """Delete what is left of the chats of games that are over, and what no limit looks at any more."""
        with refusing_while_away():
            await self._pool.execute(
                "delete from chats c where exists (select from game_hosts h where h.game_id = c.game_id and h.over)"
            )
            await self._pool.execute(
                f"""
                delete from chat_speakers
                where spoke_at[cardinality(spoke_at)] < levata_now() - interval '{LINES_SECONDS} seconds'
                """
            )


def _line(row: asyncpg.Record) -> ChatLine:
    return ChatLine(row["line_no"], str(row["account_id"]), row["text"], row["said_at_us"])
