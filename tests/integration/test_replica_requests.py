"""What replicas ask each other over NATS: taken by the game's host only, in time, and once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import asyncpg
import pytest

from chassis import bus
from chassis.auth import KeyFiles
from chassis.clock import Clock
from chassis.errors import Refused
from chassis.log import LogReader
from rules.cards import members
from services.table.app.replicas import Answer, Answered, Asked, LiveCommit
from services.table.app.requests import Leave, PlayerCommand, Request, Sign, TakeSeat
from services.table.rpc.replicas import NatsReplicas
from tests.conftest import Database
from tests.table_client import CALL_SECONDS, GameLog, Script, Service, create_game, log_reader, running
from tools.embedded.nats import EmbeddedNats

SECOND_US = 1_000_000


@asynccontextmanager
async def replica(nats: EmbeddedNats, serve: Callable[[Asked, Answered], None]) -> AsyncIterator[NatsReplicas]:
    """The NATS side of a replica without games of its own."""
    client = await bus.connect(nats.url("table"), "test")
    replicas = NatsReplicas(client, uuid4())
    await replicas.start(serve)
    yield replicas
    await replicas.stop()
    await client.close()


def refuse_all(_: Asked, answered: Answered) -> None:
    """Nothing is hosted here."""
    answered(None)


@pytest.fixture
async def asker(nats: EmbeddedNats) -> AsyncIterator[NatsReplicas]:
    """A replica that asks."""
    async with replica(nats, refuse_all) as replicas:
        yield replicas


@pytest.fixture
async def service(module_database: Database, keys: KeyFiles, nats: EmbeddedNats) -> AsyncIterator[Service]:
    """A replica with games."""
    async with running(module_database, keys, nats) as started:
        yield started


@pytest.fixture
async def reader(module_database: Database) -> AsyncIterator[LogReader]:
    """Its log."""
    async with log_reader(module_database) as opened:
        yield opened


async def answer(asker: NatsReplicas, host_id: UUID, asked: Asked) -> Answer | None:
    """What comes back."""
    answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
    asker.ask(host_id, asked, answered.set_result)
    async with asyncio.timeout(CALL_SECONDS):
        return await answered


async def test_a_host_takes_only_what_is_its_own_and_in_time(
    service: Service, asker: NatsReplicas, reader: LogReader, module_database: Database
) -> None:
    script = Script(service, GameLog(reader, await create_game(service, people=4)))
    table = await script.log.refresh()
    game_id = script.log.game_id
    connection = await asyncpg.connect(module_database.dsn("table"))
    host_id = await connection.fetchval("select host_id from game_hosts where game_id = $1", game_id)
    await connection.close()
    command = PlayerCommand.of(script.account, str(uuid4()), 1, next(members(table.legal)))
    later_us = Clock().now_us() + 10 * SECOND_US
    asked = Asked(game_id, 1, later_us, command)

    assert await answer(asker, host_id, asked._replace(epoch=2)) is None
    assert await answer(asker, host_id, asked._replace(game_id=uuid4())) is None
    assert await answer(asker, host_id, asked._replace(expires_at_us=Clock().now_us() - SECOND_US)) is None
    assert await answer(asker, uuid4(), asked) is None
    await script.log.refresh()
    assert script.log.version == 1

    # Then it is; and whoever did not get the answer asks again.
    assert await answer(asker, host_id, asked) == Answer(2, False)
    assert await answer(asker, host_id, asked) == Answer(2, True)
    other = PlayerCommand.of(command.account, command.command_id, 1, next(members(table.legal)) + 1)
    refused = await answer(asker, host_id, asked._replace(request=other))
    assert refused is not None
    assert isinstance(refused.outcome, Refused)
    assert refused.outcome.reason == "COMMAND_ID_REUSED"
    late = PlayerCommand.of(command.account, str(uuid4()), 1, command.move)
    refused = await answer(asker, host_id, asked._replace(request=late))
    assert refused is not None
    assert isinstance(refused.outcome, Refused)
    # As at the host: reason, status and what belongs to it.
    assert (refused.outcome.reason, refused.outcome.code.name) == ("STALE", "ABORTED")
    assert refused.outcome.metadata == {"version": "2"}


REQUESTS: list[Request] = [
    PlayerCommand.of("00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002", 1_000_000, 51),
    Leave.of("00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"),
    TakeSeat.of("00000000-0000-4000-8000-000000000001", True, 5, "00000000-0000-4000-8000-000000000002"),
    TakeSeat.of("00000000-0000-4000-8000-000000000001", False, 0, "00000000-0000-4000-8000-000000000002"),
    Sign("00000000-0000-4000-8000-000000000001"),
    Sign("00000000-0000-4000-8000-000000000001", is_close=True),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
async def test_requests_arrive_as_they_were_made(nats: EmbeddedNats, asker: NatsReplicas, request_: Request) -> None:
    heard: list[Asked] = []

    def serve(asked: Asked, answered: Answered) -> None:
        heard.append(asked)
        answered(Answer(7, True))

    async with replica(nats, serve) as host:
        asked = Asked(uuid4(), 2**40, 2**60, request_)
        assert await answer(asker, host._host_id, asked) == Answer(7, True)
        assert heard == [asked]


async def test_many_requests_of_a_moment_are_all_answered(nats: EmbeddedNats, asker: NatsReplicas) -> None:
    """They travel together, and a failing one takes no other with it."""

    def serve(asked: Asked, answered: Answered) -> None:
        if asked.epoch == 3:
            raise AssertionError("a fault of ours")
        answered(Answer(asked.epoch, False))

    async with replica(nats, serve) as host:
        for epochs in (range(1, 6), range(10, 1000)):
            asked = [Asked(uuid4(), epoch, 2**60, REQUESTS[0]) for epoch in epochs]
            answers = await asyncio.gather(*(answer(asker, host._host_id, each) for each in asked))
            assert answers == [None if epoch == 3 else Answer(epoch, False) for epoch in epochs]


async def test_who_never_answers_is_not_waited_for(nats: EmbeddedNats, asker: NatsReplicas) -> None:
    async with replica(nats, lambda asked, answered: None) as host:
        assert await answer(asker, host._host_id, Asked(uuid4(), 1, 2**60, REQUESTS[0])) is None
    assert asker._peers == {}


async def test_whatever_is_announced_once_following_has_begun_is_heard(
    service: Service, asker: NatsReplicas, reader: LogReader
) -> None:
    script = Script(service, GameLog(reader, await create_game(service, people=4)))
    await script.log.refresh()
    heard: list[LiveCommit] = []
    unfollow = await asker.follow(script.log.game_id, heard.append)
    command_id = str(uuid4())
    account, move = script.account, next(members(script.table.legal))
    await script.act(move, command_id)
    async with asyncio.timeout(CALL_SECONDS):
        while not heard:
            await asyncio.sleep(0.01)
    key = PlayerCommand.of(account, command_id, 1, move).name.key
    assert heard == [LiveCommit(script.log.commit(2), key)]
    later: list[LiveCommit] = []
    await asker.follow(script.log.game_id, later.append)
    await unfollow()
    await script.act()
    # Before it is announced, nobody is late for it.
    async with asyncio.timeout(CALL_SECONDS):
        while not later:
            await asyncio.sleep(0.01)
    await asker.follow(script.log.game_id, heard.append)
    assert len(heard) == 1
