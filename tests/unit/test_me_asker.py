"""Questions for many feeds: what goes together, what goes first, and what one feed does not do to another."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from uuid import UUID

import grpc
import pytest
from levata.me.v1 import me_pb2, updates_pb2

from chassis.errors import Refused
from services.accounts.me import asker
from services.accounts.me.asker import AT_ONCE, NOT_FULL_AT_ONCE, Asker
from services.accounts.me.feed import ACCOUNT, Feed
from services.accounts.me.sources import ACCOUNTS_MAX, Answer
from services.accounts.me.stream import Stream

PATIENCE_SECONDS = 20
NO_ACCOUNT = Refused("ACCOUNT_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "There is no such account.")
NOT_NOW = Refused("INTERNAL", grpc.StatusCode.INTERNAL, "Something went wrong here.")


def told(account_id: UUID, name: str = "Zoë", number: int = 1) -> updates_pb2.Update:
    return updates_pb2.Update(number=number, account=me_pb2.Account(account_id=str(account_id), name=name))


class Question:
    """One that was put, and is answered when the test says so."""

    def __init__(self, account_ids: Sequence[UUID]) -> None:
        self.account_ids = account_ids
        self.answer: asyncio.Future[Sequence[Answer]] = asyncio.get_running_loop().create_future()

    def __len__(self) -> int:
        return len(self.account_ids)

    def be_answered(self, otherwise: Mapping[UUID, Answer] | None = None) -> None:
        """With every account, or something else for some."""
        answers: Mapping[UUID, Answer] = {each: [told(each)] for each in self.account_ids} | dict(otherwise or {})
        self.answer.set_result([answers[each] for each in self.account_ids])


class SlowSource:
    """Answers when it is told to."""

    topic = ACCOUNT

    def __init__(self) -> None:
        self.questions: list[Question] = []

    async def snapshots(self, account_ids: Sequence[UUID]) -> Sequence[Answer]:
        question = Question(account_ids)
        self.questions.append(question)
        return await question.answer

    async def asked(self, count: int) -> list[Question]:
        """The next so many questions, once all of them were put; no more are."""
        await until(lambda: len(self.questions) >= count)
        await settled()
        questions, self.questions = self.questions, []
        assert len(questions) == count
        return questions


@pytest.fixture
def source() -> SlowSource:
    return SlowSource()


@pytest.fixture
async def asking(source: SlowSource, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asker]:
    monkeypatch.setattr(asker, "RETRY_SECONDS", 0.0)
    asking = Asker(source)
    yield asking
    await asking.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0)


async def settled() -> None:
    """All that can happen by itself has happened."""
    for _ in range(20):
        await asyncio.sleep(0)


def opened(count: int, first: int = 0) -> list[Feed]:
    """Feeds, each with a stream."""
    feeds = [Feed(UUID(int=number, version=4), [ACCOUNT]) for number in range(first, first + count)]
    for feed in feeds:
        feed.join(0.0)
    return feeds


def stream_of(feed: Feed) -> Stream:
    (stream,) = feed.streams
    return stream


def shown(feed: Feed) -> list[str | None]:
    """The kinds of what waits for a feed's stream."""
    return [me_pb2.WatchResponse.FromString(each).WhichOneof("kind") for each in stream_of(feed)._waiting.values()]


async def all_busy(asking: Asker, source: SlowSource) -> list[Question]:
    """As many questions as there can be without being full are under way, for feeds of their own."""
    for feed in opened(NOT_FULL_AT_ONCE, first=1_000_000):
        asking.want(feed)
        await settled()
    return await source.asked(NOT_FULL_AT_ONCE)


async def test_a_lone_feed_is_asked_for_at_once(asking: Asker, source: SlowSource) -> None:
    (feed,) = opened(1)
    asking.want(feed)
    (question,) = await source.asked(1)
    question.be_answered()
    await until(lambda: shown(feed) == ["account", "status"])


