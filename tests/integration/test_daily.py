"""Dailies: the same deals for everybody, committed to from 00:00 UTC, shown only when nobody can play them any more.

Also what a daily shares with solo games: without a clock, a game that was left is played out by the bot.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import grpc
import psycopg
import pytest
from google.protobuf.json_format import MessageToJson
from levata.facts.v1 import facts_pb2 as stream_pb2
from levata.table.v1 import facts_pb2, games_pb2, table_pb2

from chassis.auth import KeyFiles, Signer
from chassis.database import Pool, open_pool
from chassis.log import LogReader
from chassis.rpc import stub
from rules import registry
from rules.cards import members
from rules.registry import GAME_TYPES
from services.table import __main__
from services.table.__main__ import build
from services.table.app.host import Host
from services.table.app.running import RunningGame
from services.table.domain import day_end_us
from tests.conftest import Database
from tests.table_client import (
    CALL_SECONDS,
    STRANGER,
    GameLog,
    Player,
    Refusal,
    Script,
    Service,
    bot,
    person,
    refused,
    settings_for,
)
from tools import check_deal
from tools.verify import verify

INVALID = grpc.StatusCode.INVALID_ARGUMENT
DENIED = grpc.StatusCode.PERMISSION_DENIED
NOT_A_DAILY = Refusal("NOT_A_DAILY", INVALID)
DAY_NOT_OVER = Refusal("DAY_NOT_OVER", DENIED)
NOON = timedelta(hours=12)
ONE_DAY = timedelta(days=1)


class Calendar:
    """A table service whose clock the test moves, forwards only."""

    def __init__(self, database: Database, keys: KeyFiles, pool: Pool, service: Service, host: Host) -> None:
        self._database = database
        self._pool = pool
        self.service = service
        self.host = host
        # Players' tokens have the service's time.
        service.signer = Signer.from_file(keys.signing_key, host.clock)
        self.reader = LogReader(pool)

    async def move_to(self, moment: datetime) -> None:
        """From now on it is later, in the database and in the service."""
        with psycopg.connect(self._database.admin_dsn, autocommit=True) as connection:
            connection.execute("update tables.clock_offset set amount = %s - clock_timestamp()", (moment,))
        await self.host.clock.measure(self._pool)
        # The host has not been seen for a long while now, and does not know whether its games are its own still.
        while not self.host.heartbeat.is_sure:
            await asyncio.sleep(0.02)
        self.service._tokens.clear()


def midnight(day: date) -> datetime:
    """When a day begins."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


TODAY = datetime.now(UTC).date() + 2 * ONE_DAY


@pytest.fixture
async def calendar(database: Database, keys: KeyFiles, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Calendar]:
    """A service at noon of `TODAY`."""
    hosts: list[Host] = []

    class SeenHost(Host):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            hosts.append(self)

    monkeypatch.setattr(__main__, "Host", SeenHost)
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(await open_pool(database.dsn("table"), "test", connections_max=2))
        address = await stack.enter_async_context(build(settings_for(database, keys)))
        service = Service(str(address), Signer.from_file(keys.signing_key))
        stack.push_async_callback(service.close)
        opened = Calendar(database, keys, pool, service, hosts[0])
        await opened.move_to(midnight(TODAY) + NOON)
        yield opened


def prepare(game_type: str, variant: str = "", seats: int = 0) -> games_pb2.PrepareRequest:
    """A fresh request for a daily."""
    game = registry.game(game_type)
    assert game is not None
    return games_pb2.PrepareRequest(
        request_id=str(uuid4()),
        game_type=game_type,
        variant=variant,
        seats=seats or game.daily[1],
        mode=table_pb2.MODE_DAILY,
    )


def create(game_id: str, seats: int, account: str) -> games_pb2.CreateRequest:
    """A person in seat 0 and bots."""
    return games_pb2.CreateRequest(game_id=game_id, seats=[person(account), *[bot()] * (seats - 1)])


