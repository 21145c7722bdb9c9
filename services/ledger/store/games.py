"""Finished games in Postgres: what they were settled by, each once, and the deals of classic games until then."""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from chassis.database import Pool, Session
from services.ledger.domain.catalogue import Edition
from services.ledger.domain.games import FinishedGame, Pay, ScoredDeal

_KEEP_EDITION: Final = """
    insert into catalogue (hash, content, time_zone) values ($1, $2, $3) on conflict do nothing"""

_BEGIN_CLASSIC: Final = "insert into classic_game (game_id) values ($1) on conflict do nothing"
# Deals of games that are not classic, or have ended, are nobody's concern here.
_ADD_DEAL: Final = """
    insert into scored_deal (game_id, deal, hand_size, bids, tricks_won, own)
    select game_id, $2, $3, $4, $5, $6 from classic_game where game_id = $1
    on conflict do nothing"""
_DEALS: Final = "select hand_size, bids, tricks_won, own from scored_deal where game_id = $1 order by deal"
_FORGET_DEALS: Final = "delete from classic_game where game_id = $1"

_SETTLE: Final = """
    insert into settled_game (game_id, game_type, variant, finished_at, day, catalogue)
    values ($1, $2, $3, timestamptz 'epoch' + $4::bigint * interval '1 microsecond', $5, $6)
    on conflict do nothing returning true"""
_EARLIER_GAMES: Final = """
    select h.seat, count(*)
    from unnest($1::smallint[], $2::uuid[], $3::smallint[]) as h (seat, account_id, room)
    join settled_seat s on s.account_id = h.account_id and s.room = h.room and s.day = $4 and s.is_classic
    group by h.seat"""
_ADD_SEATS: Final = """
    insert into settled_seat
        (game_id, seat, account_id, room, place, eligible, prize, pays_good_play, day, is_classic)
    select $1, s.seat, s.account_id, s.room, s.place, s.eligible, s.prize, s.pays_good_play, $2, $3
    from unnest(
        $4::smallint[], $5::uuid[], $6::smallint[], $7::smallint[], $8::boolean[], $9::bigint[], $10::boolean[]
    ) as s (seat, account_id, room, place, eligible, prize, pays_good_play)"""

_UNCOACHED: Final = """
    select seat, account_id from settled_seat
    where game_id = $1 and pays_good_play and refunded_at is null and coached_by is null
    order by seat for update"""
_COACHED: Final = """
    update settled_seat set coached_by = $2 where game_id = $1 and pays_good_play and coached_by is null"""


async def keep_edition(pool: "Pool | Session", edition: Edition) -> None:
    """Keep a catalogue before anything is decided by it."""
    await pool.execute(_KEEP_EDITION, edition.hash, edition.content, edition.time_zone)


async def begin_classic(session: Session, game_id: UUID) -> None:
    """From now on keep the deals of this game."""
    await session.execute(_BEGIN_CLASSIC, game_id)


async def add_deal(session: Session, game_id: UUID, number: int, deal: ScoredDeal) -> None:
    """Keep a deal, once, if it is of a classic game that runs."""
    await session.execute(
        _ADD_DEAL, game_id, number, deal.hand_size, list(deal.bids), list(deal.tricks_won), list(deal.own)
    )


async def forget_deals(session: Session, game_id: UUID) -> None:
    """The game is over."""
    await session.execute(_FORGET_DEALS, game_id)


async def deals_of(session: Session, game_id: UUID) -> list[ScoredDeal]:
    """The deals of a classic game in order."""
    return [
        ScoredDeal(row["hand_size"], tuple(row["bids"]), tuple(row["tricks_won"]), tuple(row["own"]))
        for row in await session.fetch(_DEALS, game_id)
    ]


async def begin_settling(session: Session, game: FinishedGame, finished_at_us: int, edition: Edition) -> bool:
    """Whether the game is to be settled now: once, and by this catalogue."""
    return bool(
        await session.fetchval(
            _SETTLE, game.game_id, game.game_type, game.variant, finished_at_us, game.day, edition.hash
        )
    )


async def earlier_games(session: Session, game: FinishedGame) -> dict[int, int]:
    """By seat: how many classic games its holder finished in the same room on the same day before this one."""
    if not game.is_classic:
        return {}
    rows = await session.fetch(
        _EARLIER_GAMES,
        [holder.seat for holder in game.holders],
        [holder.account for holder in game.holders],
        [holder.room for holder in game.holders],
        game.day,
    )
    return {row["seat"]: row["count"] for row in rows}


async def add_seats(session: Session, game: FinishedGame, pays: Sequence[Pay]) -> None:
    """Keep what was decided about each holder."""
    await session.execute(
        _ADD_SEATS,
        game.game_id,
        game.day,
        game.is_classic,
        [pay.holder.seat for pay in pays],
        [pay.holder.account for pay in pays],
        [pay.holder.room for pay in pays],
        [pay.holder.place for pay in pays],
        [pay.holder.eligible for pay in pays],
        [pay.prize for pay in pays],
        [pay.pays_good_play for pay in pays],
    )


class Uncoached(NamedTuple):
    """A seat for which the coach's score would still be paid."""

    seat: int
    account: UUID


async def begin_coach_pay(session: Session, game_id: UUID, edition: Edition) -> list[Uncoached]:
    """Seats for which the coach's score is to be paid now: once, and by this catalogue; those taken back are none."""
    rows = await session.fetch(_UNCOACHED, game_id)
    if rows:
        await session.execute(_COACHED, game_id, edition.hash)
    return [Uncoached(*row) for row in rows]
