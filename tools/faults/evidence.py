"""What is left of a round when all is over: the history of its clients, and what the servers have kept."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import asyncpg
from google.protobuf import text_format
from google.protobuf.message import Message
from levata.league.v1 import operations_pb2 as league_operations_pb2
from levata.ledger.v1 import operations_pb2

from chassis import rpc
from chassis.database import Connection, open_pool
from chassis.log import LogReader, Row, first_broken
from rules.calendar import day_of, week_of
from rules.values import value
from services.table import domain
from services.table.store.codec import decode
from tools.client import CALL_SECONDS
from tools.faults.history import Client, Enqueued, Held, History
from tools.faults.world import TOKEN_SECONDS, World
from tools.migrate import SCHEMAS
from tools.patience import patiently

# A consumer that missed something asks for it every three seconds.
HEAR_SECONDS: Final = 30.0
AUDIT_SECONDS: Final = 60.0
# What people who look for tables are given before anything fails: it opens all rooms that they go to.
GIVEN_XP: Final = 1_000
_LEAGUE_OPERATIONS: Final = league_operations_pb2.DESCRIPTOR.services_by_name["Operations"]
_OPERATIONS: Final = operations_pb2.DESCRIPTOR.services_by_name["Operations"]


class Game:
    """A game's rows, and what they fold to: `commits` and `tables`, at every version from 1, as far as that goes."""

    def __init__(self, game_id: str, rows: Sequence[Row]) -> None:
        self.game_id = game_id
        self.rows = rows
        self.commits: list[domain.Commit] = []
        self.tables: list[domain.Table] = []
        # Why the fold ends early; empty where it does not.
        self.problem = ""
        broken = first_broken(UUID(game_id), rows)
        if broken is not None:
            self.problem = f"the chain breaks at version {broken}"
            rows = rows[: broken - 1]
        for row in rows:
            try:
                commit = decode(row.version, row.payload, UUID(game_id).bytes)
                self.tables.append(domain.apply(self.before(row.version), commit))
            except Exception as error:
                self.problem = f"version {row.version} does not fold: {error!r}"
                return
            self.commits.append(commit)

    @property
    def version(self) -> int:
        """The last version that folds."""
        return len(self.commits)

    @property
    def created(self) -> domain.Created | None:
        """How it began; None when nothing of it can be read."""
        return self.tables[0].created if self.tables else None

    def before(self, version: int) -> domain.Table | None:
        """The table that a commit is made on."""
        return self.tables[version - 2] if version > 1 else None

    def after(self, version: int) -> domain.Table:
        """The table that it makes."""
        return self.tables[version - 1]

    def viewer(self, account: str) -> domain.Viewer:
        """Whose view of this game an account has."""
        assert self.created is not None
        accounts = [occupant.account for occupant in self.created.seats]
        return accounts.index(account) if account in accounts else domain.SPECTATOR

    @cached_property
    def version_of(self) -> Mapping[UUID, int]:
        """Where each command is."""
        return {row.command_id: row.version for row in self.rows if row.command_id is not None}


@value
class Fact:
    """One fact as its owner has it."""

    number: int
    subject: str
    payload: bytes
    at_us: int


@value
class SeatResult:
    """A seat of a finished game as the league has it."""

    game_id: str
    seat: int
    account: str
    place: int


@value
class PlaceCount:
    """How often an account reached a place, as the league has counted it."""

    account: str
    place: int
    games: int


@value
class League:
    """What the league has of a round."""

    # The last fact that it heard.
    heard: int
    results: frozenset[SeatResult]
    counts: frozenset[PlaceCount]
    # Facts that it could not take.
    parked: tuple[int, ...]


@value
class Entrant:
    """Somebody of whom an entry was to be held, as the ledger has it."""

    game_id: str
    account: str
    # Empty for who was accepted.
    refusal: str
    coins: int
    gold: int
    coffee: str


@value
class Move:
    """What an entry of the ledger gives an account of a currency, or takes."""

    key: str
    # posted, pending, post or void.
    kind: str
    account: str
    currency: str
    amount: int


