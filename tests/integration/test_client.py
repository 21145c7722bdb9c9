"""The tools' client against a real table service, over a connection that is cut again and again."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

import grpc
import pytest
from levata.table.v1 import play_pb2, table_pb2

from chassis.auth import KeyFiles
from chassis.errors import reason_of
from tests.conftest import Database
from tests.table_client import SEAT_ACCOUNTS, STRANGER, Service, create_game, running
from tools import patience
from tools.client import Client, Refused
from tools.patience import Disconnected, Lost
from tools.picture import Picture


class Wire:
    """A port in front of another, whose connections can be cut."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Where to call."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Break every connection, whatever is under way on it."""
        for writer in self._open:
            writer.transport.abort()

    async def __aenter__(self) -> "Wire":
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        their_reader, their_writer = await asyncio.open_connection(*self._target)
        self._open |= {writer, their_writer}
        for source, sink in ((reader, their_writer), (their_reader, writer)):
            task = asyncio.create_task(self._carry(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        self._open.discard(sink)
        sink.transport.abort()


@pytest.fixture
async def service(database: Database, keys: KeyFiles) -> AsyncIterator[Service]:
    async with running(database, keys) as started:
        yield started


@pytest.fixture
async def wire(service: Service) -> AsyncIterator[Wire]:
    async with Wire(service.address) as laid:
        yield laid


def client_of(service: Service, wire: Wire, seat: int) -> Client:
    """The client of the person in a seat."""
    return Client(wire.address, service.player_token(SEAT_ACCOUNTS[seat]))


async def snapshot_of(service: Service, account: str, game_id: str) -> Picture:
    """What the server would send who begins to watch now."""
    stream = service.table(account).Watch(table_pb2.WatchRequest(game_id=game_id))
    message = await stream.read()
    stream.cancel()
    picture: Picture = message.snapshot
    return picture


async def test_who_is_there_to_the_last_message_does_not_lose_it(
    service: Service, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bots' last cards are read long after the server has ended the stream, and a sign of life is due at each."""
    monkeypatch.setattr(patience, "HERE_SECONDS", 0.0)

    async def play() -> None:
        game_id = await create_game(service, people=1, seats=6, variant="quick")
        async with client_of(service, wire, 0) as client:
            playing = client.play(game_id)
            async for change in playing.changes():
                assert not isinstance(change, Disconnected), change
                if playing.legal_moves:
                    await playing.act(playing.legal_moves[0])
                elif not playing.picture.view.hand:
                    await asyncio.sleep(0.1)
            assert len(playing.picture.view.scored) == 6

    # Several, for the last card of a game may be one's own.
    await asyncio.gather(*(play() for _ in range(5)))


async def test_two_people_play_to_the_end_over_a_wire_that_is_cut_again_and_again(service: Service, wire: Wire) -> None:
    game_id = await create_game(service, people=2, seats=6, variant="quick")
    chance = random.Random(5)
    cuts = 0

    async def play(seat: int) -> Picture:
        nonlocal cuts
        async with client_of(service, wire, seat) as client:
            playing = client.play(game_id)
            async for change in playing.changes():
                assert not isinstance(change, Refused), change
                cuts += isinstance(change, Disconnected)
                if playing.legal_moves:
                    await playing.act(chance.choice(playing.legal_moves))
                    if cuts == 0 or chance.random() < 0.1:
                        # The move is on its way, and may or may not arrive.
                        wire.cut()
            return playing.picture

    pictures = await asyncio.gather(play(0), play(1))
    assert cuts > 0
    for seat, picture in enumerate(pictures):
        assert len(picture.view.scored) == 6
        expected = await snapshot_of(service, SEAT_ACCOUNTS[seat], game_id)
        expected.view.hand_size = picture.view.hand_size
        assert picture == expected


async def test_a_spectator_waits_for_the_beginning_of_a_delayed_game(service: Service) -> None:
    game_id = await create_game(service, people=1, spectator_delay_seconds=4)
    async with Client(service.address, service.player_token(STRANGER)) as client, asyncio.timeout(20):
        watching = client.watch(game_id)
        # Longer than until the first heartbeat, and over one connection.
        change = await anext(aiter(watching.changes()))
        assert isinstance(change, table_pb2.Snapshot)
        assert change.version == watching.picture.version == 1


async def test_a_watcher_sees_every_commit_once_and_in_order(service: Service, wire: Wire) -> None:
    game_id = await create_game(service, people=1, seats=6, variant="quick")
    versions = []

    async def watch() -> None:
        async with Client(wire.address, service.player_token(STRANGER)) as client:
            async for change in client.watch(game_id).changes():
                if isinstance(change, table_pb2.Snapshot | table_pb2.Commit):
                    versions.append(change.version)
                    if change.version % 40 == 0:
                        wire.cut()

    async def play() -> int:
        async with Client(service.address, service.player_token(SEAT_ACCOUNTS[0])) as client:
            playing = client.play(game_id)
            async for _ in playing.changes():
                if playing.legal_moves:
                    await playing.act(playing.legal_moves[0])
            return playing.picture.version

    _, last = await asyncio.gather(watch(), play())
    assert versions == list(range(versions[0], last + 1))


async def test_a_refused_move_comes_back_with_its_reason_and_one_may_go_on(service: Service, wire: Wire) -> None:
    game_id = await create_game(service, people=4)
    async with client_of(service, wire, 0) as client:
        playing = client.play(game_id)
        changes = playing.changes()
        await anext(changes)
        wrong = play_pb2.Move(play_card=play_pb2.CARD_2C)
        await playing.act(wrong)
        assert playing.legal_moves == []
        refused = await anext(changes)
        assert isinstance(refused, Refused)
        assert (refused.move, refused.reason) == (wrong, "WRONG_PHASE")
        await changes.aclose()


async def test_what_no_repetition_would_mend_is_raised(service: Service, wire: Wire) -> None:
    async with client_of(service, wire, 0) as client:
        with pytest.raises(grpc.aio.AioRpcError) as missing:
            await anext(client.play("00000000-0000-7000-8000-000000000000").changes())
    assert reason_of(missing.value) == "GAME_NOT_FOUND"


async def test_a_server_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "ATTEMPTS_MAX", 2)
    async with Client("127.0.0.1:1", "token") as client:
        changes = client.watch("00000000-0000-7000-8000-000000000000").changes()
        assert isinstance(await anext(changes), Disconnected)
        assert isinstance(await anext(changes), Disconnected)
        with pytest.raises(Lost):
            await anext(changes)
