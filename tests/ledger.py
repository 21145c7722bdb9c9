"""A ledger for tests: the repository's catalogue, facts as the consumers apply them, and what accounts have."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from levata.accounts.v1 import facts_pb2 as accounts_facts_pb2
from levata.league.v1 import facts_pb2 as league_facts_pb2
from levata.table.v1 import facts_pb2, table_pb2

from chassis.database import Pool
from chassis.facts import Fact
from services.ledger.app.entries import Asked, EntryDesk
from services.ledger.app.mondays import Mondays
from services.ledger.catalogue import read_catalogue
from services.ledger.consumers import accounts, games, league
from services.ledger.domain.catalogue import Catalogue, Edition
from services.ledger.domain.entries import RoomTerms
from services.ledger.domain.journal import (
    COFFEES,
    Balance,
    Cause,
    CauseKind,
    Currency,
    House,
    Outcome,
    Transfer,
    posted,
)
from services.ledger.store.entries import PostgresEntries
from services.ledger.store.games import keep_edition
from services.ledger.store.journal import put_down
from services.ledger.store.members import PostgresMembers

COIN, GOLD = Currency.COIN, Currency.GOLD
ONE_AND_A_HALF, DOUBLE, TRIPLE, QUINTUPLE = COFFEES

# The repository's, whose amounts are those of the platform page.
CATALOGUE_FILE: Final = Path(__file__).parents[1] / "deploy" / "catalogue.yaml"
EDITION: Final = read_catalogue(CATALOGUE_FILE, ZoneInfo("UTC"))
CATALOGUE: Final = EDITION.catalogue
TEST: Final = Cause(CauseKind.GRANT, "test", "test")
CLASSIC: Final = ("romanian_whist", "8-1-8")


def us(text: str) -> int:
    """Microseconds since 1970 of a time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


# A Thursday.
NOW_US: Final = us("2026-11-12T12:00:00")


def catalogue_with(folder: Path, refunds: str) -> Path:
    """A catalogue with another way of taking entries back, for a ledger that goes by the real clock."""
    path, content = folder / "catalogue.yaml", CATALOGUE_FILE.read_text()
    path.write_text(f"{content[: content.index('refunds:')]}refunds:\n  - {refunds}\n")
    return path


def entry_desk(pool: Pool, rooms: Mapping[int, RoomTerms] = CATALOGUE.rooms, now_us: int = NOW_US) -> EntryDesk:
    """Where entries are held, at some moment."""
    return EntryDesk(PostgresEntries(pool), mondays(pool, now_us), rooms)


def mondays(pool: Pool, now_us: int, catalogue: Catalogue = CATALOGUE) -> Mondays:
    """Who brings Monday's coffees, at some moment."""
    return Mondays(PostgresMembers(pool), catalogue, lambda: now_us)


async def give(pool: Pool, account: UUID, amount: int, currency: Currency = COIN) -> None:
    """Out of the blue."""
    transfer = Transfer(House.GRANTS.value, account, currency, amount)
    async with pool.acquire() as session, session.transaction():
        (decided,) = await put_down(session, [posted(f"give {uuid4()}", TEST, [transfer])])
    assert decided.outcome is Outcome.DONE


async def has(pool: Pool, account: UUID, currency: Currency = COIN) -> Balance:
    """A balance."""
    query = "select posted, held from balance where account = $1 and currency = $2"
    row = await pool.fetchrow(query, account, currency.value)
    return Balance() if row is None else Balance(*row)


async def owns(pool: Pool, account: UUID) -> dict[Currency, int]:
    """All that an account has, zeros left out."""
    rows = await pool.fetch("select currency, posted from balance where account = $1 and posted <> 0", account)
    return {Currency(row["currency"]): row["posted"] for row in rows}


async def sums(pool: Pool) -> set[int]:
    """The sums of all currencies."""
    return {row["sum"] for row in await pool.fetch("select sum(posted) from balance group by currency")}


async def tell(pool: Pool, fact: facts_pb2.GameFact, at_us: int = NOW_US, number: int = 1) -> None:
    """Give a game's fact its effect, as the consumer does."""
    await keep_edition(pool, EDITION)
    subject = f"levata.games.{fact.WhichOneof('kind')}.{fact.game_id}"
    async with pool.acquire() as session, session.transaction():
        await games.Effects(EDITION).apply(session, Fact(number, subject, fact.SerializeToString(), at_us))


def began(game_id: UUID, seated: Sequence[UUID], of: tuple[str, str] = ("euchre", "standard")) -> facts_pb2.GameFact:
    """A quick-play game begins."""
    seats = [facts_pb2.FactSeat(account_id=str(account)) for account in seated]
    created = facts_pb2.CreatedFact(game_type=of[0], variant=of[1], mode=table_pb2.MODE_QUICK_PLAY, seats=seats)
    return facts_pb2.GameFact(game_id=str(game_id), version=1, created=created)


