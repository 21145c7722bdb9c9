"""The league service against a real Postgres and a real NATS: facts of games in, records and rebuilds out.

The games' log is the table service's own schema, served by the chassis as the table service serves it; facts are
appended to it here, so that a test decides what happens and in which order.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import grpc
import pytest
from grpc_health.v1 import health_pb2
from levata.facts.v1 import facts_pb2 as log_pb2
from levata.league.v1 import league_pb2, operations_pb2
from levata.table.v1 import facts_pb2, table_pb2

from chassis import bus
from chassis.auth import KeyFiles, Signer, Verifier
from chassis.database import open_pool
from chassis.errors import reason_of
from chassis.facts import GAMES, FactLog, FactsService, Relay, publish
from chassis.log import NewFact
from chassis.rpc import Access, Server, channel, stub
from chassis.schema import begin_incarnation
from services.league.__main__ import GAMES_FACTS, build
from services.league.settings import LeagueSettings
from tests.conftest import NOBODY, Database
from tools.embedded.nats import EmbeddedNats
from tools.tokens import Tokens
from tools.up.servers import CATALOGUE

ALICE, BOB, CAROL = (UUID(int=number, version=4) for number in (1, 2, 3))
BOT = None


@dataclass
class World:
    """A league service, the games' log that it hears, and what is needed to look at both."""

    database: Database
    games: "asyncpg.Pool[asyncpg.Record]"
    relay: Relay
    signer: Signer
    address: str

    async def finish(
        self, places: Sequence[tuple[UUID | None, int]], game_type: str = "euchre", game_id: UUID | None = None
    ) -> int:
        """Append the fact of a finished game; answers with its number."""
        return await self.append(finished(places, game_type, game_id))

    async def append(self, *facts: NewFact) -> int:
        """Append facts to the games' log; answers with the last number."""
        async with self.games.acquire() as session, session.transaction():
            number = await publish(session, facts)
        self.relay.wake()
        return number

    def league(self, account: UUID = ALICE) -> Any:
        """The public API, as an account."""
        token = self.signer.player_token(str(account), False, 3600)
        return stub(channel(self.address, token), league_pb2.DESCRIPTOR.services_by_name["League"])

    async def record(self, account: UUID) -> league_pb2.GetRecordResponse:
        """An account's record now."""
        request = league_pb2.GetRecordRequest(account_id=str(account))
        response: league_pb2.GetRecordResponse = await self.league().GetRecord(request)
        return response

    async def heard(self, fact: int) -> None:
        """Wait until the league has heard a fact."""
        await until(lambda: self._has_heard(fact))

    async def _has_heard(self, fact: int) -> bool:
        return (await self.record(ALICE)).as_of_fact >= fact

    async def rebuild(self, **options: bool) -> list[operations_pb2.RebuildResponse]:
        """All that a rebuild says."""
        token = self.signer.operator_token("tools", 3600)
        operations = stub(channel(self.address, token), operations_pb2.DESCRIPTOR.services_by_name["Operations"])
        return [step async for step in operations.Rebuild(operations_pb2.RebuildRequest(**options))]

    async def execute(self, statement: str, *arguments: object) -> None:
        """Run SQL with the league's own role."""
        connection = await asyncpg.connect(self.database.dsn("league"))
        await connection.execute(statement, *arguments)
        await connection.close()

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Query with the league's own role."""
        connection = await asyncpg.connect(self.database.dsn("league"))
        rows = await connection.fetch(query)
        await connection.close()
        return [tuple(row) for row in rows]


def finished(
    places: Sequence[tuple[UUID | None, int]], game_type: str = "euchre", game_id: UUID | None = None
) -> NewFact:
    """The fact that a game ended with these holders in these places."""
    fact = facts_pb2.GameFact(game_id=str(game_id or uuid4()), version=9)
    fact.finished.game_type = game_type
    fact.finished.mode = table_pb2.MODE_SOLO
    for account, place in places:
        seat = fact.finished.seats.add(place=place)
        if account is None:
            seat.holder.bot_level = "steady"
        else:
            seat.holder.account_id = str(account)
    return NewFact(f"levata.games.finished.{fact.game_id}", fact.SerializeToString())


