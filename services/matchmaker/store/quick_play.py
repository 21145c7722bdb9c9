"""Tickets, tables and turns in Postgres. That a player has one ticket is the primary key's word."""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID, uuid4

from asyncpg import Record

from chassis.database import Pool as DatabasePool
from chassis.database import Session, refusing_while_away
from chassis.facts import publish
from services.matchmaker.app.marks import MarksFound
from services.matchmaker.app.ports import (
    TURN_US,
    Answer,
    Dealt,
    Ended,
    Fenced,
    Outline,
    PreparedTable,
    Standing,
    Started,
    Turn,
)
from services.matchmaker.domain.pairing import Decision, Moved, Opened, Seated
from services.matchmaker.domain.quick_play import Pool, QuickTable, QuickTicket, State
from services.matchmaker.store import facts

_TURN_SECONDS: Final = TURN_US / 1_000_000


def _us(column: str) -> str:
    return f"(extract(epoch from {column}) * 1000000)::bigint as {column}_us"


# What all of a ticket comes to that a table's people see: it changes with the ticket, but not with a sign of life.
_MARK: Final = "hash_record_extended((ticket_id, state, table_id, nonce is not null), 0)"
_TICKET_COLUMNS: Final = f"""
    ticket_id, account_id, guest, game_type, variant, room, coffee, rank, companions, {_us("queued_at")}, state,
    table_id, coalesce(place, 0) as place, nonce is not null as answered, game_id,
    {_MARK} as mark"""
_TABLE_COLUMNS: Final = f"""
    table_id, game_type, variant, room, rank, {_us("opened_at")}, game_id, commitment,
    dealing_at is not null as dealing"""

_TICKET: Final = f"select {_TICKET_COLUMNS} from ticket where account_id = $1"
_TABLES_NAMED: Final = f"select {_TABLE_COLUMNS} from quick_table where table_id = any($1)"
_SEATED: Final = f"select {_TICKET_COLUMNS} from ticket where table_id = any($1) order by place"
_ENDED: Final = """
    select account_id, ticket_id, room, game_type, variant, reason from ended_ticket
    where account_id = any($1) and ended_at > levata_now() - interval '10 minutes'"""
_ADD: Final = f"""
    with fresh as (
        insert into ticket (account_id, ticket_id, guest, room, game_type, variant, coffee, rank, companions)
        select t.account_id, t.ticket_id, t.guest, t.room, t.game_type, t.variant, t.coffee, t.rank,
               t.companions::uuid[]
        from unnest($1::uuid[], $2::uuid[], $3::bool[], $4::smallint[], $5::text[], $6::text[], $7::text[],
                    $8::float8[], $9::text[])
            as t (account_id, ticket_id, guest, room, game_type, variant, coffee, rank, companions)
        order by t.account_id
        on conflict (account_id) do nothing
        returning *
    ), forgotten as (
        delete from ended_ticket e using fresh where e.account_id = fresh.account_id
    )
    select {_TICKET_COLUMNS} from fresh"""
_WITHOUT_TICKET: Final = """
    select account_id from unnest($1::uuid[]) as a (account_id)
    where not exists (select from ticket t where t.account_id = a.account_id)"""
_OF_ACCOUNTS: Final = f"select {_TICKET_COLUMNS} from ticket where account_id = any($1)"
_KNOWN: Final = "select account_id from ticket where account_id = any($1)"
_CANCEL: Final = "delete from ticket where account_id = $1 and ticket_id = $2 and state in (1, 2) returning true"
# Whatever locks many tickets locks them in the order of accounts.
_ANSWER: Final = """
    with answered as (
        select t.account_id as answering, a.nonce as added
        from unnest($1::uuid[], $2::uuid[], $3::bytea[]) as a (account_id, game_id, nonce)
        join ticket t on t.account_id = a.account_id
        join quick_table q on q.table_id = t.table_id and q.game_id = a.game_id and q.dealing_at is null
        where t.state = 2
        order by t.account_id for no key update of t
    )
    update ticket set nonce = added, seen_at = levata_now()
    from answered where account_id = answering and state = 2
    returning account_id, game_type, variant"""
