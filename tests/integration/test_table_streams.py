"""Streams of a game: nothing lost, doubled or shown too early, whoever joins, lags, leaves or is cut off."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any
from uuid import UUID

import grpc
import pytest
from levata.table.v1 import games_pb2, table_pb2

from chassis.auth import KeyFiles, Signer
from chassis.log import LogReader
from rules.cards import members
from services.table import __main__
from services.table.__main__ import build
from services.table.app import presence, subscription
from services.table.app.host import Host
from services.table.rpc.messages import move_message
from services.table.store.database import Store
from tests.conftest import Database
from tests.table_client import (
    CALL_SECONDS,
    SEAT_ACCOUNTS,
    STRANGER,
    GameLog,
    Player,
    PlayStream,
    Refusal,
    Script,
    Service,
    create_game,
    log_reader,
    refused,
    running,
    settings_for,
)
from tools.faults.link import Link

JOINS = 200
WATCHES = 1_000
VIEWERS = (*SEAT_ACCOUNTS[:2], STRANGER)
PATIENT = games_pb2.ClockOptions(bid_seconds=3600, card_seconds=3600)


@pytest.fixture
async def service(module_database: Database, keys: KeyFiles) -> AsyncIterator[Service]:
    """A table service."""
    async with running(module_database, keys) as started:
        yield started


@pytest.fixture
async def reader(module_database: Database) -> AsyncIterator[LogReader]:
    """The service's log."""
    async with log_reader(module_database) as opened:
        yield opened


async def read_to_the_end(stream: Any) -> list[Any]:
    """What is left of a stream."""
    messages = []
    while (message := await stream.read()) is not grpc.aio.EOF:
        messages.append(message)
    return messages


async def read_raw(stream: Any) -> list[bytes]:
    """A raw stream to its end."""
    return await read_to_the_end(stream)


def parsed(message: bytes) -> table_pb2.WatchResponse:
    """A message of a raw stream."""
    return table_pb2.WatchResponse.FromString(message)


async def read_next(stream: Any, kind: str = "commit") -> bytes:
    """The next message of a kind on a raw stream; how many watch is told in between."""
    async with asyncio.timeout(CALL_SECONDS):
        while (message := parsed(raw := await stream.read())).WhichOneof("kind") == "watching":
            pass
    assert message.WhichOneof("kind") == kind
    return bytes(raw)


def commits_only(messages: list[bytes]) -> list[bytes]:
    """Without snapshots and heartbeats."""
    return [message for message in messages if parsed(message).WhichOneof("kind") == "commit"]