@value
class Ledger:
    """What the ledger has of a round."""

    # The last fact of a game that it heard.
    heard: int
    # Facts that it could not take, whoever's.
    parked: tuple[int, ...]
    # Of the round's quick-play games.
    entrants: tuple[Entrant, ...]
    settled: frozenset[str]
    # Whose cause is one of these games, or the day of an account that entered one.
    moves: tuple[Move, ...]
    # Games whose entries nothing has ended, and entries that are pending, of any round.
    open_holds: tuple[str, ...]
    pending: tuple[str, ...]
    # By currency, over all accounts.
    sums: dict[str, int]
    # What a rebuild and an audit have found, in words.
    rebuilt: tuple[str, ...]
    audited: tuple[str, ...]


@value
class Matches:
    """What the matchmaker has of a round."""

    # The last fact of a game that it heard.
    heard: int
    # Facts that it could not take.
    parked: tuple[int, ...]
    # What is left of searches: accounts with a ticket in this state, and tables that have no game.
    tickets: dict[str, int]
    tables: tuple[str, ...]


@value
class WeekClose:
    """A closed week: how far the logs were counted."""

    week: date
    games_fact: int
    ledger_fact: int
    # Up to that number, and not counted.
    ledger_missing: frozenset[int]


@value
class Placing:
    """What somebody has in a week of the league."""

    week: date
    league_class: str
    account: str
    points: int


@value
class Reward:
    """What the ledger gave somebody for a week."""

    week: date
    account: str
    currency: str
    amount: int


@value
class Weeks:
    """What there is of weeks, of all rounds."""

    # The one that ended in this round; None where none did.
    ended: date | None
    closes: tuple[WeekClose, ...]
    # What the league has told of closed weeks.
    told: tuple[bytes, ...]
    ledger_facts: tuple[Fact, ...]
    placings: frozenset[Placing]
    rewards: tuple[Reward, ...]
    # What a rebuild of the league has found, in words.
    rebuilt: tuple[str, ...]


@value
class Marks:
    """Where each schema's log of facts stood when the round began."""

    facts: dict[str, int]


class Evidence:
    """All of it."""

    def __init__(
        self,
        history: History,
        games: Sequence[Game],
        facts: Mapping[str, Sequence[Fact]],
        marks: Marks,
        league: League,
        ledger: Ledger,
        matches: Matches,
        weeks: Weeks,
        begun: Mapping[str, bool],
        hosts: Mapping[str, str],
        replicas: int,
    ) -> None:
        self.history = history
        self.games = {game.game_id: game for game in games}
        # Of the round, by schema.
        self.facts = facts
        self.marks = marks
        self.league = league
        self.ledger = ledger
        self.matches = matches
        self.weeks = weeks
        # Whether each quick-play game began, or was cancelled; those of which neither happened are missing.
        self.begun = begun
        # The process that each host id is, or was.
        self.hosts = hosts
        # Of the table service.
        self.replicas = replicas

    def write(self, folder: Path) -> None:
        """Leave everything to read: the history, each game's log with what it says, facts, and the league's rows."""
        self.history.write(folder / "history.jsonl")
        for game in self.games.values():
            with (folder / f"game-{game.game_id}.jsonl").open("w") as file:
                for version, row in enumerate(game.rows, start=1):
                    line = {name: _plain(getattr(row, name)) for name in row.__slots__}
                    if version <= game.version:
                        line["events"] = [repr(event) for event in game.commits[version - 1].events]
                        line["decided_at_us"] = game.commits[version - 1].decided_at_us
                    file.write(json.dumps(line) + "\n")
        for schema, facts in self.facts.items():
            with (folder / f"facts-{schema}.jsonl").open("w") as file:
                for fact in facts:
                    line = {name: _plain(getattr(fact, name)) for name in ("number", "subject", "payload", "at_us")}
                    file.write(json.dumps(line) + "\n")
        (folder / "league.txt").write_text(repr(self.league) + "\n")
        (folder / "ledger.txt").write_text(repr(self.ledger) + "\n")
        (folder / "matches.txt").write_text(repr(self.matches) + "\n")
        (folder / "weeks.txt").write_text(repr(self.weeks) + "\n")
        (folder / "hosts.json").write_text(json.dumps(dict(self.hosts), indent=2) + "\n")


def _plain(content: Any) -> Any:
    return content.hex() if isinstance(content, bytes) else str(content) if isinstance(content, UUID) else content


