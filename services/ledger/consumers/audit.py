"""The audit: what games moved in the ledger, compared with what follows from the games' own facts.

Money goes on moving meanwhile: the ledger is read as it was in one moment, and the facts up to the one that the
consumer had come to in that moment.
"""

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import Final, NamedTuple, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import grpc
from levata.table.v1 import facts_pb2, table_pb2

from chassis.database import Pool, Session
from chassis.errors import Refused
from chassis.facts import Fact, FactsOwner
from services.ledger.app.operations import Audited, EntryDifference, Progress, Step
from services.ledger.catalogue import read_edition
from services.ledger.consumers.games import CONSUMER, coached, finished_game, scored_deal
from services.ledger.domain.catalogue import Edition
from services.ledger.domain.entries import Entrant, RoomTerms
from services.ledger.domain.journal import Currency, Entry, Transfer
from services.ledger.domain.recomputation import Expected, Recomputation, differing
from services.ledger.domain.refunds import refund_entry

# A page of facts is read and compared between two statements.
IDLE_SECONDS: Final = 60
GAMES_AT_ONCE: Final = 1_000
# All entries are looked at.
CAUSES_SECONDS: Final = 600

_CHECKPOINT: Final = "select incarnation, last from consumer_checkpoint where consumer = $1"
_PARKED: Final = "select fact_no from parked_fact where consumer = $1"
_EDITIONS: Final = "select hash, content, time_zone from catalogue"
_SETTLED: Final = "select game_id, catalogue from settled_game where game_id = any($1)"
_COACHED: Final = """
    select game_id, seat, coached_by from settled_seat where game_id = any($1) and coached_by is not null"""
_OF_GAMES: Final = """
    select e.key, e.cause_id, e.what, t.debit, t.credit, t.currency::text, t.amount
    from entry e join transfer t using (number)
    where e.cause_kind = 'game' and e.cause_id = any($1) and e.kind in ('posted', 'post')
    order by e.number, t.line"""
_OF_DAYS: Final = """
    select e.key, e.cause_id, e.what, t.debit, t.credit, t.currency::text, t.amount
    from entry e join transfer t using (number)
    where e.cause_kind = 'day' and e.cause_id = any($1)
    order by e.number, t.line"""
_CAUSES: Final = """
    select distinct cause_id from entry where cause_kind = $1::cause_kind and kind in ('posted', 'post')"""


_T = TypeVar("_T")


class Audit:
    """Compares the ledger with the games' facts."""

    def __init__(self, owner: FactsOwner, pool: Pool, edition: Edition) -> None:
        """`edition` is for games that should have been settled and were not."""
        self._owner = owner
        self._pool = pool
        self._edition = edition

    async def run(self) -> AsyncGenerator[Step, None]:
        """Compare all; `Audited` comes last."""
        async with (
            self._pool.acquire() as session,
            session.transaction(isolation="repeatable_read", readonly=True),
        ):
            await session.execute(f"set local idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'")
            await session.execute(f"set local statement_timeout = '{CAUSES_SECONDS}s'")
            row = await session.fetchrow(_CHECKPOINT, CONSUMER)
            if row is None or row["incarnation"] is None:
                raise Refused("NOTHING_HEARD", grpc.StatusCode.FAILED_PRECONDITION, "No fact was ever heard.")
            parked = {record["fact_no"] for record in await session.fetch(_PARKED, CONSUMER)}
            comparison = _Comparison(session, self._edition, await _editions(session))
            read = 0
            while read < row["last"]:
                page = await self._owner.read(read)
                if page.head.incarnation != row["incarnation"] or not page.facts:
                    raise Refused(
                        "INCARNATION_CHANGED",
                        grpc.StatusCode.FAILED_PRECONDITION,
                        "The games' log is another one than the ledger has heard.",
                    )
                facts = [fact for fact in page.facts if fact.number <= row["last"]]
                for difference in await comparison.add(fact for fact in facts if fact.number not in parked):
                    yield difference
                read = facts[-1].number
                yield Progress(read, row["last"])
            for difference in await comparison.end():
                yield difference
            yield Audited(read, len(comparison.games), comparison.entries, comparison.differences, len(parked))