# Also of those who sit at friendly tables: one says once that one is there.
_SEEN: Final = """
    with friends as (update friendly_seat set seen_at = levata_now() where account_id = any($1)),
    there as (
        select account_id as seen from ticket where account_id = any($1) and state < 4
        order by account_id for no key update
    )
    update ticket set seen_at = levata_now() from there where account_id = seen"""
_LEFT: Final = "delete from ticket where account_id = $1 and game_id = $2 returning true"

_TAKE_TURN: Final = f"""
    insert into forming as f (game_type, variant, holder, epoch) values ($1, $2, $3, 1)
    on conflict (game_type, variant) do update
    set holder = excluded.holder, seen_at = excluded.seen_at,
        epoch = f.epoch + case when f.holder = excluded.holder
                                and abs(extract(epoch from excluded.seen_at - f.seen_at)) <= {_TURN_SECONDS}
                               then 0 else 1 end
    where f.holder = excluded.holder or abs(extract(epoch from excluded.seen_at - f.seen_at)) > {_TURN_SECONDS}
    returning epoch"""
_RELEASE: Final = "update forming set seen_at = 'epoch' where holder = $1"
# Who takes the turn over waits here until what is written under it has been.
_FENCE: Final = "select from forming where game_type = $1 and variant = $2 and epoch = $3 and holder = $4 for share"
# As `app.marks` has them.
_BUCKET: Final = "get_byte(uuid_send(account_id), 15)"
_SUMS: Final = f"""
    select {_BUCKET} as bucket, bit_xor({_MARK}) as sum from ticket
    where game_type = $1 and variant = $2 and state < 4 group by bucket"""
_MARKS: Final = f"""
    select account_id, {_MARK} as mark from ticket
    where game_type = $1 and variant = $2 and state < 4 and {_BUCKET} = any($3)"""
_TABLES: Final = f"select {_TABLE_COLUMNS} from quick_table where game_type = $1 and variant = $2"
_LIVE: Final = f"select {_TICKET_COLUMNS} from ticket where account_id = any($1) and state < 4"
_OPEN: Final = """
    insert into quick_table (table_id, game_type, variant, room, rank)
    select t.table_id, $1, $2, t.room, t.rank from unnest($3::uuid[], $4::smallint[], $5::float8[])
        as t (table_id, room, rank)"""
_SEAT: Final = f"""
    with wanted as (
        select * from unnest($1::uuid[], $2::uuid[]) with ordinality as w (wanted_ticket, wanted_table, nth)
    ), placed as (
        select wanted_ticket, wanted_table, nextval('ticket_place') as new_place
        from (select * from wanted order by nth) in_order
    )
    update ticket set state = 2, table_id = wanted_table, place = new_place, nonce = null
    from placed where ticket_id = wanted_ticket and state = 1
    returning {_TICKET_COLUMNS}"""
# They join behind those who are there, in the order in which they had joined their own table.
_MOVE: Final = f"""
    with placed as (
        select account_id as moving, nextval('ticket_place') as new_place
        from (select account_id from ticket where table_id = $1 and state = 2 order by place) in_order
    )
    update ticket set table_id = $2, place = new_place, nonce = null
    from placed where account_id = moving and table_id = $1 and state = 2
    returning {_TICKET_COLUMNS}"""
_DROP_TABLES: Final = "delete from quick_table where table_id = any($1) returning table_id"
_DROP_EMPTY: Final = """
    delete from quick_table q where table_id = any($1)
    and not exists (select from ticket t where t.table_id = q.table_id) returning table_id"""
_PREPARED: Final = """
    update quick_table q set game_id = p.game_id, commitment = p.commitment
    from unnest($1::uuid[], $2::uuid[], $3::bytea[]) as p (table_id, game_id, commitment)
    where q.table_id = p.table_id"""
