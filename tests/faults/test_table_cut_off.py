"""The table service is cut off from its database, and overtaken by another host: no acknowledged move is lost."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import grpc
import psycopg
import pytest
from levata.table.v1 import games_pb2, table_pb2

from chassis.auth import KeyFiles
from chassis.log import AppendResult, GroupWriter, LogReader
from rules.cards import members
from services.table import domain
from services.table.domain import ClockResumed, Decider, Step
from services.table.store.log import GameLog as ServiceLog
from tests.conftest import Database
from tests.persistent_players import PersistentPlayer, StreamingPlayer, WatchingPlayer, assert_kept
from tests.table_client import (
    CALL_SECONDS,
    SEAT_ACCOUNTS,
    GameLog,
    PlayStream,
    Refusal,
    Script,
    Service,
    create_game,
    log_reader,
    person,
    prepare_game,
    refused,
    running,
)

pytestmark = pytest.mark.faults

GAMES = 20
# Seen by players, at most; there are some nine thousand.
COMMITS_BETWEEN_CUTS = 500
PATIENT = games_pb2.ClockOptions(bid_seconds=3600, card_seconds=3600)
UNAVAILABLE = Refusal("TEMPORARILY_UNAVAILABLE", grpc.StatusCode.UNAVAILABLE)


async def test_connections_are_cut_while_twenty_games_are_played(database: Database, keys: KeyFiles) -> None:
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print(f"SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    chance = random.Random(seed)
    async with running(database, keys) as service, log_reader(database) as reader:
        games: dict[str, tuple[PersistentPlayer, PersistentPlayer]] = {}
        for _ in range(GAMES):
            game_id = await create_game(service, people=2, seats=6, variant="quick", clock=PATIENT)
            first, second = SEAT_ACCOUNTS[:2]
            games[game_id] = WatchingPlayer(service, first, game_id), StreamingPlayer(service, second, game_id)
        everybody = [player for players in games.values() for player in players]
        playing = [asyncio.create_task(player.play_out()) for player in everybody]
        cuts: list[int] = []
        cutting = asyncio.create_task(cut_off_again_and_again(database, chance, everybody, cuts))
        await asyncio.gather(*playing)
        cutting.cancel()
        assert sum(cuts) > 1
        for game_id, players in games.items():
            await assert_kept(GameLog(reader, game_id), players)


async def cut_off_again_and_again(
    database: Database, chance: random.Random, players: Sequence[PersistentPlayer], cuts: list[int]
) -> None:
    """End the log writer's connection, and now and then all others: while a game goes on, or soon after the last time.

    Mostly after so many commits and not after a time, which a slow machine might need for coming back alone.
    """
    while True:
        if chance.random() < 0.3:
            await asyncio.sleep(chance.uniform(0, 0.3))
        else:
            enough = seen(players) + chance.uniform(1, COMMITS_BETWEEN_CUTS)
            while seen(players) < enough:
                await asyncio.sleep(0.01)
        cuts.append(await asyncio.to_thread(cut_off, database, "levata log writer"))
        if chance.random() < 0.3:
            await asyncio.to_thread(cut_off, database, "table")


def seen(players: Sequence[PersistentPlayer]) -> int:
    """How many commits all players together have seen."""
    return sum(player.version for player in players)


def cut_off(database: Database, application: str) -> int:
    """End a service's connections; answers with how many there were."""
    with psycopg.connect(database.admin_dsn, autocommit=True) as connection:
        ended = connection.execute(
            """
            select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and application_name = %s
            """,
            [application],
        )
        return len(ended.fetchall())


async def test_games_that_are_claimed_while_connections_are_cut_come_back(database: Database, keys: KeyFiles) -> None:
    """Nobody else takes what a living host has claimed: it must not give up when it cannot read the log at once."""
    async with running(database, keys) as service:
        games = [await create_game(service, people=4, clock=PATIENT) for _ in range(4 * GAMES)]
    with psycopg.connect(database.admin_dsn, autocommit=True) as connection:
        async with running(database, keys) as service:
            async with asyncio.timeout(CALL_SECONDS):
                while not connection.execute("select from tables.game_hosts where epoch > 1").fetchall():
                    await asyncio.sleep(0.001)
            for _ in range(20):
                cut_off(database, "table")
                await asyncio.sleep(0.02)
            table = service.table(SEAT_ACCOUNTS[0])
            async with asyncio.timeout(CALL_SECONDS):
                for game_id in games:
                    while await is_away(table.Here(table_pb2.HereRequest(game_id=game_id))):
                        await asyncio.sleep(0.1)


