"""Lines in Postgres: numbers without holes, requests that are repeated, and a limit that holds over all replicas."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest

from chassis.database import Pool, open_pool
from rules.chat import CROWD_LINES_MAX, LINES_MAX, LINES_SECONDS
from services.table.app.ports import ChatCounters, ChatLine, Mute, SayResult, Side
from services.table.store.chat import ChatStore
from services.table.store.database import Store
from tests.conftest import Database

ANN, BOB, CAT = (UUID(int=n) for n in (1, 2, 3))


@pytest.fixture
async def pool(module_database: Database) -> AsyncIterator[Pool]:
    """A replica's connections."""
    async with await open_pool(module_database.dsn("table"), "test") as opened:
        yield opened


@pytest.fixture
async def other_pool(module_database: Database) -> AsyncIterator[Pool]:
    """Another replica's."""
    async with await open_pool(module_database.dsn("table"), "test") as opened:
        yield opened


@pytest.fixture
async def game_id(pool: Pool) -> UUID:
    """A running game; nobody in it has spoken lately."""
    game_id = uuid4()
    await Store(pool).host_new_game(game_id, uuid4(), [])
    await pool.execute("delete from chat_speakers")
    return game_id


def said(line: ChatLine | SayResult) -> ChatLine:
    """The line that was taken."""
    assert isinstance(line, ChatLine)
    return line


async def test_each_side_counts_its_own_lines(pool: Pool, game_id: UUID) -> None:
    chat = ChatStore(pool)
    numbers = [
        said(await chat.say(game_id, side, who, uuid4(), "hello")).line_no
        for side, who in (
            (Side.PLAYERS, ANN),
            (Side.SPECTATORS, BOB),
            (Side.PLAYERS, CAT),
            (Side.SPECTATORS, BOB),
            (Side.PLAYERS, ANN),
        )
    ]
    assert numbers == [1, 1, 2, 2, 3]
    assert await chat.counters([game_id, uuid4()]) == {game_id: ChatCounters(3, 2, 0)}
    assert [line.account for line in await chat.lines(game_id, Side.PLAYERS, 0, 50)] == [str(ANN), str(CAT), str(ANN)]
    assert [line.line_no for line in await chat.lines(game_id, Side.PLAYERS, 0, 2)] == [2, 3]
    assert [line.line_no for line in await chat.lines(game_id, Side.PLAYERS, 2, 50)] == [3]
    assert [line.account for line in await chat.lines(game_id, Side.SPECTATORS, 0, 50)] == [str(BOB)] * 2


async def test_what_a_line_says_is_kept_as_it_is(pool: Pool, game_id: UUID) -> None:
    chat = ChatStore(pool)
    text = "'; drop table chats; -- <b>שלום</b> 👨‍👩‍👧‍👦 %s $1 \\ \""
    line = said(await chat.say(game_id, Side.PLAYERS, ANN, uuid4(), text))
    assert line.text == text
    assert await chat.lines(game_id, Side.PLAYERS, 0, 1) == [line]


async def test_a_repetition_gets_the_same_line(pool: Pool, game_id: UUID) -> None:
    chat, request_id = ChatStore(pool), uuid4()
    first = said(await chat.say(game_id, Side.PLAYERS, ANN, request_id, "once"))
    for _ in range(2 * LINES_MAX):
        # Nor does it count against the limit, or hang on where the speaker is by now.
        assert await chat.say(game_id, Side.SPECTATORS, ANN, request_id, "once") == first
    assert await chat.say(game_id, Side.PLAYERS, ANN, request_id, "twice") is SayResult.OTHER_TEXT
    # Requests are each speaker's own.
    assert said(await chat.say(game_id, Side.PLAYERS, BOB, request_id, "twice")).line_no == 2


async def test_repetitions_at_once_are_one_line(pool: Pool, other_pool: Pool, game_id: UUID) -> None:
    request_id = uuid4()
    stores = [ChatStore(pool), ChatStore(other_pool)] * 8
    lines = await asyncio.gather(*(store.say(game_id, Side.PLAYERS, ANN, request_id, "once") for store in stores))
    assert set(lines) == {lines[0]}
    assert await ChatStore(pool).lines(game_id, Side.PLAYERS, 0, 50) == [lines[0]]