# Those who cancel at this moment have cancelled before, or are at a table that is being dealt.
_BEGIN_DEAL: Final = f"""
    with wanted as (select * from unnest($1::uuid[], $2::int[]) as w (wanted_table, seats_min)),
    locked as (
        select t.account_id as locked_account, t.table_id as locked_table
        from ticket t join wanted on t.table_id = wanted_table where t.state = 2
        order by t.account_id for update of t
    ), ready as (
        select locked_table as ready_table from locked join wanted on locked_table = wanted_table
        group by locked_table, seats_min having count(*) >= seats_min
    ), begun as (
        update quick_table set dealing_at = levata_now() from ready where table_id = ready_table
    )
    update ticket set state = 3
    from locked join ready on locked_table = ready_table
    where account_id = locked_account
    returning {_TICKET_COLUMNS}"""
_DEALT: Final = f"select {_TICKET_COLUMNS}, nonce from ticket where table_id = any($1) and state = 3 order by place"
_PLAY: Final = """
    with begun as (select * from unnest($1::uuid[], $2::uuid[], $3::uuid[]) as b (at_table, in_game, player)),
    locked as (
        select player as locked_player, in_game
        from ticket join begun on account_id = player and table_id = at_table where state = 3
        order by account_id for update of ticket
    )
    update ticket set state = 4, game_id = in_game, table_id = null from locked where account_id = locked_player"""
_END_AT: Final = """
    delete from ticket where table_id = $1 and state = 3 and account_id = any($2)
    returning account_id, ticket_id, room, game_type, variant"""
_SEARCH_AGAIN: Final = """
    update ticket set state = 1, table_id = null, place = null, nonce = null, seen_at = levata_now()
    where table_id = $1 and state = 3"""
_END_GONE: Final = f"""
    delete from ticket
    where game_type = $1 and variant = $2 and state in (1, 2)
      and seen_at < levata_now() - $3::bigint * interval '1 microsecond'
    returning {_TICKET_COLUMNS}"""
_KEEP_ENDED: Final = """
    insert into ended_ticket (account_id, ticket_id, room, game_type, variant, reason)
    values ($1, $2, $3, $4, $5, $6)
    on conflict (account_id) do update
    set ticket_id = excluded.ticket_id, room = excluded.room, game_type = excluded.game_type,
        variant = excluded.variant, reason = excluded.reason, ended_at = excluded.ended_at"""
_GAMES_OVER: Final = "delete from ticket where game_id = any($1) returning account_id"
_FORGET_ENDED: Final = "delete from ended_ticket where ended_at < levata_now() - interval '1 hour'"