async def start_daily(service: Service, game_type: str, account: str) -> str:
    """The id of a daily that runs."""
    request = prepare(game_type)
    prepared = await service.games.Prepare(request)
    assert prepared.day == TODAY.isoformat()
    await service.games.Create(create(prepared.game_id, request.seats, account))
    return str(prepared.game_id)


async def daily_of(service: Service, game_type: str, day: date | None = None) -> table_pb2.DailyResponse:
    """What anybody is told, without a token."""
    request = table_pb2.DailyRequest(game_type=game_type, day="" if day is None else day.isoformat())
    answer = await service.with_token(None).Daily(request)
    assert isinstance(answer, table_pb2.DailyResponse)
    return answer


async def replay(
    service: Service, account: str, game_id: str, seat: int | None = None
) -> list[table_pb2.ReplayResponse]:
    """A whole replay."""
    request = table_pb2.ReplayRequest(game_id=game_id, seat=seat)
    return [response async for response in service.table(account).Replay(request)]


def without_names(commits: list[table_pb2.Commit]) -> list[table_pb2.Commit]:
    """Commits without what differs between two playings by their nature: times, accounts and ids."""
    bare = []
    for commit in commits:
        same = table_pb2.Commit()
        same.CopyFrom(commit)
        same.decided_at_ms = 0
        for event in same.events:
            if event.HasField("created"):
                event.created.game_id = event.created.seats[0].account_id = ""
        bare.append(same)
    return bare


@pytest.mark.parametrize("game_type", GAME_TYPES)
async def test_a_day_is_the_same_game_for_everybody_and_shown_when_it_is_over(
    calendar: Calendar, game_type: str
) -> None:
    service = calendar.service
    told = await daily_of(service, game_type)
    assert (told.day, told.server_seed) == (TODAY.isoformat(), b"")
    accounts = [str(uuid4()) for _ in range(2)]
    ids = [await start_daily(service, game_type, account) for account in accounts]
    assert len(set(ids)) == 2
    assert {UUID(game_id).version for game_id in ids} == {7}
    players = [Player(service, account, game_id) for account, game_id in zip(accounts, ids, strict=True)]
    await asyncio.gather(*(player.watch_to_the_end() for player in players))

    # The same moves, so the same game; one's own seat alone, and no seed.
    own = [await replay(service, account, game_id) for account, game_id in zip(accounts, ids, strict=True)]
    first, second = ([response.commit for response in each] for each in own)
    assert without_names(first) == without_names(second)
    assert first[0].events[0].created.day == TODAY.isoformat()
    assert first[0].events[0].created.commitment == told.commitment
    assert first[-1].events[-1].WhichOneof("kind") == "finished"
    log = GameLog(calendar.reader, ids[0])
    table = await log.refresh()
    seed = table.created.secret.server_seed
    shown = b"".join(response.SerializeToString() for response in own[0])
    shown += b"".join(commit.SerializeToString() for commit in players[0].commits)
    assert not any(secret in shown for secret in (seed, *(row.chain for row in log.rows)))
    assert not any(event.dealt.hands for commit in first for event in commit.events)
    request = table_pb2.ReplayRequest(game_id=ids[0])
    for api in (service.table(STRANGER), service.table(accounts[1]), service.with_service_token()):
        assert await refused(api.Replay(request)) == DAY_NOT_OVER
    for seat in range(1, len(table.occupants)):
        request = table_pb2.ReplayRequest(game_id=ids[0], seat=seat)
        assert await refused(service.table(accounts[0]).Replay(request)) == DAY_NOT_OVER
    for after_version in (0, 1):
        watch = table_pb2.WatchRequest(game_id=ids[0], after_version=after_version)
        assert await refused(service.table(STRANGER).Watch(watch)) == DAY_NOT_OVER
    assert (await daily_of(service, game_type, TODAY)).server_seed == b""

    # The next day anybody may see and check it.
    await calendar.move_to(midnight(TODAY + ONE_DAY))
    told_then = await daily_of(service, game_type, TODAY)
    assert (told_then.commitment, told_then.server_seed) == (told.commitment, seed)
    assert sha256(seed).digest() == told.commitment
    shown_open = await replay(service, STRANGER, ids[0])
    assert [response.chain for response in shown_open] == [row.chain for row in log.rows]
    assert shown_open[-1].commit.events[-1].finished.server_seed == seed
    lines = [MessageToJson(line, preserving_proto_field_name=True, indent=None) for line in shown_open]
    exported = check_deal.read_game("\n".join(lines))
    assert exported.day == TODAY.isoformat()
    list(check_deal.check(exported, told.commitment))
    assert verify(ids[0], told.commitment, shown_open).bot_moves
    # A stream still has the bytes that it had on the day.
    late = Player(service, accounts[0], ids[0])
    late.version = 1
    async for message in late.watch():
        late.take(message)
    assert late.commits == first[1:]
    # And another day has other deals.
    tomorrow = await daily_of(service, game_type)
    assert tomorrow.day == (TODAY + ONE_DAY).isoformat()
    assert tomorrow.commitment != told.commitment


