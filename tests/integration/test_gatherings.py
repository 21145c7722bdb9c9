"""Chat and spectators of a game whose streams are on two replicas: a real Postgres and a real NATS between them."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from uuid import UUID, uuid4

import pytest
from levata.table.v1 import table_pb2

from chassis import bus
from chassis.database import Pool, open_pool
from chassis.errors import Refused
from rules.chat import LINES_MAX
from services.table.app import gatherings as module
from services.table.app.chat import RECENT_LINES, Chat
from services.table.app.gatherings import Gatherings
from services.table.app.ports import Side
from services.table.app.subscription import Subscription
from services.table.domain import SPECTATOR, Mode, Table
from services.table.rpc import messages
from services.table.rpc.gatherings import OtherReplicas
from services.table.store.chat import ChatStore
from services.table.store.database import Store
from tests.conftest import Database
from tests.random_tables import opened
from tools.embedded.nats import EmbeddedNats

PATIENCE = 60
# Seats 0 and 2 are persons.
ANN, CAT = str(UUID(int=1)), str(UUID(int=3))
SPECTATORS = [str(UUID(int=100 + n)) for n in range(1_000)]


@dataclass
class Stream:
    """What one stream was sent."""

    sent: list[table_pb2.WatchResponse] = field(default_factory=list)

    async def write(self, message: bytes) -> None:
        """As grpc's."""
        self.sent.append(table_pb2.WatchResponse.FromString(message))

    @property
    def texts(self) -> list[str]:
        """The lines, as they came."""
        return [message.chat.text for message in self.sent if message.HasField("chat")]

    @property
    def counts(self) -> list[int]:
        """How many watched, as it was told."""
        return [message.watching.spectators for message in self.sent if message.HasField("watching")]


@dataclass
class Replica:
    """The gatherings of one replica."""

    gatherings: Gatherings
    others: OtherReplicas | None
    table: Table

    @contextmanager
    def stream(self, account: str) -> Iterator[Stream]:
        """A stream that reads what it is sent."""
        seat = self.table.seat_of(account)
        subscription = Subscription(SPECTATOR if seat is None else seat, account, 1, b"")
        stream = Stream()
        side = Side.SPECTATORS if seat is None else Side.PLAYERS
        with self.gatherings.joined(self.table, side, account, subscription):
            pump = asyncio.ensure_future(subscription.pump(stream.write))
            yield stream
            pump.cancel()

    @property
    def chat(self) -> Chat:
        """What it knows of the game's chat."""
        return self.gatherings._open[UUID(bytes=self.table.created.game_id)].chat

    async def say(self, account: str, text: str, request_id: UUID | None = None) -> int:
        """A line."""
        return await self.gatherings.say(self.table, account, request_id or uuid4(), text)

    async def mute(self, account: str, other: str, muted: bool = True) -> None:
        """No lines of somebody's, or again."""
        await self.gatherings.mute(self.table, account, UUID(other), muted)


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas compare more often than they would."""
    monkeypatch.setattr(module, "COMPARE_SECONDS", 0.5)
    monkeypatch.setattr(module, "COUNT_SECONDS", 0.1)


@pytest.fixture
async def pool(module_database: Database) -> AsyncIterator[Pool]:
    """Connections of the service."""
    async with await open_pool(module_database.dsn("table"), "test") as pool:
        await pool.execute("delete from chat_speakers")
        yield pool


@pytest.fixture
async def table(pool: Pool) -> Table:
    """A running friendly game with two persons."""
    game_id = uuid4()
    await Store(pool).host_new_game(game_id, uuid4(), [])
    table = opened("oh_hell", "standard", 4, random.randbytes(32)).table
    table.created = replace(table.created, game_id=game_id.bytes)
    return table


@asynccontextmanager
async def replica(pool: Pool, nats: EmbeddedNats | None, table: Table) -> AsyncIterator[Replica]:
    """One replica's gatherings; without NATS it hears nothing of the others."""
    async with AsyncExitStack() as stack:
        others = None
        if nats is not None:
            client = await bus.connect(nats.url("table"), "test")
            stack.push_async_callback(client.close)
            others = OtherReplicas(client, str(uuid4()))
        gatherings = Gatherings(ChatStore(pool), messages, others)
        await gatherings.start()
        stack.push_async_callback(gatherings.stop)
        if others is not None:
            await others.start(gatherings)
        yield Replica(gatherings, others, table)