class PostgresQuickPlay:
    """Implements `app.ports.Tickets` and `app.ports.Forming`."""

    def __init__(self, pool: DatabasePool) -> None:
        self._pool = pool
        self._holder = uuid4()

    # For who calls

    async def standing(self, account: UUID) -> Standing:
        """What there is to say of an account, of one moment."""
        (standing,) = await self.standings([account])
        return standing

    async def standings(self, accounts: Sequence[UUID]) -> Sequence[Standing]:
        """What there is to say of each account, of one moment, in the order asked."""
        with refusing_while_away():
            async with self._pool.acquire() as session, session.transaction(isolation="repeatable_read", readonly=True):
                tickets = {row["account_id"]: _ticket(row) for row in await session.fetch(_OF_ACCOUNTS, accounts)}
                without = [account for account in accounts if account not in tickets]
                ended = await session.fetch(_ENDED, without) if without else []
                at = list({ticket.table_id for ticket in tickets.values() if ticket.table_id is not None})
                tables = await session.fetch(_TABLES_NAMED, at) if at else []
                seated = await session.fetch(_SEATED, at) if at else []
        return _standings(accounts, tickets, ended, tables, seated)

    async def add(self, tickets: Sequence[QuickTicket]) -> Sequence[QuickTicket]:
        """Add tickets; for each account the one that it has now."""
        with refusing_while_away():
            rows = await self._pool.fetch(_ADD, *zip(*map(_values, _one_each(tickets)), strict=True))
            known = {row["account_id"]: _ticket(row) for row in rows}
            missing = [ticket.account for ticket in tickets if ticket.account not in known]
            if missing:
                known |= {row["account_id"]: _ticket(row) for row in await self._pool.fetch(_OF_ACCOUNTS, missing)}
        # One that was there a moment ago and ended meanwhile: as if it had been asked for before that.
        return [known.get(ticket.account, ticket) for ticket in tickets]

    async def known(self, accounts: Sequence[UUID]) -> Sequence[bool]:
        """Which of these have a ticket."""
        with refusing_while_away():
            rows = await self._pool.fetch(_KNOWN, accounts)
        known = {row["account_id"] for row in rows}
        return [account in known for account in accounts]

    async def cancel(self, account: UUID, ticket_id: UUID) -> QuickTicket | None:
        """Remove a ticket whose table is not being dealt."""
        with refusing_while_away():
            if await self._pool.fetchval(_CANCEL, account, ticket_id):
                return None
            row = await self._pool.fetchrow(_TICKET, account)
        return None if row is None or row["ticket_id"] != ticket_id else _ticket(row)

    async def answer(self, answers: Sequence[Answer]) -> Sequence[Pool | None]:
        """Keep what players add to the shuffles of their tables."""
        # Of two answers of one player the later one counts.
        last = {each.account: each for each in answers}
        with refusing_while_away():
            rows = await self._pool.fetch(_ANSWER, *zip(*last.values(), strict=True))
        pools = {row["account_id"]: Pool(row["game_type"], row["variant"]) for row in rows}
        return [pools.get(each.account) if last[each.account].game_id == each.game_id else None for each in answers]

    async def seen(self, accounts: Sequence[UUID]) -> Sequence[None]:
        """These players are there."""
        with refusing_while_away():
            await self._pool.execute(_SEEN, accounts)
        return [None] * len(accounts)

    async def left(self, account: UUID, game_id: UUID) -> bool:
        """The player holds no seat of this game any more."""
        with refusing_while_away():
            return bool(await self._pool.fetchval(_LEFT, account, game_id))

    async def without_ticket(self, accounts: Collection[UUID]) -> Sequence[UUID]:
        """Those of these accounts that have none."""
        return [row["account_id"] for row in await self._pool.fetch(_WITHOUT_TICKET, accounts)]

    # For who forms tables

    async def take_turn(self, pool: Pool) -> Turn | None:
        """Take or keep the turn, unless another replica has it."""
        epoch = await self._pool.fetchval(_TAKE_TURN, pool.game_type, pool.variant, self._holder)
        return None if epoch is None else Turn(pool, epoch)

    async def release_turns(self) -> None:
        """Let others have them at once."""
        await self._pool.execute(_RELEASE, self._holder)

    async def forget_ended(self) -> None:
        """Delete what nobody asks for any more."""
        await self._pool.execute(_FORGET_ENDED)

    async def outline(self, pool: Pool, sums: Sequence[int]) -> Outline:
        """All that is alive in a pool, of one moment; the marks of buckets with other sums than these."""
        async with self._pool.acquire() as session, session.transaction(isolation="repeatable_read", readonly=True):
            found = {row["bucket"]: row["sum"] for row in await session.fetch(_SUMS, *pool)}
            differing = [bucket for bucket, known in enumerate(sums) if found.get(bucket, 0) != known]
            marks = await session.fetch(_MARKS, *pool, differing) if differing else []
            tables = await session.fetch(_TABLES, *pool)
        return Outline(
            MarksFound(differing, {row["account_id"]: row["mark"] for row in marks}), [_table(row) for row in tables]
        )

    async def tickets(self, accounts: Sequence[UUID]) -> Sequence[QuickTicket]:
        """The tickets of these accounts that do not play yet."""
        return [_ticket(row) for row in await self._pool.fetch(_LIVE, accounts)]

    async def seat(self, turn: Turn, decisions: Sequence[Decision]) -> Sequence[QuickTicket]:
        """Carry out what a round decided; who has a new place, in the order of joining."""
        opened = [each for each in decisions if isinstance(each, Opened)]
        wanted = [(each.ticket.ticket_id, each.table_id) for each in decisions if isinstance(each, Opened | Seated)]
        moves = [each for each in decisions if isinstance(each, Moved)]
        async with self._under(turn) as session:
            if opened:
                rows = [(each.table_id, each.ticket.room, each.ticket.rank) for each in opened]
                await session.execute(_OPEN, *turn.pool, *zip(*rows, strict=True))
            seated = await session.fetch(_SEAT, *zip(*wanted, strict=True)) if wanted else []
            news = [facts.opened(each.table_id, turn.pool, each.ticket.room) for each in opened]
            for move in moves:
                seated += await session.fetch(_MOVE, move.table_id, move.to)
            seated.sort(key=lambda row: row["place"])
            if moves:
                await session.execute(_DROP_TABLES, [move.table_id for move in moves])
            news += [facts.seated(row["table_id"], row["account_id"]) for row in seated]
            news += [facts.closed(move.table_id, "MERGED") for move in moves]
            if news:
                await publish(session, news)
        return [_ticket(row) for row in seated]

    async def keep_prepared(self, tables: Sequence[PreparedTable]) -> None:
        """These have been prepared."""
        if tables:
            await self._pool.execute(_PREPARED, *zip(*tables, strict=True))

    async def begin_deal(self, turn: Turn, tables: Mapping[UUID, int]) -> Sequence[QuickTicket]:
        """From now on nobody comes or goes at those of these tables that still have as many seats taken."""
        async with self._under(turn) as session:
            rows = await session.fetch(_BEGIN_DEAL, list(tables), list(tables.values()))
        return sorted(map(_ticket, rows), key=lambda ticket: ticket.place)

    async def dealt(self, tables: Sequence[UUID]) -> Sequence[Sequence[Dealt]]:
        """Who is at each of these tables that are being dealt, in the order of joining."""
        at: dict[UUID, list[Dealt]] = {table_id: [] for table_id in tables}
        for row in await self._pool.fetch(_DEALT, tables):
            at[row["table_id"]].append(Dealt(_ticket(row), row["nonce"] or b""))
        return [at[table_id] for table_id in tables]

    async def started(self, tables: Sequence[Started]) -> Sequence[None]:
        """The games of these tables run."""
        async with self._pool.acquire() as session, session.transaction():
            # Of several replicas that think a table is theirs one gets on; the others find nothing to do.
            rows = await session.fetch(_DROP_TABLES, [table.table_id for table in tables])
            own = {row["table_id"] for row in rows}
            begun = [table for table in tables if table.table_id in own]
            for table in begun:
                await _end_refused(session, table.table_id, table.refused)
            playing = [(table.table_id, table.game_id, player) for table in begun for player in table.playing]
            if playing:
                await session.execute(_PLAY, *zip(*playing, strict=True))
                await publish(session, [facts.started(*table[:3]) for table in begun])
        return [None] * len(tables)

    async def not_started(self, table_id: UUID, refused: Mapping[UUID, str]) -> None:
        """No game will come of a table."""
        async with self._pool.acquire() as session, session.transaction():
            if await session.fetch(_DROP_TABLES, [table_id]):
                await _end_refused(session, table_id, refused)
                await session.execute(_SEARCH_AGAIN, table_id)
                await publish(session, [facts.closed(table_id, "NOT_CREATED")])

    async def close_empty(self, turn: Turn, tables: Sequence[UUID]) -> None:
        """Close tables at which nobody is left."""
        async with self._under(turn) as session:
            rows = await session.fetch(_DROP_EMPTY, tables)
            if rows:
                await publish(session, [facts.closed(row["table_id"], "EMPTY") for row in rows])

    async def end_gone(self, turn: Turn, silent_us: int) -> Sequence[QuickTicket]:
        """End the tickets of those who were not heard for so long."""
        async with self._under(turn) as session:
            rows = await session.fetch(_END_GONE, *turn.pool, silent_us)
            for row in rows:
                await _keep_ended(session, row, "GONE")
        return [_ticket(row) for row in rows]

    @asynccontextmanager
    async def _under(self, turn: Turn) -> AsyncIterator[Session]:
        """A transaction that nobody else's turn can overlap."""
        async with self._pool.acquire() as session, session.transaction():
            if not await session.fetch(_FENCE, *turn.pool, turn.epoch, self._holder):
                raise Fenced
            yield session