async def test_all_who_ask_at_once_on_a_new_day_get_one_commitment(calendar: Calendar) -> None:
    service = calendar.service
    asked = [daily_of(service, "euchre") for _ in range(20)]
    prepared = [service.games.Prepare(prepare("euchre")) for _ in range(20)]
    answers = await asyncio.gather(*asked, *prepared)
    assert len({answer.commitment for answer in answers}) == 1
    assert (await daily_of(service, "klaverjas")).commitment != answers[0].commitment


async def test_days_that_are_not_told(calendar: Calendar) -> None:
    service = calendar.service
    public = service.with_token(None)

    async def refusal_for(game_type: str, day: str) -> Refusal:
        return await refused(public.Daily(table_pb2.DailyRequest(game_type=game_type, day=day)))

    tomorrow, yesterday = (TODAY + ONE_DAY).isoformat(), (TODAY - ONE_DAY).isoformat()
    begun = grpc.StatusCode.FAILED_PRECONDITION
    assert await refusal_for("euchre", tomorrow) == Refusal("DAY_NOT_BEGUN", begun)
    assert await refusal_for("euchre", "9999-12-31") == Refusal("DAY_NOT_BEGUN", begun)
    assert await refusal_for("euchre", yesterday) == Refusal("DAILY_NOT_FOUND", grpc.StatusCode.NOT_FOUND)
    assert await refusal_for("euchre", "0001-01-01") == Refusal("DAILY_NOT_FOUND", grpc.StatusCode.NOT_FOUND)
    assert await refusal_for("euchre", "2027-02-29") == Refusal("NO_SUCH_DAY", INVALID)
    assert await refusal_for("euchre", "0000-01-01") == Refusal("NO_SUCH_DAY", INVALID)
    assert await refusal_for("euchre", "today") == Refusal("INVALID_REQUEST", INVALID)
    assert await refusal_for("euchre", f"{tomorrow}\n") == Refusal("INVALID_REQUEST", INVALID)
    assert await refusal_for("poker", "") == Refusal("UNKNOWN_GAME", INVALID)


@pytest.mark.parametrize(
    ("game_type", "variant", "seats", "why"),
    [
        ("romanian_whist", "8-1-8", 6, "NOT_A_DAILY"),
        ("romanian_whist", "quick", 5, "SEATS_NOT_ALLOWED"),
        ("oh_hell", "", 5, "NOT_A_DAILY"),
        ("klaverjas", "rotterdam", 4, "NOT_A_DAILY"),
        ("euchre", "no-such-variant", 4, "UNKNOWN_VARIANT"),
    ],
)
async def test_prepare_refuses_another_contest(
    calendar: Calendar, game_type: str, variant: str, seats: int, why: str
) -> None:
    request = prepare(game_type, variant, seats)
    assert await refused(calendar.service.games.Prepare(request)) == Refusal(why, INVALID)


def _with_nonce(request: games_pb2.CreateRequest) -> None:
    request.seats[3].nonce = b"mine"