async def test_feeds_that_wait_go_together_so_many_in_a_question(asking: Asker, source: SlowSource) -> None:
    busy = await all_busy(asking, source)
    feeds = opened(ACCOUNTS_MAX + 3)
    for feed in feeds[: ACCOUNTS_MAX - 1]:
        asking.want(feed)
    await settled()
    assert not source.questions
    for feed in feeds[ACCOUNTS_MAX - 1 :]:
        asking.want(feed)
    (full,) = await source.asked(1)
    assert list(full.account_ids) == [feed.account_id for feed in feeds[:ACCOUNTS_MAX]]
    full.be_answered()
    await settled()
    assert not source.questions
    busy[0].be_answered()
    (rest,) = await source.asked(1)
    assert list(rest.account_ids) == [feed.account_id for feed in feeds[ACCOUNTS_MAX:]]
    rest.be_answered()
    await until(lambda: all(shown(feed) == ["account", "status"] for feed in feeds))


async def test_full_questions_are_bounded_too(asking: Asker, source: SlowSource) -> None:
    feeds = opened((AT_ONCE + 1) * ACCOUNTS_MAX)
    for feed in feeds:
        asking.want(feed)
    questions = await source.asked(AT_ONCE)
    assert [len(question) for question in questions] == [ACCOUNTS_MAX] * AT_ONCE
    questions[0].be_answered()
    (last,) = await source.asked(1)
    assert list(last.account_ids) == [feed.account_id for feed in feeds[-ACCOUNTS_MAX:]]


async def test_who_waits_goes_before_all_that_is_refreshed_and_alone(asking: Asker, source: SlowSource) -> None:
    old, new = opened(3), opened(2, first=10)
    for feed in old:
        asking.want(feed)
    (question,) = await source.asked(1)
    question.be_answered()
    await settled()
    one, other = await all_busy(asking, source)
    asking.refresh(1.0)
    # One of them is wanted by somebody who has just come.
    waiting = (*new, old[1])
    for feed in waiting:
        asking.want(feed)
    one.be_answered()
    (question,) = await source.asked(1)
    assert list(question.account_ids) == [feed.account_id for feed in waiting]
    other.be_answered()
    question.be_answered()
    (question,) = await source.asked(1)
    # The other two, and those that were asked for last.
    assert list(question.account_ids) == [old[0].account_id, old[2].account_id, *one.account_ids, *other.account_ids]


async def test_who_waits_does_not_wait_for_a_refresh_that_stalls(asking: Asker, source: SlowSource) -> None:
    old, more, new = opened(2), opened(2, first=10), opened(1, first=20)
    for feed in (*old, *more):
        asking.want(feed)
    (question,) = await source.asked(1)
    question.be_answered()
    await settled()
    asking.refresh(1 / 2)
    (stalled,) = await source.asked(1)
    assert list(stalled.account_ids) == [feed.account_id for feed in old]
    asking.refresh(1 / 2)
    await settled()
    assert not source.questions
    asking.want(new[0])
    (question,) = await source.asked(1)
    assert list(question.account_ids) == [new[0].account_id]


async def test_there_is_one_question_at_a_time_for_a_feed(asking: Asker, source: SlowSource) -> None:
    one, other = opened(2)
    asking.want(one)
    (first,) = await source.asked(1)
    asking.want(one)
    asking.want(other)
    asking.refresh(1.0)
    (beside,) = await source.asked(1)
    assert list(beside.account_ids) == [other.account_id]
    # What is heard meanwhile belongs to the question that is under way, and is newer than its answer.
    one.hear(told(one.account_id, "Zoe", number=7))
    first.be_answered()
    (second,) = await source.asked(1)
    assert list(second.account_ids) == [one.account_id]
    assert me_pb2.WatchResponse.FromString(next(iter(stream_of(one)._waiting.values()))).account.name == "Zoe"