async def until(happened: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that other processes do; the test's own timeout bounds it."""
    while not await happened():
        await asyncio.sleep(0.02)


@asynccontextmanager
async def running(database: Database, nats: EmbeddedNats, keys: KeyFiles) -> AsyncIterator[World]:
    """A league and what it hears from."""
    signer, tokens = Signer.from_file(keys.signing_key), Tokens(keys.jwks.parent / "tokens")
    tokens.issue(keys.signing_key, ["league"])
    async with AsyncExitStack() as stack:
        games = await stack.enter_async_context(await open_pool(database.dsn("table"), "games"))
        owner = Server(Verifier.from_file(keys.jwks))
        owner.add(log_pb2.DESCRIPTOR.services_by_name["Facts"], FactsService(FactLog(games)), Access.by("league"))
        owner_port = await owner.start("127.0.0.1", 0)
        stack.push_async_callback(owner.stop, 0)
        client = await bus.connect(nats.url("table"), "games")
        stack.push_async_callback(client.close)
        relay = Relay(games, client, GAMES)
        await relay.start()
        stack.push_async_callback(relay.stop)
        ledger = await stack.enter_async_context(await open_pool(database.dsn("ledger"), "ledger"))
        ledger_owner = Server(Verifier.from_file(keys.jwks))
        ledger_owner.add(
            log_pb2.DESCRIPTOR.services_by_name["Facts"], FactsService(FactLog(ledger)), Access.by("league")
        )
        ledger_port = await ledger_owner.start("127.0.0.1", 0)
        stack.push_async_callback(ledger_owner.stop, 0)
        settings = LeagueSettings(
            service_name="league",
            postgres_dsn=database.dsn("league"),
            nats_url=nats.url("league"),
            jwks_file=keys.jwks,
            service_token_file=tokens.file("league"),
            catalogue_file=CATALOGUE,
            peers={
                "table": [f"127.0.0.1:{owner_port}"],
                "ledger": [f"127.0.0.1:{ledger_port}"],
                "accounts": [str(NOBODY)],
            },
        )
        address = await stack.enter_async_context(build(settings))
        yield World(database, games, relay, signer, str(address))


@pytest.fixture
async def world(database: Database, nats: EmbeddedNats, keys: KeyFiles) -> AsyncIterator[World]:
    async with running(database, nats, keys) as started:
        yield started


def games_in(record: league_pb2.GetRecordResponse) -> dict[str, tuple[int, list[int]]]:
    return {game.game_type: (game.games_played, list(game.places)) for game in record.records}


async def test_places_are_counted_for_every_account_by_game_type(world: World) -> None:
    await world.finish([(ALICE, 1), (BOT, 2), (BOB, 3), (BOT, 4)], "oh_hell")
    await world.finish([(ALICE, 3), (BOB, 1), (BOT, 3), (BOT, 1)], "euchre")
    last = await world.finish([(BOB, 2), (BOT, 1), (ALICE, 2), (BOT, 4)], "oh_hell")
    await world.heard(last)
    assert games_in(await world.record(ALICE)) == {"euchre": (1, [0, 0, 1]), "oh_hell": (2, [1, 1])}
    assert games_in(await world.record(BOB)) == {"euchre": (1, [1]), "oh_hell": (2, [0, 1, 1])}


async def test_who_has_played_nothing_has_an_empty_record_as_of_the_last_fact(world: World) -> None:
    last = await world.finish([(ALICE, 1), (BOB, 2)])
    await world.heard(last)
    record = await world.record(CAROL)
    assert (record.account_id, games_in(record), record.as_of_fact) == (str(CAROL), {}, last)


async def test_ones_own_record_is_the_default_and_anybodys_may_be_asked_for(world: World) -> None:
    await world.heard(await world.finish([(BOB, 1), (BOT, 2)]))
    own = await world.league(BOB).GetRecord(league_pb2.GetRecordRequest())
    assert (own.account_id, games_in(own)) == (str(BOB), {"euchre": (1, [1])})
    assert await world.record(BOB) == own


async def test_other_facts_of_games_change_nothing_but_the_checkpoint(world: World) -> None:
    fact = facts_pb2.GameFact(game_id=str(uuid4()), version=1)
    fact.created.game_type = "euchre"
    fact.created.seats.add(account_id=str(ALICE))
    last = await world.append(NewFact(f"levata.games.created.{fact.game_id}", fact.SerializeToString()))
    await world.heard(last)
    assert games_in(await world.record(ALICE)) == {}


async def test_a_seat_of_a_game_counts_once_however_often_it_is_told(world: World) -> None:
    told = finished([(ALICE, 1), (BOB, 2)])
    await world.append(told, told)
    last = await world.append(told)
    await world.heard(last)
    assert games_in(await world.record(ALICE)) == {"euchre": (1, [1])}


async def test_a_record_needs_a_players_token(world: World) -> None:
    for token in (None, world.signer.operator_token("tools", 3600)):
        league = stub(channel(world.address, token), league_pb2.DESCRIPTOR.services_by_name["League"])
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await league.GetRecord(league_pb2.GetRecordRequest())
        assert reason_of(refused.value) == ("ROLE_REQUIRED" if token else "TOKEN_MISSING")


async def test_an_account_that_is_no_id_is_refused(world: World) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await world.league().GetRecord(league_pb2.GetRecordRequest(account_id="alice"))
    assert reason_of(refused.value) == "INVALID_REQUEST"


async def test_a_lost_jetstream_store_loses_nothing(world: World, nats: EmbeddedNats) -> None:
    await world.heard(await world.finish([(ALICE, 1), (BOB, 2)]))
    operator = await bus.connect(nats.admin_url, "operator")
    await operator.jetstream().delete_stream("GAMES")
    await operator.close()
    await world.finish([(ALICE, 2), (BOB, 1)])
    last = await world.finish([(ALICE, 2), (BOB, 1)])
    await world.heard(last)
    assert games_in(await world.record(ALICE)) == {"euchre": (3, [1, 2])}


async def test_health_says_whether_the_facts_are_heard(world: World) -> None:
    async with channel(world.address) as opened:
        check = opened.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )

        async def serves(alive: bool, caught_up: bool) -> bool:
            wanted = {GAMES_FACTS: alive, f"{GAMES_FACTS}.caught_up": caught_up}
            for name, serving in wanted.items():
                try:
                    response = await check(health_pb2.HealthCheckRequest(service=name))
                except grpc.aio.AioRpcError:
                    return False
                if (response.status == health_pb2.HealthCheckResponse.SERVING) is not serving:
                    return False
            return True

        await until(lambda: serves(alive=True, caught_up=True))
        await world.heard(await world.finish([(ALICE, 1)]))
        # The games' log was restored: the consumer waits for the operator.
        await asyncio.to_thread(begin_incarnation, world.database.admin_dsn, "tables")
        await until(lambda: serves(alive=False, caught_up=False))
        # What is known is still answered.
        assert games_in(await world.record(ALICE)) == {"euchre": (1, [1])}