async def games_over(session: Session, game_ids: Sequence[UUID]) -> Sequence[UUID]:
    """Nobody plays these games any more, in the caller's transaction; answers who did."""
    return [row["account_id"] for row in await session.fetch(_GAMES_OVER, game_ids)]


async def seat_given_up(session: Session, account: UUID, game_id: UUID) -> None:
    """The player has left the game, in the caller's transaction."""
    await session.execute(_LEFT, account, game_id)


async def _end_refused(session: Session, table_id: UUID, refused: Mapping[UUID, str]) -> None:
    if refused:
        for row in await session.fetch(_END_AT, table_id, list(refused)):
            await _keep_ended(session, row, refused[row["account_id"]])


async def _keep_ended(session: Session, row: Record, reason: str) -> None:
    await session.execute(
        _KEEP_ENDED, row["account_id"], row["ticket_id"], row["room"], row["game_type"], row["variant"], reason
    )


def _one_each(tickets: Sequence[QuickTicket]) -> Sequence[QuickTicket]:
    """Without a second one of the same account, which a statement must not bring."""
    return list({ticket.account: ticket for ticket in reversed(tickets)}.values())


def _values(ticket: QuickTicket) -> tuple[Any, ...]:
    return (
        ticket.account,
        ticket.ticket_id,
        ticket.guest,
        ticket.room,
        ticket.pool.game_type,
        ticket.pool.variant,
        ticket.coffee,
        ticket.rank,
        # An array of arrays must be rectangular: each goes as the text of one.
        f"{{{','.join(map(str, ticket.companions))}}}",
    )