async def marks(world: World) -> Marks:
    """Where the logs of facts stand now."""
    connection = await asyncpg.connect(world.postgres.admin_dsn)
    try:
        schemas = [schema.name for schema in SCHEMAS.values()]
        return Marks({name: await connection.fetchval(f"select last from {name}.fact_head") for name in schemas})
    finally:
        await connection.close()


async def collect(world: World, history: History, since: Marks, week_ended_us: int | None = None) -> Evidence:
    """Read what the servers have, once all have heard all of it or have had their time for that."""
    ended = None if week_ended_us is None else week_of(day_of(week_ended_us - 1, UTC))
    connection = await asyncpg.connect(world.postgres.admin_dsn)
    try:
        await _let_all_hear(connection, since)
        if ended is not None:
            await _let_week_close(connection, ended)
        async with await open_pool(world.postgres.dsn(SCHEMAS["table"].role), "faults", connections_max=1) as pool:
            reader = LogReader(pool)
            held = await _held(connection, history)
            begun = await _begun(connection, held)
            # Also those whose creation was never acknowledged, and those that everybody has left.
            game_ids = {client.game_id for client in history.of(Client)}
            game_ids |= {game_id for game_id, is_game in begun.items() if is_game}
            games = [Game(game_id, await reader.read(UUID(game_id))) for game_id in sorted(game_ids)]
        facts = {
            schema: [
                Fact(*record)
                for record in await connection.fetch(
                    f"""
                    select fact_no, subject, payload, (extract(epoch from at) * 1000000)::bigint
                    from {schema}.facts where fact_no > $1 order by fact_no""",
                    last,
                )
            ]
            for schema, last in since.facts.items()
        }
        league = await _league(connection, [UUID(game_id) for game_id in game_ids])
        hosts = {
            str(record["host_id"]): world.listener(record["address"]) or ""
            for record in await connection.fetch("select host_id, address from tables.hosts")
        }
        ledger = await _ledger(world, connection, held)
        matches = await _matches(connection)
        weeks = await _weeks(world, connection, ended)
        replicas = len(world.replicas("table"))
        return Evidence(history, games, facts, since, league, ledger, matches, weeks, begun, hosts, replicas)
    finally:
        await connection.close()


async def _let_all_hear(connection: Connection, since: Marks) -> None:
    """Games that everybody has left are played out, and facts of games reach who hears them; those that end entries
    come when these are old, and tables that nobody sits at are closed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(HEAR_SECONDS):
            while not await connection.fetchval(
                """
                select not exists (select from ledger.game_entry where began is null)
                   and not exists (select from matchmaker.quick_table)
                   and (select count(*) from tables.facts where fact_no > $1 and subject like 'levata.games.created.%')
                     = (select count(*) from tables.facts where fact_no > $1 and subject like 'levata.games.finished.%')
                   and exists (
                    select from league.consumer_checkpoint league, ledger.consumer_checkpoint ledger,
                        matchmaker.consumer_checkpoint matchmaker, tables.fact_head
                    where league.consumer = 'league' and league.last = fact_head.last
                      and ledger.consumer = 'ledger' and ledger.last = fact_head.last
                      and matchmaker.consumer = 'matchmaker' and matchmaker.last = fact_head.last
                )""",
                since.facts["tables"],
            ):
                await asyncio.sleep(0.05)


async def _let_week_close(connection: Connection, week: date) -> None:
    """A week that is over is closed, and what the ledger has of it has been paid and heard of."""
    with suppress(TimeoutError):
        async with asyncio.timeout(HEAR_SECONDS):
            while not await connection.fetchval(
                """
                select exists (select from league.week_close where week = $1)
                   and exists (
                    select from ledger.consumer_checkpoint league, league.fact_head
                    where league.consumer = 'ledger-league' and league.last = fact_head.last
                   ) and exists (
                    select from league.consumer_checkpoint ledger, ledger.fact_head
                    where ledger.consumer = 'league-ledger' and ledger.last = fact_head.last
                )""",
                week,
            ):
                await asyncio.sleep(0.05)


async def _held(connection: Connection, history: History) -> list[UUID]:
    """The games of which entries of the round's people were to be held, by whomever."""
    of_seekers = await connection.fetch(
        "select distinct game_id from ledger.entrant where account_id = any($1)",
        list({UUID(each.account) for each in history.of(Enqueued)}),
    )
    return sorted({UUID(each.game_id) for each in history.of(Held)} | {record["game_id"] for record in of_seekers})