@pytest.fixture
async def replicas(pool: Pool, nats: EmbeddedNats, table: Table) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two that hear each other."""
    async with replica(pool, nats, table) as one, replica(pool, nats, table) as two:
        yield one, two


async def until(reached: Callable[[], bool]) -> None:
    """Wait for something that must come."""
    async with asyncio.timeout(PATIENCE):
        while not reached():
            await asyncio.sleep(0.02)


async def test_each_side_hears_its_own_lines_on_both_replicas(replicas: tuple[Replica, Replica]) -> None:
    here, there = replicas
    with (
        here.stream(ANN) as ann,
        there.stream(ANN) as anns_phone,
        there.stream(CAT) as cat,
        here.stream(SPECTATORS[0]) as near,
        there.stream(SPECTATORS[1]) as far,
    ):
        for n in range(4):
            assert await (here, there)[n % 2].say(ANN, f"player {n}") == n + 1
            assert await (there, here)[n % 2].say(SPECTATORS[0], f"spectator {n}") == n + 1
        everything = [[f"player {n}" for n in range(4)], [f"spectator {n}" for n in range(4)]]
        await until(lambda: [cat.texts, far.texts] == everything)
        await until(lambda: [ann.texts, near.texts] == everything)
        assert anns_phone.texts == everything[0]
        assert [message.chat.line_no for message in far.sent if message.HasField("chat")] == [1, 2, 3, 4]
        assert {message.chat.account_id for message in far.sent if message.HasField("chat")} == {SPECTATORS[0]}


async def test_a_stream_begins_with_the_last_lines_of_its_side(
    replicas: tuple[Replica, Replica], pool: Pool, table: Table
) -> None:
    here, there = replicas
    store = ChatStore(pool)
    for n in range(RECENT_LINES + 5):
        await store.say(UUID(bytes=table.created.game_id), Side.PLAYERS, uuid4(), uuid4(), f"line {n}")
        # Not in one second, however fast this machine is.
        await pool.execute("update chat_lines set said_at = said_at - interval '1 second'")
    last = [f"line {n}" for n in range(5, RECENT_LINES + 5)]
    with there.stream(ANN) as first:
        # From the store, and the second one from memory.
        await until(lambda: first.texts == last)
        with there.stream(CAT) as second, there.stream(SPECTATORS[0]) as spectator:
            await until(lambda: second.texts == last)
            await here.say(ANN, "and one more")
            await until(lambda: second.texts == [*last, "and one more"] == first.texts)
            assert spectator.texts == []
    with there.stream(CAT) as again:
        await until(lambda: again.texts == [*last[1:], "and one more"])


async def test_lines_that_were_not_told_are_read(replicas: tuple[Replica, Replica], pool: Pool, table: Table) -> None:
    here, there = replicas
    # A replica that is cut off from NATS says lines, and mutes, and nobody is told.
    async with replica(pool, None, table) as silent:
        with there.stream(CAT) as cat:
            await here.say(ANN, "one")
            await until(lambda: cat.texts == ["one"])
            await silent.say(ANN, "two")
            await silent.say(ANN, "three")
            await here.say(ANN, "four")
            # The hole shows at once.
            await until(lambda: cat.texts == ["one", "two", "three", "four"])
            await silent.say(ANN, "five")
            # And what comes last by comparison.
            await until(lambda: cat.texts[4:] == ["five"])
            # So does who is muted.
            await silent.mute(CAT, ANN)
            await until(lambda: there.chat.mute_changes == 1)
            await here.say(CAT, "six")
            await until(lambda: cat.texts[5:] == ["six"])


async def test_mutes_hold_for_all_streams_of_a_person_and_nobody_else(replicas: tuple[Replica, Replica]) -> None:
    here, there = replicas
    ann, bob, eve = SPECTATORS[:3]
    with here.stream(ann) as near, there.stream(ann) as far, there.stream(bob) as other:
        await here.say(eve, "one")
        await until(lambda: near.texts == far.texts == other.texts == ["one"])
        await here.mute(ann, eve)
        # It holds here at once.
        await here.say(eve, "two")
        await until(lambda: other.texts == ["one", "two"])
        assert near.texts == ["one"]
        await until(lambda: there.chat.mute_changes == 1)
        await there.say(bob, "hello")
        await until(lambda: near.texts[-1:] == far.texts[-1:] == other.texts[-1:] == ["hello"])
        await there.say(eve, "three")
        await until(lambda: other.texts[-1:] == ["three"])
        with there.stream(ann) as later:
            await until(lambda: later.texts == ["hello"])
            await there.mute(ann, eve, muted=False)
            await until(lambda: here.chat.mute_changes == 2)
            await here.say(eve, "four")
            await until(lambda: later.texts == ["hello", "four"])
            await until(lambda: near.texts == ["one", "hello", "four"])


async def test_lines_that_are_refused(replicas: tuple[Replica, Replica], table: Table) -> None:
    here, there = replicas

    async def reason(text: str, account: str = ANN, request_id: UUID | None = None) -> str:
        with pytest.raises(Refused) as refused:
            await here.say(account, text, request_id)
        return refused.value.reason

    assert await reason("") == "LINE_EMPTY"
    assert await reason("\u202e \u200b\n") == "LINE_EMPTY"
    assert await reason("x" * 281) == "LINE_TOO_LONG"
    request_id = uuid4()
    assert await here.say(ANN, "👍🏽" * 140, request_id) == 1
    assert await there.say(ANN, "👍🏽" * 140, request_id) == 1
    assert await reason("other", request_id=request_id) == "REQUEST_ID_REUSED"
    for n in range(LINES_MAX - 1):
        await (here, there)[n % 2].say(ANN, "x" * 280)
    assert await reason("too much") == "TOO_MANY_LINES"
    # What is refused for another reason takes nothing from what one may say.
    assert await reason("", account=CAT) == "LINE_EMPTY"
    await here.say(CAT, "hello")
    for mode in (Mode.QUICK_PLAY, Mode.SOLO, Mode.DAILY):
        table.created = replace(table.created, mode=mode)
        assert await reason("hello") == "NO_CHAT_HERE"


async def test_a_thousand_spectators(replicas: tuple[Replica, Replica]) -> None:
    here, there = replicas
    with here.stream(ANN) as ann, there.stream(CAT) as cat:
        async with AsyncExitStack() as stack:
            streams = [
                stack.enter_context((here, there)[n % 2].stream(account)) for n, account in enumerate(SPECTATORS)
            ]
            # Half of them with a second device elsewhere.
            for n, account in enumerate(SPECTATORS[::2]):
                stack.enter_context((there, here)[n % 2].stream(account))
            await until(lambda: ann.counts[-1:] == cat.counts[-1:] == [1_000])
            # Told together, not one by one.
            assert len(ann.counts) < 20
            await here.say(SPECTATORS[0], "<b>hello</b> all")
            await until(lambda: all(stream.texts == ["<b>hello</b> all"] for stream in streams))
            assert all(stream.counts[-1] == 1_000 for stream in streams)
            assert ann.texts == cat.texts == []
        await until(lambda: ann.counts[-1:] == cat.counts[-1:] == [0])
    assert here.gatherings._open == there.gatherings._open == {}


async def test_who_comes_later_is_told_how_many_watch(replicas: tuple[Replica, Replica]) -> None:
    here, there = replicas
    with here.stream(SPECTATORS[0]) as first:
        await until(lambda: first.counts == [1])
        # By the other replica, that had nothing to do with this game before.
        with there.stream(ANN) as ann:
            await until(lambda: ann.counts == [1])
            with there.stream(CAT) as cat:
                await until(lambda: cat.counts == [1])


async def test_quick_play_has_no_gathering(replicas: tuple[Replica, Replica], table: Table) -> None:
    here, _ = replicas
    table.created = replace(table.created, mode=Mode.QUICK_PLAY)
    with here.stream(ANN), here.stream(CAT):
        assert here.gatherings._open == {}