def quick_play_created(
    game_id: UUID, seats: Sequence[facts_pb2.FinishedSeat], of: tuple[str, str] = ("romanian_whist", "quick")
) -> facts_pb2.GameFact:
    """The game that will end like this begins."""
    created = facts_pb2.CreatedFact(game_type=of[0], variant=of[1], mode=table_pb2.MODE_QUICK_PLAY)
    created.seats.extend(seat.holder for seat in seats)
    return facts_pb2.GameFact(game_id=str(game_id), version=1, created=created)


def cancelled(game_id: UUID, version: int = 1) -> facts_pb2.GameFact:
    """It will not be played, or not to its end."""
    return facts_pb2.GameFact(game_id=str(game_id), version=version, cancelled=facts_pb2.CancelledFact())


def seat(
    account: UUID | None,
    place: int,
    *,
    room: int = 2,
    coffee: Currency | None = None,
    eligible: bool = True,
) -> facts_pb2.FinishedSeat:
    """How a game ended for a seat; none of an account is a bot's."""
    if account is None:
        return facts_pb2.FinishedSeat(holder=facts_pb2.FactSeat(bot_level="steady"), place=place)
    terms = CATALOGUE.rooms[room]
    holder = facts_pb2.FactSeat(
        account_id=str(account),
        room=room,
        coins=terms.coins,
        gold=terms.gold,
        prize=terms.prize,
        coffee="" if coffee is None else coffee.value,
    )
    return facts_pb2.FinishedSeat(holder=holder, place=place, eligible=eligible)


def finished(
    game_id: UUID,
    seats: Sequence[facts_pb2.FinishedSeat],
    of: tuple[str, str] = ("romanian_whist", "quick"),
    mode: table_pb2.Mode.ValueType = table_pb2.MODE_QUICK_PLAY,
) -> facts_pb2.GameFact:
    """A game is over."""
    ended = facts_pb2.FinishedFact(game_type=of[0], variant=of[1], mode=mode, seats=seats)
    return facts_pb2.GameFact(game_id=str(game_id), version=99, finished=ended)


def of_six(*people: facts_pb2.FinishedSeat) -> list[facts_pb2.FinishedSeat]:
    """Six seats, the places that are left held by bots."""
    taken = {person.place for person in people}
    return [*people, *(seat(None, place) for place in range(1, 7) if place not in taken)]


def deal_scored(game_id: UUID, number: int, *, good: bool = True, hand_size: int = 8) -> facts_pb2.GameFact:
    """A deal of six seats, of which seat 0 bid exactly, or not."""
    deal = facts_pb2.DealScoredFact(
        deal=number, hand_size=hand_size, bids=[2, 0, 0, 0, 0, 0], tricks_won=[2 if good else 3, 0, 0, 0, 0, 0]
    )
    deal.own.extend([True] * 6)
    return facts_pb2.GameFact(game_id=str(game_id), version=number + 2, deal_scored=deal)


def analysed(game_id: UUID, score: int, *, seat: int = 0, moves: int = 60, hinted: int = 0) -> facts_pb2.GameFact:
    """What the coach found about one seat."""
    found = facts_pb2.AnalysedSeat(seat=seat, score=score, moves=moves, moves_without_hint=moves - hinted)
    return facts_pb2.GameFact(game_id=str(game_id), version=99, analysed=facts_pb2.AnalysedFact(seats=[found]))


async def account_fact(pool: Pool, account: UUID, kind: str, at_us: int, edition: Edition = EDITION) -> None:
    """Give an account's fact its effect, as the consumer does."""
    message = accounts_facts_pb2.AccountFact(account_id=str(account))
    getattr(message, kind).SetInParent()
    fact = Fact(1, f"levata.accounts.{kind}.{account}", message.SerializeToString(), at_us)
    async with pool.acquire() as session, session.transaction():
        await accounts.Effects(edition).apply(session, fact)


async def week_closed(pool: Pool, week: date, **podiums: list[UUID]) -> None:
    """The league closes a week."""
    await keep_edition(pool, EDITION)
    classes = [
        league_facts_pb2.ClosedClass(name=name, counted=len(podium), podium_account_ids=map(str, podium))
        for name, podium in podiums.items()
    ]
    message = league_facts_pb2.LeagueFact(
        week=week.isoformat(), week_closed=league_facts_pb2.WeekClosedFact(classes=classes)
    )
    fact = Fact(1, f"levata.league.week_closed.{week}", message.SerializeToString(), NOW_US)
    async with pool.acquire() as session, session.transaction():
        await league.Effects(EDITION).apply(session, fact)


async def play(
    pool: Pool,
    account: UUID,
    place: int = 4,
    *,
    room: int = 2,
    coffee: Currency | None = None,
    eligible: bool = True,
    at_us: int = NOW_US,
    good_deals: int = 0,
) -> UUID:
    """A classic game from the entry to the end."""
    game_id = uuid4()
    (entrant,) = await entry_desk(pool, now_us=at_us).hold(game_id, [Asked(account, room, coffee)])
    assert entrant.refusal is None
    await tell(pool, began(game_id, [account], CLASSIC))
    for number in range(good_deals):
        await tell(pool, deal_scored(game_id, number))
    seats = of_six(seat(account, place, room=room, coffee=coffee, eligible=eligible))
    await tell(pool, finished(game_id, seats, CLASSIC), at_us)
    return game_id