# Rebuilds

BUILDS = "select distinct build from seat_result union select build from build order by 1"


def differences(steps: Sequence[operations_pb2.RebuildResponse]) -> list[tuple[str, Any, Any]]:
    return [
        (step.difference.table, *(json.loads(row or "null") for row in (step.difference.before, step.difference.after)))
        for step in steps
        if step.WhichOneof("kind") == "difference"
    ]


async def test_a_sound_projection_is_rebuilt_to_the_same_rows(world: World) -> None:
    last = await world.append(*(finished([(ALICE, place), (BOB, 4)]) for place in (1, 2, 2, 3)))
    await world.heard(last)
    before = await world.rows("select account_id, game_type, place, games from place_count order by 1, 2, 3")
    steps = await world.rebuild()
    done = steps[-1].done
    assert (done.fact, done.rows, done.differences, done.switched) == (last, 8 + 4 + 2, 0, True)
    assert await world.rows("select account_id, game_type, place, games from place_count order by 1, 2, 3") == before
    assert len(await world.rows(BUILDS)) == 1
    # The consumer adds to the new build.
    await world.heard(await world.finish([(ALICE, 3), (BOB, 4)]))
    assert games_in(await world.record(ALICE)) == {"euchre": (5, [1, 2, 2])}


async def test_what_was_wrong_is_shown_row_by_row_and_mended(world: World) -> None:
    game_id = uuid4()
    await world.finish([(ALICE, 1), (BOB, 2)], game_id=game_id)
    await world.heard(await world.finish([(ALICE, 1), (BOB, 2)]))
    await world.execute("update place_count set games = 7 where account_id = $1", ALICE)
    await world.execute("delete from seat_result where game_id = $1 and seat = 1", game_id)
    steps = await world.rebuild()
    count = {"account_id": str(ALICE), "game_type": "euchre", "place": 1}
    lost = {"game_id": str(game_id), "seat": 1, "account_id": str(BOB), "game_type": "euchre", "place": 2}
    (table, before, after), *others = differences(steps)
    assert (table, before, {column: after[column] for column in lost}) == ("seat_result", None, lost)
    assert others == [
        ("place_count", {**count, "games": 7}, {**count, "games": 2}),
    ]
    assert steps[-1].done.differences == 2
    assert games_in(await world.record(ALICE)) == {"euchre": (2, [2])}


