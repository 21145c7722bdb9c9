"""A league for tests: facts as its consumers apply them, weeks that are closed, and a model of what comes of both.

The model knows nothing of how the league works: it sorts, adds up and moves by the words of the platform page.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from levata.accounts.v1 import facts_pb2 as accounts_facts_pb2
from levata.ledger.v1 import facts_pb2 as ledger_facts_pb2
from levata.table.v1 import facts_pb2, table_pb2

from chassis.database import Pool
from chassis.facts import Fact, Head
from services.league.app.closing import DueWeek, Settled
from services.league.catalogue import read_terms
from services.league.consumers import accounts, games, ledger
from services.league.store.weeks import PostgresWeeks
from tools.up.servers import CATALOGUE

TERMS: Final = read_terms(CATALOGUE)
EFFECTS: Final = games.Effects(UTC, TERMS)
GAMES_LOG, LEDGER_LOG = UUID(int=1), UUID(int=2)
CLASSES: Final = ("jack", "queen", "king", "ace")
MONDAY: Final = date(2026, 11, 9)


def us(day: date, seconds: int = 0) -> int:
    """Microseconds since 1970 of a moment of a day."""
    begins = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return (int(begins.timestamp()) + seconds) * 1_000_000


def week_after(week: date) -> date:
    """The next Monday."""
    return week + timedelta(days=7)


def prize_paid(
    number: int,
    account: UUID,
    coins: int,
    *,
    week: date = MONDAY,
    seconds: int = 0,
    game_id: UUID | None = None,
    guest: bool = False,
) -> Fact:
    """The ledger tells of a prize."""
    paid = ledger_facts_pb2.PrizePaidFact(
        game_id=str(game_id or uuid4()),
        coins=coins,
        week=week.isoformat(),
        finished_at_us=us(week, seconds),
        guest=guest,
    )
    message = ledger_facts_pb2.LedgerFact(account_id=str(account), prize_paid=paid)
    return Fact(number, f"levata.ledger.prize_paid.{account}", message.SerializeToString(), us(week, seconds))


def refunded(number: int, of: Fact) -> Fact:
    """The ledger tells that a prize went back."""
    told = ledger_facts_pb2.LedgerFact.FromString(of.payload)
    paid = told.prize_paid
    refund = ledger_facts_pb2.RefundedFact(
        game_id=paid.game_id, prize=paid.coins, week=paid.week, finished_at_us=paid.finished_at_us
    )
    message = ledger_facts_pb2.LedgerFact(account_id=told.account_id, refunded=refund)
    return Fact(number, f"levata.ledger.refunded.{told.account_id}", message.SerializeToString(), of.at_us)


def deleted(number: int, account: UUID) -> Fact:
    """The accounts service tells that an account is no more."""
    message = accounts_facts_pb2.AccountFact(account_id=str(account), deleted=accounts_facts_pb2.AccountDeletedFact())
    return Fact(number, f"levata.accounts.deleted.{account}", message.SerializeToString(), us(MONDAY))


def game_finished(
    number: int,
    seats: Sequence[facts_pb2.FinishedSeat],
    *,
    mode: table_pb2.Mode.ValueType = table_pb2.MODE_QUICK_PLAY,
    at_us: int = us(MONDAY),
    game_type: str = "oh_hell",
    day: str = "",
    game_id: UUID | None = None,
) -> Fact:
    """The table service tells that a game is over."""
    ended = facts_pb2.FinishedFact(game_type=game_type, mode=mode, seats=seats, day=day)
    message = facts_pb2.GameFact(game_id=str(game_id or uuid4()), version=9, finished=ended)
    return Fact(number, f"levata.games.finished.{message.game_id}", message.SerializeToString(), at_us)


def daily_begun(number: int, account: UUID, day: str, game_id: UUID, game_type: str = "oh_hell") -> Fact:
    """The table service tells that an account began a daily."""
    seats = [facts_pb2.FactSeat(account_id=str(account)), facts_pb2.FactSeat(bot_level="steady")]
    created = facts_pb2.CreatedFact(game_type=game_type, mode=table_pb2.MODE_DAILY, seats=seats, day=day)
    message = facts_pb2.GameFact(game_id=str(game_id), version=1, created=created)
    return Fact(number, f"levata.games.created.{game_id}", message.SerializeToString(), us(date.fromisoformat(day)))


def seat(account: UUID, place: int, *, total: int = 0, own: int = 10, eligible: bool = True) -> facts_pb2.FinishedSeat:
    """A seat that an account held at the end."""
    holder = facts_pb2.FactSeat(account_id=str(account))
    return facts_pb2.FinishedSeat(holder=holder, place=place, total=total, own_deals=own, eligible=eligible)


async def hear_games(pool: Pool, facts: Iterable[Fact]) -> None:
    """Give facts of games their effects, as the consumer does."""
    async with pool.acquire() as session, session.transaction():
        await EFFECTS.apply(session, list(facts))


async def hear_ledger(pool: Pool, facts: Iterable[Fact]) -> None:
    """Give facts of the ledger their effects, as the consumer does."""
    async with pool.acquire() as session, session.transaction():
        await ledger.Effects().apply(session, list(facts))


async def hear_accounts(pool: Pool, facts: Iterable[Fact]) -> None:
    """Give facts of accounts their effects, as the consumer does."""
    async with pool.acquire() as session, session.transaction():
        await accounts.apply(session, list(facts))


async def heard_up_to(pool: Pool, games_fact: int, ledger_fact: int) -> None:
    """Say that the consumers are so far."""
    for consumer, incarnation, last in (("league", GAMES_LOG, games_fact), ("league-ledger", LEDGER_LOG, ledger_fact)):
        await pool.execute(
            "insert into consumer_checkpoint (consumer, source, incarnation, last) values ($1, $1, $2, $3)"
            " on conflict (consumer) do update set last = excluded.last",
            consumer,
            incarnation,
            last,
        )


def due(week: date, games_fact: int = 0, ledger_fact: int = 0) -> DueWeek:
    """A week that is over."""
    return DueWeek(week, Head(GAMES_LOG, games_fact), Settled(LEDGER_LOG, ledger_fact, ()))


async def close(pool: Pool, week: date, games_fact: int = 0, ledger_fact: int = 0) -> bool:
    """Close it, if all of it has been heard."""
    return await PostgresWeeks(pool, TERMS).close(due(week, games_fact, ledger_fact))


async def blocks_fit(pool: Pool) -> bool:
    """Whether the blocks count exactly the scores between them."""
    return not await pool.fetch("""
        with fences as (
            select *, lead(row(minus_points, reached_us, account_id))
                over (partition by build, board order by minus_points, reached_us, account_id) as next
            from score_block
        )
        select f.board, f.players, count(s.*) from fences f left join score s
            on s.build = f.build and s.board = f.board
            and (s.minus_points, s.reached_us, s.account_id) >= (f.minus_points, f.reached_us, f.account_id)
            and (f.next is null or row(s.minus_points, s.reached_us, s.account_id) < f.next)
        group by f.build, f.board, f.minus_points, f.reached_us, f.account_id, f.players
        having f.players <> count(s.*)""")


async def standings(pool: Pool, week: date) -> dict[str, list[tuple[UUID, int]]]:
    """By class: accounts and points in the order of their places."""
    rows = await pool.fetch(
        "select division, account_id, points from score join board using (board)"
        " where build = (select build from live_build) and contest = 'league' and begins = $1"
        " order by division, points desc, reached_us, account_id",
        week,
    )
    found: dict[str, list[tuple[UUID, int]]] = {}
    for row in rows:
        found.setdefault(row["division"], []).append((row["account_id"], row["points"]))
    return found


@dataclass
class Model:
    """What should be, by the platform's words."""

    class_of: dict[UUID, int] = field(default_factory=dict)
    # By week and account: prizes that count, with the times of their games.
    prizes: dict[tuple[date, UUID], list[tuple[int, int]]] = field(default_factory=dict)

    def win(self, week: date, account: UUID, coins: int, seconds: int) -> None:
        """A prize that counts in a week."""
        self.prizes.setdefault((week, account), []).append((coins, us(week, seconds)))

    def standings(self, week: date) -> dict[str, list[tuple[UUID, int]]]:
        """By class: accounts and points in the order of their places."""
        lines: dict[str, list[tuple[int, int, UUID]]] = {}
        for (of, account), won in self.prizes.items():
            if of == week:
                name = CLASSES[self.class_of.get(account, 0)]
                points, last = sum(coins for coins, _ in won), max(at for _, at in won)
                lines.setdefault(name, []).append((-points, last, account))
        return {name: [(account, -minus) for minus, _, account in sorted(each)] for name, each in lines.items()}

    def close(self, week: date) -> None:
        """Who goes up, and who goes down."""
        moves: dict[UUID, int] = {}
        for name, lines in self.standings(week).items():
            league_class, counted = CLASSES.index(name), len(lines)
            for number, (account, _) in enumerate(lines):
                if number < max(3, counted // 5):
                    moves[account] = min(3, league_class + 1)
                elif number >= counted - counted // 5:
                    moves[account] = max(0, league_class - 1)
        self.class_of |= moves


async def rows(pool: Pool, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
    """What a query finds, the live build's number being `build`."""
    return [tuple(row) for row in await pool.fetch(query, *arguments)]