async def is_away(call: Any) -> bool:
    """Whether a call finds nobody who serves it now."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise
        return True
    return False


class OtherHost:
    """Another replica, which appends to the same log."""

    def __init__(self, log: ServiceLog, connection: Any) -> None:
        self.id = uuid4()
        self._log = log
        self._connection = connection

    async def append(self, game_id: UUID, before: GameLog, step: Step) -> None:
        """A commit on top of what the log has."""
        result: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
        chain = before.rows[-1].chain
        self._log.submit(game_id, chain, before.table, step.commit, step.table, None, result.set_result)
        assert await result is AppendResult.COMMITTED

    async def claim(self, game_id: UUID) -> int:
        """Own a game, and be seen for an hour; answers with the epoch."""
        await self._connection.execute(
            "insert into hosts values ($1, 'nowhere', levata_now() + interval '1 hour')", self.id
        )
        return int(
            await self._connection.fetchval(
                "update game_hosts set host_id = $1, epoch = epoch + 1 where game_id = $2 returning epoch",
                self.id,
                game_id,
            )
        )

    async def was_about_to_begin(self, game_id: UUID) -> None:
        """Own a game of which the log has nothing."""
        await self._connection.execute("insert into game_hosts values ($1, $2, 1)", game_id, self.id)
        await self._connection.execute(
            "insert into hosts values ($1, 'nowhere', levata_now() + interval '1 hour')", self.id
        )

    async def until_lost(self, game_id: UUID) -> None:
        """Wait until a game was claimed by somebody else."""
        async with asyncio.timeout(CALL_SECONDS):
            while self.id == await self._connection.fetchval(
                "select host_id from game_hosts where game_id = $1", game_id
            ):
                await asyncio.sleep(0.1)

    async def die(self) -> None:
        """Be seen no more."""
        await self._connection.execute("update hosts set seen_at = '-infinity' where host_id = $1", self.id)


@pytest.fixture
async def other_host(database: Database) -> AsyncIterator[OtherHost]:
    """A second writer on the service's log."""
    async with host_on(database) as other:
        yield other


@asynccontextmanager
async def host_on(database: Database) -> AsyncIterator[OtherHost]:
    """A second writer on a database."""
    connection = await asyncpg.connect(database.dsn("table"))
    async with log_reader(database) as reader, GroupWriter(database.dsn("table")) as writer:
        yield OtherHost(ServiceLog(writer, reader), connection)
    await connection.close()


async def test_foreign_commit_under_a_running_game(database: Database, keys: KeyFiles, other_host: OtherHost) -> None:
    """As if another host had written in its last moment: this one still owns the game and goes on from there."""
    async with running(database, keys) as service, log_reader(database) as reader:
        script = await four_at_a_table(service, reader)
        for _ in range(5):
            await script.act()
        table, account, request = script.table, script.account, script.request(next(members(script.table.legal)))
        foreign = domain.move(table, table.turn, next(members(table.legal)), Decider.BOT, table.opened_at_us + 1)
        assert isinstance(foreign, Step)
        async with PlayStream(service, SEAT_ACCOUNTS[0], str(script.log.game_id)) as stream:
            assert await stream.read() is not None
            await other_host.append(script.log.game_id, script.log, foreign)
            # Not acknowledged, because it is not in the log.
            assert await refused(service.table(account).Act(request)) == UNAVAILABLE
            end = await stream.read_until(lambda message: message.HasField("closing"))
            assert end.closing == table_pb2.Closing(reason="MOVED", resume_after_version=table.version)
            assert await stream.read() is None
        assert await refused(service.table(account).Act(request)) == Refusal("STALE", grpc.StatusCode.ABORTED)
        assert await script.log.refresh() == foreign.table
        await script.play_out()
        await script.log.assert_sound()