async def test_limit_holds_over_games_and_replicas(pool: Pool, other_pool: Pool, game_id: UUID) -> None:
    other_game = uuid4()
    await Store(pool).host_new_game(other_game, uuid4(), [])
    replicas = [ChatStore(pool), ChatStore(other_pool)]
    results = await asyncio.gather(
        *(
            replicas[n % 2].say((game_id, other_game)[n // 2 % 2], Side.PLAYERS, ANN, uuid4(), f"line {n}")
            for n in range(40)
        )
    )
    assert sum(isinstance(result, ChatLine) for result in results) == LINES_MAX
    assert sum(result is SayResult.TOO_MANY for result in results) == 40 - LINES_MAX
    # What was refused has left no hole.
    counters = await replicas[0].counters([game_id, other_game])
    assert sum(each.player_lines for each in counters.values()) == LINES_MAX
    # Others may speak meanwhile.
    assert isinstance(await replicas[1].say(game_id, Side.PLAYERS, BOB, uuid4(), "hello"), ChatLine)


async def test_limit_is_that_of_the_last_seconds(pool: Pool, game_id: UUID) -> None:
    chat = ChatStore(pool)

    async def age(seconds: float) -> None:
        await pool.execute(
            """
            update chat_speakers
            set spoke_at = array(select at - make_interval(secs => $1) from unnest(spoke_at) with ordinality u (at, n)
                                 order by n)
            """,
            seconds,
        )

    async def speak() -> ChatLine | SayResult:
        return await chat.say(game_id, Side.PLAYERS, ANN, uuid4(), "hello")

    said(await speak())
    await age(LINES_SECONDS / 2)
    for _ in range(LINES_MAX - 1):
        said(await speak())
    assert await speak() is SayResult.TOO_MANY
    # The first one is long enough ago now, the others are not.
    await age(LINES_SECONDS / 2)
    said(await speak())
    assert await speak() is SayResult.TOO_MANY
    await age(LINES_SECONDS)
    for _ in range(LINES_MAX):
        said(await speak())
    assert await speak() is SayResult.TOO_MANY


async def test_limit_forgets_a_clock_that_was_set_back(pool: Pool, game_id: UUID) -> None:
    chat = ChatStore(pool)
    for _ in range(LINES_MAX):
        said(await chat.say(game_id, Side.PLAYERS, ANN, uuid4(), "hello"))
    assert await chat.say(game_id, Side.PLAYERS, ANN, uuid4(), "hello") is SayResult.TOO_MANY
    await pool.execute(
        "update chat_speakers set spoke_at = array(select at + interval '1 week' from unnest(spoke_at) u (at))"
    )
    said(await chat.say(game_id, Side.PLAYERS, ANN, uuid4(), "hello"))


async def test_a_crowd_is_not_heard_faster_than_it_can_be_read(pool: Pool, game_id: UUID) -> None:
    chat = ChatStore(pool)
    results = []
    for _ in range(2 * CROWD_LINES_MAX):
        results.append(await chat.say(game_id, Side.SPECTATORS, uuid4(), uuid4(), "hurrah"))
        # All within a second, however slow this machine is.
        await pool.execute("update chat_lines set said_at = levata_now() where game_id = $1", game_id)
    assert [isinstance(result, ChatLine) for result in results] == [True] * CROWD_LINES_MAX + [False] * CROWD_LINES_MAX
    assert set(results[CROWD_LINES_MAX:]) == {SayResult.CROWDED}
    # The other side is none of the crowd.
    said(await chat.say(game_id, Side.PLAYERS, ANN, uuid4(), "hello"))
    await pool.execute("update chat_lines set said_at = said_at - interval '1 second' where game_id = $1", game_id)
    assert said(await chat.say(game_id, Side.SPECTATORS, BOB, uuid4(), "again")).line_no == CROWD_LINES_MAX + 1


async def test_mutes(pool: Pool, game_id: UUID) -> None:
    chat = ChatStore(pool)
    assert await chat.mutes(game_id) == []
    for _ in range(2):
        assert await chat.mute(game_id, ANN, BOB, True, mutes_max=1)
    assert not await chat.mute(game_id, ANN, CAT, True, mutes_max=1)
    assert await chat.mute(game_id, BOB, CAT, True, mutes_max=1)
    assert sorted(await chat.mutes(game_id)) == [Mute(str(ANN), str(BOB)), Mute(str(BOB), str(CAT))]
    before = (await chat.counters([game_id]))[game_id].mute_changes
    for _ in range(2):
        assert await chat.mute(game_id, ANN, BOB, False, mutes_max=1)
    assert await chat.mutes(game_id) == [Mute(str(BOB), str(CAT))]
    assert (await chat.counters([game_id]))[game_id].mute_changes > before


async def test_nothing_is_left_of_a_game_that_is_over(pool: Pool, game_id: UUID) -> None:
    chat = ChatStore(pool)
    said(await chat.say(game_id, Side.PLAYERS, ANN, uuid4(), "hello"))
    await chat.mute(game_id, ANN, BOB, True, mutes_max=9)
    await Store(pool).mark_over(game_id)
    assert await chat.lines(game_id, Side.PLAYERS, 0, 50) == []
    assert await chat.mutes(game_id) == []
    assert await chat.counters([game_id]) == {}
    assert await chat.say(game_id, Side.PLAYERS, ANN, uuid4(), "still there?") is SayResult.GAME_OVER
    assert await chat.say(uuid4(), Side.PLAYERS, ANN, uuid4(), "anybody?") is SayResult.GAME_OVER


async def test_house_is_kept(pool: Pool, game_id: UUID) -> None:
    chat = ChatStore(pool)
    over = uuid4()
    await Store(pool).host_new_game(over, uuid4(), [])
    said(await chat.say(game_id, Side.PLAYERS, ANN, uuid4(), "hello"))
    # A mute that crossed the game's end.
    await Store(pool).mark_over(over)
    await chat.mute(over, ANN, BOB, True, mutes_max=9)
    await pool.execute("insert into chat_speakers values ($1, array[levata_now() - interval '1 minute'])", CAT)
    await chat.keep_house()
    assert await chat.mutes(over) == []
    assert len(await chat.lines(game_id, Side.PLAYERS, 0, 50)) == 1
    assert [row[0] for row in await pool.fetch("select account_id from chat_speakers")] == [ANN]