async def test_resume_gives_exactly_the_missed_commits_as_they_were_sent(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=2, variant="1-8-1", clock=PATIENT)
    viewers = [*SEAT_ACCOUNTS[:2], STRANGER]
    live = [asyncio.create_task(read_raw(service.raw_watch(account, game_id))) for account in viewers]
    await asyncio.gather(*(Player(service, account, game_id).watch_to_the_end() for account in SEAT_ACCOUNTS[:2]))
    log = GameLog(reader, game_id)
    await log.refresh()
    for account, stream in zip(viewers, live, strict=True):
        sent = commits_only(await stream)
        # Some commits may have come before the snapshot.
        first = parsed(sent[0]).commit.version
        assert [parsed(message).commit.version for message in sent] == list(range(first, log.version + 1))
        for after in {1, first - 1, first, log.version // 2, log.version - 1} - {0}:
            resumed = await read_raw(service.raw_watch(account, game_id, after))
            assert [parsed(message).commit.version for message in resumed] == list(range(after + 1, log.version + 1))
            overlap = min(len(sent), len(resumed))
            assert resumed[-overlap:] == sent[-overlap:]
        # Nothing is missing at the newest version, and the stream of a finished game ends.
        assert await read_raw(service.raw_watch(account, game_id, log.version)) == []


async def test_resume_in_a_running_game(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=4, variant="1-8-1", clock=PATIENT)
    script = Script(service, GameLog(reader, game_id))
    watcher = service.raw_watch(STRANGER, game_id)
    assert parsed(await watcher.read()).snapshot.version == 1
    await script.log.refresh()
    sent = []
    for _ in range(40):
        await script.act()
        sent.append(await read_next(watcher))
    for after in (1, 2, 17, 40):
        resumed = service.raw_watch(STRANGER, game_id, after)
        assert [await read_next(resumed) for _ in sent[after - 1 :]] == sent[after - 1 :]
        # And on from there.
        await script.act()
        sent.append(await read_next(watcher))
        assert await read_next(resumed) == sent[-1]
        resumed.cancel()
    watcher.cancel()


class Inviting(Player):
    """A player at whose commits others begin to watch, from nothing or from a version a little before."""

    def __init__(self, service: Service, account: str, game_id: str, chance: random.Random) -> None:
        super().__init__(service, account, game_id)
        self._service = service
        self._chance = chance
        # Viewer, version and messages.
        self.joined: list[tuple[str, int, asyncio.Task[list[bytes]]]] = []

    def take(self, message: table_pb2.WatchResponse | table_pb2.PlayResponse) -> None:
        super().take(message)
        if len(self.joined) < JOINS and self._chance.random() < 0.6:
            viewer = self._chance.choice(VIEWERS)
            after = self._chance.choice((0, max(self.version - self._chance.randrange(20), 1)))
            stream = self._service.raw_watch(viewer, self.game_id, after)
            self.joined.append((viewer, after, asyncio.create_task(read_raw(stream))))


async def test_joining_at_any_moment_loses_and_doubles_nothing(service: Service) -> None:
    """While bots and two scripts play as fast as they can."""
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201 - pytest shows it when the test fails
    game_id = await create_game(service, people=2, variant="1-8-1", clock=PATIENT)
    inviting = Inviting(service, SEAT_ACCOUNTS[0], game_id, random.Random(seed))
    await asyncio.gather(inviting.watch_to_the_end(), Player(service, SEAT_ACCOUNTS[1], game_id).watch_to_the_end())
    assert len(inviting.joined) == JOINS
    whole = {viewer: await read_raw(service.raw_watch(viewer, game_id, 1)) for viewer in VIEWERS}
    for viewer, after, stream in inviting.joined:
        messages = await stream
        begin = after or parsed(messages[0]).snapshot.version
        assert begin > 0
        assert commits_only(messages) == whole[viewer][begin - 1 :]


async def test_silence_is_filled_with_heartbeats(service: Service) -> None:
    game_id = await create_game(service, people=4, clock=PATIENT)
    async with PlayStream(service, SEAT_ACCOUNTS[0], game_id) as play:
        watch = service.raw_watch(STRANGER, game_id)
        assert parsed(await watch.read()).WhichOneof("kind") == "snapshot"
        for _ in range(2):
            message = parsed(await read_next(watch, "heartbeat"))
            assert message == table_pb2.WatchResponse(heartbeat=table_pb2.Heartbeat(version=1))
        await play.read_until(lambda message: message.heartbeat.version == 1)
        watch.cancel()


async def test_slow_reader_is_cut_off_and_resumes(
    service: Service, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "QUEUE_MAX", 16)
    # It reads once the game is over.
    monkeypatch.setattr(subscription, "LINGER_SECONDS", 300.0)
    game_id = await create_game(service, people=2, seats=6, variant="quick", clock=PATIENT)
    # The smallest window: what the slow one does not read soon waits in the server.
    options = [("grpc.http2.lookahead_bytes", 1), ("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(service.address, options) as channel:
        start: Any = channel.unary_stream(
            "/levata.table.v1.Table/Watch",
            request_serializer=table_pb2.WatchRequest.SerializeToString,
            response_deserializer=table_pb2.WatchResponse.FromString,
        )
        slow = start(
            table_pb2.WatchRequest(game_id=game_id),
            metadata=[("authorization", f"Bearer {service.player_token(STRANGER)}")],
        )
        snapshot = await slow.read()
        await asyncio.gather(*(Player(service, account, game_id).watch_to_the_end() for account in SEAT_ACCOUNTS[:2]))
        messages = await read_to_the_end(slow)
    version = snapshot.snapshot.version
    for message in messages[:-1]:
        # It may have come to be told that it is there itself.
        if not message.HasField("watching"):
            version += 1
            assert message.commit.version == version
    assert messages[-1].closing.reason == "LAGGING"
    log = GameLog(reader, game_id)
    await log.refresh()
    assert version < log.version
    resumed = await read_raw(service.raw_watch(STRANGER, game_id, version))
    assert [parsed(message).commit.version for message in resumed] == list(range(version + 1, log.version + 1))


async def test_half_closed_play_stream_goes_on(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=4, variant="1-8-1", clock=PATIENT)
    script = Script(service, GameLog(reader, game_id))
    table = await script.log.refresh()
    async with PlayStream(service, script.account, game_id) as stream:
        answer = await stream.act(move_message(next(members(table.legal))), table.version)
        assert answer.commit.version == 2
        await stream.half_close()
        await script.log.refresh()
        for version in range(3, 20):
            await script.act()
            message = await stream.read()
            assert message is not None
            assert message.commit.version == version
        await script.play_out()
        while await stream.read() is not None:
            pass
        assert stream.messages[-1].commit.version == script.table.version


async def test_moves_come_on_the_other_streams_without_the_command_id(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=4, variant="1-8-1", clock=PATIENT)
    script = Script(service, GameLog(reader, game_id))
    table = await script.log.refresh()
    async with (
        PlayStream(service, script.account, game_id) as mine,
        PlayStream(service, script.account, game_id) as my_other_device,
    ):
        assert await my_other_device.read() is not None
        answer = await mine.act(move_message(next(members(table.legal))), 1)
        assert answer.commit.command_id
        copy = await my_other_device.read()
        assert copy is not None
        assert copy.commit.command_id == ""
        answer.commit.command_id = ""
        assert copy == answer


async def test_cancelled_watches_leave_nothing_behind(
    database: Database, keys: KeyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams that clients leave, while they are silent, while they catch up, and before they begin."""
    hosts: list[Host] = []

    class SeenHost(Host):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            hosts.append(self)

    monkeypatch.setattr(__main__, "Host", SeenHost)
    async with running(database, keys) as service:
        await leave_many_watches(service, *hosts)


async def test_watches_that_are_reset_or_fall_silent_leave_nothing_behind(
    database: Database, keys: KeyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams of clients that vanish without a word of theirs: their connection is reset, or swallows everything."""
    hosts: list[Host] = []

    class SeenHost(Host):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            hosts.append(self)

    monkeypatch.setattr(__main__, "Host", SeenHost)
    # Nobody says anything, and the game must last.
    monkeypatch.setattr(presence, "GRACE_US", 3_600_000_000)
    settings = settings_for(database, keys)
    vigilant = replace(settings.limits, keepalive_ms=500, keepalive_timeout_ms=3000)
    async with build(settings.model_copy(update={"limits": vigilant})) as address:
        near = Service(str(address), Signer.from_file(keys.signing_key))
        game_id = await create_game(near, people=2, variant="1-8-1", clock=PATIENT)
        game = hosts[0].games[UUID(game_id)]
        link = Link("clients", address)
        await link.start()
        tasks_before = len(asyncio.all_tasks())
        for vanish in (link.cut, link.hold):
            far = Service(str(link.address), near.signer)
            watches = [far.raw_watch(STRANGER, game_id, number % 2) for number in range(100)]
            await asyncio.gather(*(watch.read() for watch in watches[:50]))
            while len(game.audience.subscriptions) < 100:
                await asyncio.sleep(0.02)
            vanish()
            await until(lambda: not game.audience.subscriptions)
            link.mend()
            link.cut()
            await far.close()
            await until(lambda: len(asyncio.all_tasks()) <= tasks_before)
        await link.stop()
        await near.close()


async def until(true: Callable[[], bool]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(CALL_SECONDS):
        while not true():
            await asyncio.sleep(0.02)


async def leave_many_watches(service: Service, host: Host) -> None:
    """Begin and cancel; then there are as many tasks, subscriptions and free connections as before."""
    game_id = await create_game(service, people=2, variant="1-8-1", clock=PATIENT)
    player = Player(service, SEAT_ACCOUNTS[0], game_id)
    started = player.watch()
    player.take(await started.read())
    game = host.games[UUID(game_id)]
    tasks_before = len(asyncio.all_tasks())
    for _ in range(WATCHES // 100):
        watches = [service.raw_watch(STRANGER, game_id, number % 2) for number in range(100)]
        await asyncio.gather(*(watch.read() for watch in watches[:50]))
        for watch in watches:
            watch.cancel()
    assert isinstance(host.store, Store)
    pool = host.store._pool
    async with asyncio.timeout(CALL_SECONDS):
        # Heartbeats come and go meanwhile.
        while (
            len(game.audience.subscriptions) > 1
            or len(asyncio.all_tasks()) > tasks_before
            or pool.get_idle_size() < pool.get_size()
        ):
            await asyncio.sleep(0.02)
    started.cancel()


async def test_stopping_service_tells_streams_where_to_resume(database: Database, keys: KeyFiles) -> None:
    async with log_reader(database) as reader:
        async with AsyncExitStack() as stack:
            address = await stack.enter_async_context(build(settings_for(database, keys)))
            service = Service(str(address), Signer.from_file(keys.signing_key))
            game_id = await create_game(service, people=4, variant="1-8-1", clock=PATIENT)
            script = Script(service, GameLog(reader, game_id))
            watch, fresh = service.raw_watch(STRANGER, game_id), service.raw_watch(SEAT_ACCOUNTS[1], game_id)
            await script.log.refresh()
            play = PlayStream(service, SEAT_ACCOUNTS[0], game_id)
            async with play:
                assert await play.read() is not None
                assert [parsed(await stream.read()).snapshot.version for stream in (watch, fresh)] == [1, 1]
                for _ in range(5):
                    await script.act()
                streams = [asyncio.create_task(read_raw(stream)) for stream in (watch, fresh)]
                closed = asyncio.create_task(play.read_until(lambda message: message.HasField("closing")))
                await asyncio.sleep(0.1)
                await stack.aclose()
                draining = table_pb2.Closing(reason="DRAINING", resume_after_version=script.table.version)
                assert (await closed).closing == draining
                for stream in streams:
                    messages = await stream
                    assert parsed(messages[-1]).closing == draining
                    assert len(commits_only(messages)) == 5
            await service.close()
        async with running(database, keys) as service:
            player = Player(service, SEAT_ACCOUNTS[1], game_id)
            player.version = script.table.version
            watch = await patient_watch(player)
            # The new host's first act.
            message = await watch.read()
            assert [event.WhichOneof("kind") for event in message.commit.events] == ["clock_resumed"]
            assert message.commit.version == script.table.version + 1
            watch.cancel()


async def patient_watch(player: Player) -> Any:
    """A stream, once the game is hosted again."""
    async with asyncio.timeout(CALL_SECONDS):
        while True:
            try:
                await player.table.Here(table_pb2.HereRequest(game_id=player.game_id))
                return player.watch()
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                await asyncio.sleep(0.2)


# What is shown when


async def test_replay_of_a_running_game_is_for_its_seats_only(service: Service, reader: LogReader) -> None:
    game_id = await create_game(service, people=4, variant="1-8-1", clock=PATIENT)
    script = Script(service, GameLog(reader, game_id))
    await script.log.refresh()
    for _ in range(30):
        await script.act()
    own = table_pb2.ReplayRequest(game_id=game_id)
    running_game = Refusal("GAME_RUNNING", grpc.StatusCode.PERMISSION_DENIED)
    assert await refused(service.table(STRANGER).Replay(own)) == running_game
    assert await refused(service.with_service_token().Replay(own)) == running_game
    for seat in range(4):
        account = SEAT_ACCOUNTS[seat]
        for other in range(4):
            request = table_pb2.ReplayRequest(game_id=game_id, seat=other)
            if other != seat:
                assert await refused(service.table(account).Replay(request)) == running_game
        no_such_seat = table_pb2.ReplayRequest(game_id=game_id, seat=4)
        assert await refused(service.table(account).Replay(no_such_seat)) == Refusal(
            "NO_SUCH_SEAT", grpc.StatusCode.INVALID_ARGUMENT
        )
        replayed = [response async for response in service.table(account).Replay(own)]
        watched = service.raw_watch(account, game_id, 1)
        assert [response.chain for response in replayed] == [b""] * script.log.version
        for response in replayed[1:]:
            assert response.commit == parsed(await watched.read()).commit
        assert not any(event.dealt.hands for response in replayed for event in response.commit.events)
        watched.cancel()


async def test_seed_chain_and_nonces_come_out_only_after_the_end(service: Service, reader: LogReader) -> None:
    game_id = await create_game(
        service, people=2, variant="1-8-1", clock=PATIENT, nonces=[b"nonce-of-a-seat-%d" % seat for seat in range(4)]
    )
    player = Player(service, SEAT_ACCOUNTS[1], game_id)
    streams = [
        asyncio.create_task(read_raw(service.raw_watch(viewer, game_id))) for viewer in (STRANGER, SEAT_ACCOUNTS[0])
    ]
    log = GameLog(reader, game_id)
    await log.refresh()
    secrets = [log.table.created.secret.server_seed, *log.table.created.secret.nonces]
    assert len(set(secrets)) == 5
    early = b"".join(
        [
            response.SerializeToString()
            async for response in service.table(SEAT_ACCOUNTS[0]).Replay(table_pb2.ReplayRequest(game_id=game_id))
        ]
    )
    early += (await service.table(SEAT_ACCOUNTS[0]).List(table_pb2.ListRequest())).SerializeToString()
    await asyncio.gather(player.watch_to_the_end(), Player(service, SEAT_ACCOUNTS[0], game_id).watch_to_the_end())
    await log.refresh()
    secrets += [row.chain for row in log.rows]
    for stream in streams:
        *before, end = await stream
        assert parsed(end).commit.events[-1].finished.server_seed == secrets[0]
        assert list(parsed(end).commit.events[-1].finished.nonces) == secrets[1:5]
        assert not any(secret in b"".join([early, *before]) for secret in secrets)
    # Everything, to anybody.
    open_replay = [
        response async for response in service.table(STRANGER).Replay(table_pb2.ReplayRequest(game_id=game_id))
    ]
    assert [response.chain for response in open_replay] == [row.chain for row in log.rows]
    dealt = [event.dealt for response in open_replay for event in response.commit.events if event.HasField("dealt")]
    assert all(len(each.hands) == 4 and len(each.hands[0].cards) == each.hand_size for each in dealt)