async def _editions(session: Session) -> dict[bytes, Edition]:
    return {
        row["hash"]: read_edition(row["content"], ZoneInfo(row["time_zone"])) for row in await session.fetch(_EDITIONS)
    }


class _Found(NamedTuple):
    """An entry as the ledger has it."""

    what: str
    transfers: tuple[Transfer, ...]


class _Comparison:
    """What was expected so far, and what was found."""

    def __init__(self, session: Session, edition: Edition, editions: Mapping[bytes, Edition]) -> None:
        self._session = session
        self._edition = edition
        self._editions = editions
        self._recomputation = Recomputation()
        # By day: what its games should have brought because of it.
        self._days: dict[date, Expected] = {}
        self._days_compared: set[date] = set()
        # What analyses brought, of games of which none was heard yet.
        self._coached: Expected = {}
        self.games: set[UUID] = set()
        self.entries = 0
        self.differences = 0

    async def add(self, facts: Iterable[Fact]) -> list[EntryDifference]:
        """Follow some facts; what is wrong about the games that they end."""
        messages = [(fact, facts_pb2.GameFact.FromString(fact.payload)) for fact in facts]
        settled_by = await self._settled_by(messages)
        coached_by = await self._coached_by(messages)
        ended: dict[UUID, Expected] = {}
        coach: Expected = {}
        for fact, message in messages:
            game_id = UUID(message.game_id)
            match message.WhichOneof("kind"):
                case "created" if message.created.mode == table_pb2.MODE_QUICK_PLAY:
                    created = message.created
                    self.games.add(game_id)
                    self._recomputation.began(game_id, (created.game_type, created.variant), _entrants(created.seats))
                case "deal_scored":
                    self._recomputation.deal_scored(game_id, scored_deal(message.deal_scored))
                case "finished" if message.finished.mode == table_pb2.MODE_QUICK_PLAY and game_id not in ended:
                    edition = settled_by.get(game_id, self._edition)
                    game = finished_game(game_id, message.finished, fact.at_us, edition)
                    self.games.add(game_id)
                    ended[game_id], of_day = self._recomputation.finished(game, edition.catalogue)
                    self._expect_of_day(game.day, of_day)
                case "cancelled":
                    self.games.add(game_id)
                    ended[game_id] = self._recomputation.cancelled(game_id)
                case "analysed":
                    catalogues = {seat: each.catalogue for seat, each in coached_by.get(game_id, {}).items()}
                    seats = map(coached, message.analysed.seats)
                    coach |= self._recomputation.analysed(game_id, seats, catalogues)
        differences = await self._compare_games(ended)
        return differences + self._compare(
            coach, {key: self._coached.pop(key) for key in coach if key in self._coached}
        )

    async def end(self) -> list[EntryDifference]:
        """What is wrong about games that are not over, days, and entries that no fact explains."""
        differences = await self._compare_games(self._recomputation.running())
        differences += await self._compare_days(list(self._days))
        differences += await self._unexplained(_OF_GAMES, "game", {str(game_id) for game_id in self.games})
        differences += await self._unexplained(_OF_DAYS, "day", {day.isoformat() for day in self._days_compared})
        return differences + self._compare({}, self._coached)

    async def _unexplained(self, query: str, kind: str, known: Collection[str]) -> list[EntryDifference]:
        """Entries whose cause no fact tells of."""
        differences: list[EntryDifference] = []
        causes = await self._session.fetch(_CAUSES, kind, timeout=CAUSES_SECONDS)
        for unknown in _in_parts([cause for (cause,) in causes if cause not in known]):
            for entries in (await self._found(query, unknown)).values():
                differences += self._compare({}, _transfers(entries))
        return differences

    def _expect_of_day(self, day: date, expected: Expected) -> None:
        # The first of a day stands, whatever a later catalogue says.
        self._days[day] = expected | self._days.get(day, {})

    async def _compare_days(self, days: Sequence[date]) -> list[EntryDifference]:
        differences: list[EntryDifference] = []
        for day in days:
            found = await self._found(_OF_DAYS, [day.isoformat()])
            differences += self._compare(self._days.pop(day), _transfers(found.get(day.isoformat(), {})))
            self._days_compared.add(day)
            self._recomputation.forget(day)
        return differences

    async def _compare_games(self, expected: Mapping[UUID, Expected]) -> list[EntryDifference]:
        differences: list[EntryDifference] = []
        for game_ids in _in_parts(list(expected)):
            found = await self._found(_OF_GAMES, [str(game_id) for game_id in game_ids])
            for game_id in game_ids:
                entries = found.get(str(game_id), {})
                refunds = {key: each for key, each in entries.items() if each.what == "refund"}
                coach = {key: each for key, each in entries.items() if each.what == "coach"}
                others = {key: each for key, each in entries.items() if key not in refunds.keys() | coach.keys()}
                self._coached |= _transfers(coach)
                wanted = expected[game_id] | _refunds(game_id, refunds, others | coach)
                differences += self._compare(wanted, _transfers(others | refunds))
        return differences

    async def _found(self, query: str, causes: Sequence[str]) -> dict[str, dict[str, _Found]]:
        """Entries in the ledger, by cause and key."""
        found: dict[str, dict[str, _Found]] = {}
        for key, cause, what, debit, credit, currency, amount in await self._session.fetch(query, causes):
            entries = found.setdefault(cause, {})
            before = entries[key].transfers if key in entries else ()
            entries[key] = _Found(what, (*before, Transfer(debit, credit, Currency(currency), amount)))
        return found

    def _compare(self, expected: Expected, found: Expected) -> list[EntryDifference]:
        self.entries += len(found)
        differences = [EntryDifference(key, expected.get(key), found.get(key)) for key in differing(expected, found)]
        self.differences += len(differences)
        return differences

    async def _settled_by(self, messages: Sequence[tuple[Fact, facts_pb2.GameFact]]) -> dict[UUID, Edition]:
        """By game: the catalogue that it was settled by."""
        game_ids = [message.game_id for _, message in messages if message.HasField("finished")]
        rows = await self._session.fetch(_SETTLED, game_ids) if game_ids else []
        return {row["game_id"]: self._editions[row["catalogue"]] for row in rows}

    async def _coached_by(self, messages: Sequence[tuple[Fact, facts_pb2.GameFact]]) -> dict[UUID, dict[int, Edition]]:
        """By game and seat: the catalogue that the coach's part was decided by; none for what was taken back before."""
        game_ids = [message.game_id for _, message in messages if message.HasField("analysed")]
        editions: dict[UUID, dict[int, Edition]] = {}
        for game_id, seat, catalogue in await self._session.fetch(_COACHED, game_ids) if game_ids else []:
            editions.setdefault(game_id, {})[seat] = self._editions[catalogue]
        return editions


def _entrants(seats: Iterable[facts_pb2.FactSeat]) -> list[Entrant]:
    return [
        Entrant(
            UUID(seat.account_id),
            seat.room,
            Currency(seat.coffee) if seat.coffee else None,
            RoomTerms(seat.coins, seat.gold, seat.prize),
        )
        for seat in seats
        if seat.account_id
    ]


def _refunds(game_id: UUID, refunds: Mapping[str, _Found], moved: Mapping[str, _Found]) -> Expected:
    """Whether somebody takes an entry back no fact of a game says; what that moves follows from the rest."""
    expected: Expected = {}
    for found in refunds.values():
        account = found.transfers[0].player
        of_account = [t for each in moved.values() for t in each.transfers if t.player == account]
        entry = refund_entry(game_id, account, of_account)
        if isinstance(entry, Entry):
            expected[entry.key] = entry.transfers
    return expected


def _transfers(found: Mapping[str, _Found]) -> Expected:
    return {key: each.transfers for key, each in found.items()}


def _in_parts(items: Sequence[_T]) -> Iterable[Sequence[_T]]:
    return (items[start : start + GAMES_AT_ONCE] for start in range(0, len(items), GAMES_AT_ONCE))