def _bots_only(request: games_pb2.CreateRequest) -> None:
    request.seats[0].CopyFrom(bot())


def _person_elsewhere(request: games_pb2.CreateRequest) -> None:
    request.seats[1].CopyFrom(request.seats[0])
    request.seats[0].CopyFrom(bot())


def _second_person(request: games_pb2.CreateRequest) -> None:
    request.seats[2].CopyFrom(person(STRANGER))


def _other_bot(request: games_pb2.CreateRequest) -> None:
    request.seats[2].bot.level = "sharp"


@pytest.mark.parametrize("spoil", [_with_nonce, _bots_only, _person_elsewhere, _second_person, _other_bot])
async def test_create_refuses_what_is_not_the_same_for_everybody(
    calendar: Calendar, spoil: Callable[[games_pb2.CreateRequest], None]
) -> None:
    game_id = (await calendar.service.games.Prepare(prepare("euchre"))).game_id
    request = create(game_id, 4, str(uuid4()))
    spoil(request)
    assert await refused(calendar.service.games.Create(request)) == NOT_A_DAILY


async def test_a_daily_begins_on_its_day_or_never(calendar: Calendar) -> None:
    service = calendar.service
    begun, late = [(await service.games.Prepare(prepare("euchre"))).game_id for _ in range(2)]
    await calendar.move_to(midnight(TODAY + ONE_DAY) - timedelta(seconds=60))
    request = create(begun, 4, str(uuid4()))
    await service.games.Create(request)
    await calendar.move_to(midnight(TODAY + ONE_DAY))
    too_late = create(late, 4, str(uuid4()))
    day_over = Refusal("DAY_OVER", grpc.StatusCode.FAILED_PRECONDITION)
    assert await refused(service.games.Create(too_late)) == day_over
    # A repetition gets the answer that it got before.
    assert (await service.games.Create(request)).version == 1
    await service.games.Cancel(games_pb2.CancelRequest(game_id=late))
    cancelled = Refusal("GAME_CANCELLED", grpc.StatusCode.FAILED_PRECONDITION)
    assert await refused(service.games.Create(too_late)) == cancelled


async def test_facts_of_a_daily_name_its_day(calendar: Calendar) -> None:
    service, account = calendar.service, str(uuid4())
    game_id = await start_daily(service, "euchre", account)
    await Player(service, account, game_id).watch_to_the_end()
    league = service.signer.service_token("league", 3600)
    facts = stub(service.channel(league), stream_pb2.DESCRIPTOR.services_by_name["Facts"])
    page = await facts.Read(stream_pb2.ReadRequest(limit=1000))
    told = [facts_pb2.GameFact.FromString(fact.payload) for fact in page.facts]
    assert told[0].created.day == told[-1].finished.day == TODAY.isoformat()
    log = GameLog(calendar.reader, game_id)
    seed = (await log.refresh()).created.secret.server_seed
    assert not any(seed in fact.payload for fact in page.facts)