def _ticket(row: Record) -> QuickTicket:
    return QuickTicket(
        row["ticket_id"],
        row["account_id"],
        row["guest"],
        Pool(row["game_type"], row["variant"]),
        row["room"],
        row["coffee"],
        row["rank"],
        tuple(row["companions"]),
        row["queued_at_us"],
        State(row["state"]),
        row["table_id"],
        row["place"],
        row["answered"],
        row["game_id"],
        row["mark"],
    )


def _table(row: Record) -> QuickTable:
    return QuickTable(
        row["table_id"],
        Pool(row["game_type"], row["variant"]),
        row["room"],
        row["rank"],
        row["opened_at_us"],
        row["game_id"],
        row["commitment"] or b"",
        row["dealing"],
    )


def _standings(
    accounts: Sequence[UUID],
    tickets: Mapping[UUID, QuickTicket],
    ended: Sequence[Record],
    tables: Sequence[Record],
    seated: Sequence[Record],
) -> list[Standing]:
    endings = {row["account_id"]: _ended(row) for row in ended}
    at = {row["table_id"]: _table(row) for row in tables}
    people: defaultdict[UUID | None, list[QuickTicket]] = defaultdict(list)
    for row in seated:
        people[row["table_id"]].append(_ticket(row))

    def standing(account: UUID) -> Standing:
        ticket = tickets.get(account)
        if ticket is None:
            return Standing(ended=endings.get(account))
        if ticket.table_id is None:
            return Standing(ticket)
        return Standing(ticket, at.get(ticket.table_id), people[ticket.table_id])

    return list(map(standing, accounts))


def _ended(row: Record) -> Ended:
    return Ended(row["ticket_id"], row["room"], Pool(row["game_type"], row["variant"]), row["reason"])