async def test_game_that_another_host_claimed(database: Database, keys: KeyFiles, other_host: OtherHost) -> None:
    """This host notices at its next commit, lets go, and takes the game again when the other is gone."""
    async with running(database, keys) as service, log_reader(database) as reader:
        script = await four_at_a_table(service, reader)
        game_id = script.log.game_id
        account, request = script.account, script.request(next(members(script.table.legal)))
        async with PlayStream(service, SEAT_ACCOUNTS[0], str(game_id)) as stream:
            assert await stream.read() is not None
            epoch = await other_host.claim(game_id)
            fence = domain.resume_clock(script.table, epoch, str(other_host.id), script.table.opened_at_us + 1)
            assert isinstance(fence, Step)
            await other_host.append(game_id, script.log, fence)
            for _ in range(3):
                assert await refused(service.table(account).Act(request)) == UNAVAILABLE
            end = await stream.read_until(lambda message: message.HasField("closing"))
            assert end.closing == table_pb2.Closing(reason="MOVED", resume_after_version=1)
        await script.log.refresh()
        assert script.log.version == fence.commit.version
        await other_host.die()
        # The same command as before, for the decision that is still open.
        async with asyncio.timeout(CALL_SECONDS):
            while (answer := await act_or_wait(service, account, request)) is None:
                await asyncio.sleep(0.2)
        await script.log.refresh()
        # The new epoch's first act comes before everything else.
        resumed = script.log.event(fence.commit.version + 1)
        assert isinstance(resumed, ClockResumed)
        assert resumed.epoch == epoch + 1
        assert answer == fence.commit.version + 2
        await script.play_out()
        await script.log.assert_sound()


async def test_game_that_another_host_had_for_a_moment(
    database: Database, keys: KeyFiles, other_host: OtherHost
) -> None:
    """This host takes it again without having missed it; who watched from before is told to come again."""
    async with running(database, keys) as service, log_reader(database) as reader:
        script = await four_at_a_table(service, reader)
        async with PlayStream(service, SEAT_ACCOUNTS[0], str(script.log.game_id)) as stream:
            assert await stream.read() is not None
            epoch = await other_host.claim(script.log.game_id)
            await other_host.die()
            end = await stream.read_until(lambda message: message.HasField("closing"))
            assert end.closing == table_pb2.Closing(reason="MOVED", resume_after_version=1)
        async with asyncio.timeout(CALL_SECONDS):
            while (await script.log.refresh()).version == 1:
                await asyncio.sleep(0.05)
        resumed = script.log.event(2)
        assert isinstance(resumed, ClockResumed)
        assert resumed.epoch == epoch + 1
        await script.play_out()
        await script.log.assert_sound()


@pytest.mark.parametrize("is_alive", [True, False])
async def test_game_whose_first_create_came_to_nothing(
    database: Database, keys: KeyFiles, other_host: OtherHost, is_alive: bool
) -> None:
    """Another host was about to begin the game and did not: who does begin it owns it, whatever happens to it later."""
    async with running(database, keys) as service, log_reader(database) as reader:
        game_id = await prepare_game(service, variant="1-8-1")
        await other_host.was_about_to_begin(UUID(game_id))
        if not is_alive:
            await other_host.die()
            await other_host.until_lost(UUID(game_id))
        seats = [person(account) for account in SEAT_ACCOUNTS[:4]]
        await service.games.Create(games_pb2.CreateRequest(game_id=game_id, seats=seats, clock=PATIENT))
        script = Script(service, GameLog(reader, game_id))
        await script.log.refresh()
        # A recovery asks whose the game is.
        table, account, request = script.table, script.account, script.request(next(members(script.table.legal)))
        foreign = domain.move(table, table.turn, next(members(table.legal)), Decider.BOT, table.opened_at_us + 1)
        assert isinstance(foreign, Step)
        await other_host.append(script.log.game_id, script.log, foreign)
        assert await refused(service.table(account).Act(request)) == UNAVAILABLE
        await script.log.refresh()
        await script.play_out()
        await script.log.assert_sound()


async def four_at_a_table(service: Service, reader: LogReader) -> Script:
    """A fresh game of four persons."""
    game_id = await create_game(service, people=4, variant="1-8-1", clock=PATIENT)
    script = Script(service, GameLog(reader, game_id))
    await script.log.refresh()
    return script


async def act_or_wait(service: Service, account: str, request: table_pb2.ActRequest) -> int | None:
    """The version of the move's commit; None while nobody hosts the game."""
    try:
        return int((await service.table(account).Act(request)).version)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise
        return None