async def _begun(connection: Connection, game_ids: Sequence[UUID]) -> dict[str, bool]:
    """Whether each of these began, or was cancelled."""
    return {
        str(record["game_id"]): bool(record["kinds"] & domain.Kind.CREATED)
        for record in await connection.fetch(
            "select game_id, kinds from tables.game_log where game_id = any($1) and version = 1", game_ids
        )
    }


async def _matches(connection: Connection) -> Matches:
    """What the matchmaker has left, of whatever round."""
    tickets = await connection.fetch("select account_id, state from matchmaker.ticket")
    tables = await connection.fetch("select table_id from matchmaker.quick_table")
    parked = await connection.fetch("select fact_no from matchmaker.parked_fact")
    query = "select last from matchmaker.consumer_checkpoint where consumer = 'matchmaker'"
    return Matches(
        await connection.fetchval(query) or 0,
        tuple(record["fact_no"] for record in parked),
        {str(record["account_id"]): record["state"] for record in tickets},
        tuple(str(record["table_id"]) for record in tables),
    )


async def _league(connection: Connection, game_ids: Sequence[UUID]) -> League:
    """What the league has of these games, and of all games of whoever sat in them."""
    results = await connection.fetch(
        """
        select game_id, seat, account_id, place from league.seat_result natural join league.live_build
        where game_id = any($1)""",
        game_ids,
    )
    counts = await connection.fetch(
        """
        select account_id, place, sum(games)::int as games from league.place_count natural join league.live_build
        where account_id = any($1) group by account_id, place""",
        [record["account_id"] for record in results],
    )
    return League(
        await connection.fetchval("select last from league.consumer_checkpoint where consumer = 'league'") or 0,
        frozenset(SeatResult(str(game_id), seat, str(account), place) for game_id, seat, account, place in results),
        frozenset(PlaceCount(str(account), place, games) for account, place, games in counts),
        tuple(record["fact_no"] for record in await connection.fetch("select fact_no from league.parked_fact")),
    )


async def _ledger(world: World, connection: Connection, game_ids: Sequence[UUID]) -> Ledger:
    """What the ledger has of these games, and whether it is in order as a whole."""
    entrants = await connection.fetch(
        """
        select game_id, account_id, coalesce(refusal, ''), coins, gold, coffee from ledger.entrant
        where game_id = any($1) order by game_id, place""",
        game_ids,
    )
    moves = await connection.fetch(
        """
        select e.key, e.kind::text, ledger.is_house(t.debit), t.debit, t.credit, t.currency::text, t.amount
        from ledger.entry e join ledger.transfer t using (number)
        where e.cause_kind = 'game' and e.cause_id = any($1)
           or e.cause_kind = 'day' and t.credit = any($2)
        order by e.number, t.line""",
        [str(game_id) for game_id in game_ids],
        [record["account_id"] for record in entrants],
    )
    settled = await connection.fetch("select game_id from ledger.settled_game where game_id = any($1)", game_ids)
    pending = await connection.fetch(
        """
        select key from ledger.entry p
        where kind = 'pending' and not exists (select from ledger.entry where resolves = p.key)"""
    )
    sums = await connection.fetch("select currency::text, sum(posted)::bigint from ledger.balance group by currency")
    return Ledger(
        await connection.fetchval("select last from ledger.consumer_checkpoint where consumer = 'ledger'") or 0,
        tuple(record["fact_no"] for record in await connection.fetch("select fact_no from ledger.parked_fact")),
        tuple(Entrant(str(game_id), str(account), *rest) for game_id, account, *rest in entrants),
        frozenset(str(record["game_id"]) for record in settled),
        tuple(
            Move(key, kind, str(credit if gains else debit), currency, amount if gains else -amount)
            for key, kind, gains, debit, credit, currency, amount in moves
        ),
        tuple(
            str(record["game_id"])
            for record in await connection.fetch("select game_id from ledger.game_entry where began is null")
        ),
        tuple(record["key"] for record in pending),
        dict(map(tuple, sums)),
        await _rebuilt(world),
        await _audited(world),
    )