async def test_a_dry_run_shows_the_same_and_changes_nothing(world: World) -> None:
    await world.heard(await world.finish([(ALICE, 1), (BOB, 2)]))
    await world.execute("update place_count set games = 7 where account_id = $1", ALICE)
    steps = await world.rebuild(dry_run=True)
    assert len(differences(steps)) == 1
    assert not steps[-1].done.switched
    assert games_in(await world.record(ALICE)) == {"euchre": (7, [7])}
    assert len(await world.rows(BUILDS)) == 1


async def test_a_rebuild_under_live_traffic_misses_nothing_and_doubles_nothing(world: World) -> None:
    stop = asyncio.Event()
    played = 0

    async def play() -> None:
        nonlocal played
        while not stop.is_set():
            await world.append(*(finished([(ALICE, 1), (BOB, 2)]) for _ in range(20)))
            played += 20
            await asyncio.sleep(0.05)

    traffic = asyncio.create_task(play())
    await world.heard(1)
    for _ in range(3):
        done = (await world.rebuild())[-1].done
        assert (done.differences, done.switched) == (0, True)
    stop.set()
    await traffic
    await world.heard(await world.finish([(ALICE, 2)]))
    assert games_in(await world.record(ALICE)) == {"euchre": (played + 1, [played, 1])}
    assert (await world.rebuild())[-1].done.differences == 0


async def test_a_rebuild_that_is_broken_off_leaves_the_projection_and_the_next_one_cleans_up(world: World) -> None:
    await world.append(*(finished([(ALICE, 1), (BOB, 2)]) for _ in range(3000)))
    await world.heard(3000)
    token = world.signer.operator_token("tools", 3600)
    operations = stub(channel(world.address, token), operations_pb2.DESCRIPTOR.services_by_name["Operations"])
    call = operations.Rebuild(operations_pb2.RebuildRequest())
    first = await call.read()
    assert first.progress.fact < 3000
    call.cancel()
    assert games_in(await world.record(ALICE)) == {"euchre": (3000, [3000])}

    async def can_begin() -> bool:
        try:
            return bool((await world.rebuild())[-1].done.switched)
        except grpc.aio.AioRpcError as error:
            # Until the server has noticed that the caller left.
            if reason_of(error) != "REBUILD_RUNNING":
                raise
            return False

    await until(can_begin)
    assert len(await world.rows(BUILDS)) == 1
    assert games_in(await world.record(ALICE)) == {"euchre": (3000, [3000])}


async def test_two_rebuilds_at_once_are_refused(world: World) -> None:
    await world.heard(await world.finish([(ALICE, 1)]))
    holder = await asyncpg.connect(world.database.dsn("league"))
    await holder.execute("select pg_advisory_lock($1)", 0x6C65_6167)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await world.rebuild()
    assert reason_of(refused.value) == "REBUILD_RUNNING"
    await holder.close()


async def test_a_fact_that_is_parked_has_no_effect_in_a_rebuild_either(world: World) -> None:
    broken = NewFact("levata.games.finished.x", b"\xff\xff")
    await world.append(finished([(ALICE, 1), (BOB, 2)]), broken)
    await world.heard(await world.finish([(ALICE, 1), (BOB, 2)]))
    assert await world.rows("select fact_no from parked_fact") == [(2,)]
    done = (await world.rebuild())[-1].done
    assert (done.differences, done.switched) == (0, True)
    assert games_in(await world.record(ALICE)) == {"euchre": (2, [2])}


async def test_a_fact_that_only_the_rebuild_cannot_read_stops_it(world: World) -> None:
    await world.append(finished([(ALICE, 1)]), NewFact("levata.games.finished.x", b"\xff\xff"))
    await world.heard(2)
    await world.execute("delete from parked_fact")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await world.rebuild()
    assert reason_of(refused.value) == "FACT_UNREADABLE"
    assert games_in(await world.record(ALICE)) == {"euchre": (1, [1])}


async def test_a_rebuild_needs_a_services_token(world: World) -> None:
    token = world.signer.player_token(str(ALICE), False, 3600)
    operations = stub(channel(world.address, token), operations_pb2.DESCRIPTOR.services_by_name["Operations"])
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await operations.Rebuild(operations_pb2.RebuildRequest()).read()
    assert reason_of(refused.value) == "ROLE_REQUIRED"