async def test_who_is_no_more_is_refused_and_the_others_are_answered(asking: Asker, source: SlowSource) -> None:
    busy = await all_busy(asking, source)
    one, gone, failing, other = feeds = opened(4)
    for feed in feeds:
        asking.want(feed)
    for question in busy:
        question.be_answered()
    (question,) = await source.asked(1)
    question.be_answered({gone.account_id: NO_ACCOUNT, failing.account_id: NOT_NOW})
    (again,) = await source.asked(1)
    assert list(again.account_ids) == [failing.account_id]
    assert [shown(feed) for feed in (one, failing, other)] == [["account", "status"], ["status"], ["account", "status"]]
    assert (shown(gone), stream_of(gone)._refused) == ([], NO_ACCOUNT)
    assert [stream_of(feed)._refused for feed in (one, failing, other)] == [None] * 3
    again.be_answered()
    await until(lambda: shown(failing) == ["account", "status"])


@pytest.mark.parametrize("failure", [OSError("away"), NO_ACCOUNT, None], ids=["error", "refusal", "too few answers"])
async def test_a_question_that_fails_is_missed_by_all_and_put_again_to_those_who_are_still_there(
    failure: Exception | None, asking: Asker, source: SlowSource
) -> None:
    busy = await all_busy(asking, source)
    one, closed, other = feeds = opened(3)
    for feed in feeds:
        asking.want(feed)
    for question in busy:
        question.be_answered()
    (question,) = await source.asked(1)
    if failure is None:
        question.answer.set_result([[told(one.account_id)]])
    else:
        question.answer.set_exception(failure)
    await until(lambda: all(shown(feed) == ["status"] for feed in feeds))
    assert [stream_of(feed)._refused for feed in feeds] == [None] * 3
    asking.forget(closed)
    (again,) = await source.asked(1)
    assert list(again.account_ids) == [one.account_id, other.account_id]
    again.be_answered()
    await until(lambda: all(shown(feed) == ["account", "status"] for feed in (one, other)))


async def test_who_has_left_is_not_asked_for(asking: Asker, source: SlowSource) -> None:
    busy = await all_busy(asking, source)
    left, there = opened(2)
    asking.want(left)
    asking.want(there)
    asking.forget(left)
    busy[0].be_answered()
    (question,) = await source.asked(1)
    assert list(question.account_ids) == [there.account_id]


async def test_those_who_came_all_at_once_are_refreshed_at_an_even_pace(asking: Asker, source: SlowSource) -> None:
    feeds = opened(40)
    for feed in feeds:
        asking.want(feed)
    for question in await source.asked(1):
        question.be_answered()
    await settled()
    for _ in range(2):
        in_turn: list[UUID] = []
        for _ in range(8):
            asking.refresh(1 / 8)
            (question,) = await source.asked(1)
            assert len(question) == 5
            question.be_answered()
            await settled()
            in_turn += question.account_ids
        assert in_turn == [feed.account_id for feed in feeds]


async def test_few_feeds_are_not_asked_for_at_every_look(asking: Asker, source: SlowSource) -> None:
    feeds = opened(3)
    for feed in feeds:
        asking.want(feed)
    (question,) = await source.asked(1)
    question.be_answered()
    await settled()
    asked: list[int] = []
    for _ in range(8):
        asking.refresh(1 / 8)
        await settled()
        asked.append(sum(map(len, source.questions)))
        for question in source.questions:
            question.be_answered()
        source.questions.clear()
        await settled()
    # Three eighths a look, and nothing is lost of them.
    assert asked == [0, 0, 1, 0, 0, 1, 0, 1]


async def test_who_was_just_asked_for_is_refreshed_last(asking: Asker, source: SlowSource) -> None:
    one, two, three = feeds = opened(3)
    for feed in (*feeds, one):
        asking.want(feed)
        await settled()
        for question in source.questions:
            if not question.answer.done():
                question.be_answered()
        await settled()
    source.questions.clear()
    asking.refresh(2 / 3)
    (question,) = await source.asked(1)
    assert list(question.account_ids) == [two.account_id, three.account_id]