async def _weeks(world: World, connection: Connection, ended: date | None) -> Weeks:
    """What there is of weeks: most of it is looked at in rounds in which one ends."""
    if ended is None:
        return Weeks(None, (), (), (), frozenset(), (), ())
    closes = await connection.fetch(
        "select week, games_fact, ledger_fact, ledger_missing from league.week_close order by week"
    )
    told = await connection.fetch(
        "select payload from league.facts where subject like 'levata.league.week_closed.%' order by fact_no"
    )
    ledger_facts = await connection.fetch(
        """
        select fact_no, subject, payload, (extract(epoch from at) * 1000000)::bigint from ledger.facts
        order by fact_no"""
    )
    placings = await connection.fetch(
        """
        select b.begins, b.division, s.account_id, s.points
        from league.score s join league.board b using (board) natural join league.live_build
        where b.contest = 'league'"""
    )
    rewards = await connection.fetch(
        """
        select e.cause_id::date, t.credit, t.currency::text, t.amount
        from ledger.entry e join ledger.transfer t using (number)
        where e.cause_kind = 'week' order by e.number, t.line"""
    )
    return Weeks(
        ended,
        tuple(WeekClose(week, games, ledger, frozenset(missing)) for week, games, ledger, missing in closes),
        tuple(record["payload"] for record in told),
        tuple(Fact(*record) for record in ledger_facts),
        frozenset(Placing(week, name, str(account), points) for week, name, account, points in placings),
        tuple(Reward(week, str(account), currency, amount) for week, account, currency, amount in rewards),
        await _league_rebuilt(world),
    )


async def _league_rebuilt(world: World) -> tuple[str, ...]:
    """Rows that a rebuild of the league makes otherwise, but for XP that people were given to enter rooms."""

    async def rebuild() -> list[str]:
        async with rpc.channel(str(world.replicas("league")[0]), _operator(world)) as channel:
            request = league_operations_pb2.RebuildRequest(dry_run=True)
            steps = rpc.stub(channel, _LEAGUE_OPERATIONS).Rebuild(request, timeout=AUDIT_SECONDS)
            differences = [step.difference async for step in steps if step.HasField("difference")]
            return [_in_a_line(each) for each in differences if not is_gift(each)]

    return tuple(await patiently(rebuild))


def is_gift(difference: league_operations_pb2.RowDifference) -> bool:
    """Whether somebody has more XP by what people are given, of which no fact tells, and nothing else differs."""
    if difference.table != "progress" or not difference.before:
        return False
    before = json.loads(difference.before)
    # Who has finished no game has no row otherwise.
    nothing = dict.fromkeys(before) | {"account_id": before["account_id"], "xp": 0}
    after = json.loads(difference.after) if difference.after else nothing
    return bool(before | {"xp": before["xp"] - GIVEN_XP} == after)


async def _rebuilt(world: World) -> tuple[str, ...]:
    """Balances that a rebuild makes otherwise; it changes none."""
    async with rpc.channel(str(world.replicas("ledger")[0]), _operator(world)) as channel:
        operations = rpc.stub(channel, _OPERATIONS)
        request = operations_pb2.RebuildRequest(dry_run=True)
        rebuilt = await patiently(lambda: operations.Rebuild(request, timeout=CALL_SECONDS))
    return tuple(map(_in_a_line, rebuilt.shown))


async def _audited(world: World) -> tuple[str, ...]:
    """Entries that do not follow from the games' facts."""

    async def audit() -> list[str]:
        async with rpc.channel(str(world.replicas("ledger")[0]), _operator(world)) as channel:
            steps = rpc.stub(channel, _OPERATIONS).Audit(operations_pb2.AuditRequest(), timeout=AUDIT_SECONDS)
            return [_in_a_line(step.difference) async for step in steps if step.HasField("difference")]

    return tuple(await patiently(audit))


def _operator(world: World) -> str:
    return world.signer.operator_token("faults", TOKEN_SECONDS)


def _in_a_line(message: Message) -> str:
    return text_format.MessageToString(message, as_one_line=True)