def test_a_seed_is_never_changed(database: Database) -> None:
    with psycopg.connect(database.dsn("table"), autocommit=True) as service:
        service.execute(
            "insert into daily_seeds (day, game_type, server_seed) values (now(), 'euchre', %s)", [bytes(32)]
        )
        for statement in ("update daily_seeds set server_seed = server_seed", "delete from daily_seeds"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                service.execute(statement)
    with psycopg.connect(database.admin_dsn, autocommit=True) as admin:
        for statement in (
            "update tables.daily_seeds set server_seed = server_seed",
            "delete from tables.daily_seeds",
            "truncate tables.daily_seeds",
        ):
            with pytest.raises(psycopg.errors.RestrictViolation):
                admin.execute(statement)


# Games that were left


async def the_end(log: GameLog) -> None:
    """Wait until a game is over."""
    async with asyncio.timeout(CALL_SECONDS):
        while not (await log.refresh()).over:
            await asyncio.sleep(0.1)


async def test_a_daily_left_in_its_last_deal_is_played_out_at_the_day_s_end_and_pays_nothing(
    calendar: Calendar,
) -> None:
    service, account = calendar.service, str(uuid4())
    game_id = await start_daily(service, "oh_hell", account)
    script = Script(service, GameLog(calendar.reader, game_id))
    last_deal = len((await script.log.refresh()).created.setup.hand_sizes) - 1
    while True:
        while script.table.turn != 0:
            await asyncio.sleep(0.01)
            await script.log.refresh()
        # The person's first decision of the last deal is the one that is left.
        if script.table.play.deal == last_deal:
            break
        await script.act()
    assert script.table.own
    assert all(flags[0] for flags in script.table.own)
    left_at = script.table.version
    await calendar.move_to(midnight(TODAY + ONE_DAY) - timedelta(seconds=30))
    await asyncio.sleep(1.5)
    assert (await script.log.refresh()).version == left_at
    await calendar.move_to(midnight(TODAY + ONE_DAY))
    await the_end(script.log)
    away = script.log.event(left_at + 1)
    assert (away.seat, away.away) == (0, True)  # type: ignore[union-attr]
    finished = script.table.finished
    assert finished is not None
    assert finished.seats[0].holder.account == account
    assert finished.seats[0].own_deals == len(script.table.own) - 1
    assert not finished.seats[0].eligible
    assert script.log.commit(script.table.version).decided_at_us >= day_end_us(TODAY)


async def test_nobody_plays_on_with_a_seed_that_is_known(calendar: Calendar, monkeypatch: pytest.MonkeyPatch) -> None:
    # The bot is slow to take over, so that there is a moment between the day's end and the game's.
    monkeypatch.setattr(RunningGame, "look", lambda *_: None)
    game_id = await start_daily(calendar.service, "oh_hell", account := str(uuid4()))
    script = Script(calendar.service, GameLog(calendar.reader, game_id))
    while (await script.log.refresh()).turn != 0:
        await asyncio.sleep(0.01)
    await calendar.move_to(midnight(TODAY + ONE_DAY))
    assert (await daily_of(calendar.service, "oh_hell", TODAY)).server_seed
    before = script.log.version
    act = script.request(next(members(script.table.legal)))
    day_over = Refusal("DAY_OVER", grpc.StatusCode.FAILED_PRECONDITION)
    # A host that has not beaten since the clock jumped does not know whether the game is its own still.
    while (refusal := await refused(calendar.service.table(account).Act(act))).reason == "TEMPORARILY_UNAVAILABLE":
        await asyncio.sleep(0.1)
    assert refusal == day_over
    await script.log.refresh()
    assert script.log.version == before


async def test_a_solo_game_is_played_out_when_nobody_touched_it_for_a_day(calendar: Calendar) -> None:
    service, account = calendar.service, str(uuid4())
    request = games_pb2.PrepareRequest(request_id=str(uuid4()), game_type="euchre", seats=4, mode=table_pb2.MODE_SOLO)
    game_id = (await service.games.Prepare(request)).game_id
    await service.games.Create(create(game_id, 4, account))
    player = Player(service, account, game_id)
    async for message in player.watch():
        player.take(message)
        if player.my_turn:
            break
    assert player.decision is not None
    assert player.decision.deadline_ms == 0
    log = GameLog(calendar.reader, game_id)
    untouched = (await log.refresh()).version
    began = midnight(TODAY) + NOON
    await calendar.move_to(began + timedelta(hours=23, minutes=59))
    await asyncio.sleep(1.5)
    assert (await log.refresh()).version == untouched
    await calendar.move_to(began + timedelta(hours=24, minutes=1))
    await the_end(log)
    finished = log.table.finished
    assert finished is not None
    assert not finished.seats[0].eligible
    # It ended like any game: shown to all, with its seed.
    shown = await replay(service, STRANGER, game_id)
    assert len(shown[-1].commit.events[-1].finished.server_seed) == 32
    assert json.loads(MessageToJson(shown[0]))["commit"]["events"][0]["created"]["gameId"] == game_id
