"""Facts from their owner to a consumer: on a real Postgres and a real JetStream, each with its service's own rights."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import grpc
import pytest
from levata.facts.v1 import facts_pb2
from nats.aio.msg import Msg

from chassis.auth import KeyFiles, Signer, Verifier
from chassis.database import Session
from chassis.errors import Refused, reason_of
from chassis.facts import (
    GAMES,
    Consumer,
    Fact,
    FactLog,
    FactsService,
    Head,
    Page,
    RemoteFacts,
    State,
    accept_incarnation,
    discard,
    publish,
    rebuild,
    request_retry,
)
from chassis.facts import consumer as consuming
from chassis.facts.store import PAGE_BYTES_MAX
from chassis.facts.stream import headers_of
from chassis.log import AppendResult, GroupWriter, NewFact
from chassis.peers import Peers
from chassis.rpc import Access, Server, channel, stub
from chassis.schema import begin_incarnation
from tests.conftest import Database
from tests.facts import Wiring, keep, until, wired
from tests.streams import Stream
from tools.embedded.nats import EmbeddedNats

SERVICE = facts_pb2.DESCRIPTOR.services_by_name["Facts"]


@pytest.fixture
async def wiring(database: Database, nats: EmbeddedNats, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Wiring]:
    # Patience of tests.
    monkeypatch.setattr(consuming, "COMPARE_SECONDS", 0.3)
    monkeypatch.setattr(consuming, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr(consuming, "RESTART_SECONDS", 0.1)
    monkeypatch.setattr(consuming, "ATTEMPT_PAUSE_SECONDS", 0.01)
    async with wired(database, nats) as wiring:
        yield wiring


# The owner's log


async def test_facts_are_read_in_pages(wiring: Wiring) -> None:
    log = FactLog(wiring.owner)
    assert (await log.read(0)).facts == []
    async with wiring.owner.acquire() as session, session.transaction():
        assert await publish(session, [NewFact(f"levata.games.created.{n}", b"%d" % n) for n in range(1, 8)]) == 7
    page = await log.read(2, 3)
    assert [(fact.number, fact.subject, fact.payload) for fact in page.facts] == [
        (number, f"levata.games.created.{number}", b"%d" % number) for number in (3, 4, 5)
    ]
    assert page.head == await log.head()
    assert page.head.last == 7
    assert (await log.read(7)).facts == []


async def test_a_page_of_big_facts_ends_early_and_is_never_empty(wiring: Wiring) -> None:
    sizes = [PAGE_BYTES_MAX // 2, PAGE_BYTES_MAX // 2, 1, PAGE_BYTES_MAX + 1, 1]
    async with wiring.owner.acquire() as session, session.transaction():
        await publish(session, [NewFact("levata.games.created.g", bytes(size)) for size in sizes])
    lengths = []
    after = 0
    while page := (await FactLog(wiring.owner).read(after)).facts:
        lengths.append(len(page))
        after = page[-1].number
    assert lengths == [2, 1, 1, 1]


async def test_facts_before_a_time_are_final(wiring: Wiring) -> None:
    log = FactLog(wiring.owner)
    await wiring.tell(3)
    at = [fact.at_us for fact in (await log.read(0)).facts]
    assert at == sorted(at)
    assert [(await log.before(time)).last for time in (at[0], at[1], at[2])] == [0, 1, 2]
    assert (await log.before(at[2] + 1)).last == 3
    with pytest.raises(Refused) as refusal:
        await log.before(at[2] + 3_600_000_000)
    assert refusal.value.reason == "NOT_YET"


async def test_a_fact_that_waits_for_the_head_gets_no_time_before_an_answer(database: Database, wiring: Wiring) -> None:
    """Its statement began before t and was held up by the very call that answered for t."""
    async with GroupWriter(database.dsn("table")) as writer, wiring.owner.acquire() as session:
        async with session.transaction():
            await session.execute("select from fact_head for update")
            append = asyncio.create_task(writer.append(Stream().next(facts=1)))
            await until(lambda: _somebody_waits(wiring))
            now_us = await session.fetchval("select (extract(epoch from levata_now()) * 1000000)::bigint")
            assert (await FactLog(session).before(now_us)).last == 0
        assert await append is AppendResult.COMMITTED
    [fact] = (await FactLog(wiring.owner).read(0)).facts
    assert fact.at_us >= now_us
    assert (await FactLog(wiring.owner).before(now_us)).last == 0


async def _somebody_waits(wiring: Wiring) -> bool:
    return bool(await wiring.owner.fetchval("select count(*) from pg_locks where not granted"))


async def test_facts_over_grpc(wiring: Wiring, keys: KeyFiles) -> None:
    last = await wiring.tell(5)
    server = Server(Verifier.from_file(keys.jwks))
    server.add(SERVICE, FactsService(FactLog(wiring.owner)), Access.by("league"))
    port = await server.start("127.0.0.1", 0)
    signer = Signer.from_file(keys.signing_key)
    async with (
        channel(f"127.0.0.1:{port}", signer.service_token("league", 60)) as known,
        channel(f"127.0.0.1:{port}", signer.player_token(str(uuid4()), False, 60)) as player,
        channel("127.0.0.1:1", "") as nobody,
    ):
        # The first replica is away.
        remote = RemoteFacts(Peers([stub(nobody, SERVICE), stub(known, SERVICE)]))
        local = FactLog(wiring.owner)
        assert await remote.head() == await local.head()
        assert await remote.read(2, 2) == await local.read(2, 2)
        assert (await remote.read(last)).facts == []
        before = await stub(known, SERVICE).Before(facts_pb2.BeforeRequest(at_us=1))
        assert before.last == 0
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await stub(known, SERVICE).Before(facts_pb2.BeforeRequest(at_us=2**60))
        assert reason_of(refusal.value) == "NOT_YET"
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await stub(player, SERVICE).Head(facts_pb2.HeadRequest())
        assert reason_of(refusal.value) == "ROLE_REQUIRED"
    await server.stop(0)


# To a consumer


async def test_each_fact_has_its_effect_once_and_in_order(database: Database, wiring: Wiring) -> None:
    """From a row of the log, over JetStream."""
    relay, consumer = wiring.relay(), wiring.consumer()
    await relay.start()
    await consumer.start()
    async with GroupWriter(database.dsn("table"), on_facts=relay.wake) as writer:
        rows = [Stream().next(facts=2) for _ in range(200)]
        assert set(await asyncio.gather(*map(writer.append, rows))) == {AppendResult.COMMITTED}
    await wiring.heard(consumer, 400)
    await until(lambda: relay.status.checkpoint == 400)
    await until(lambda: consumer.status.state is State.CAUGHT_UP and relay.status.state is State.CAUGHT_UP)
    await consumer.stop()
    await relay.stop()
    assert await wiring.effects() == list(range(1, 401))


async def test_facts_that_jetstream_brings_are_not_read_from_the_owner(
    wiring: Wiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine is, what is under way is not taken for lost.
    monkeypatch.setattr(consuming, "SILENT_SECONDS", float("inf"))
    owner = CountingOwner(wiring)
    relay, consumer = wiring.relay(), wiring.consumer(owner=owner)
    await relay.start()
    await consumer.start()
    await until(lambda: consumer._pull.is_open and consumer.status.state is State.CAUGHT_UP)
    await wiring.heard(consumer, await wiring.tell(20))
    assert owner.pages == 0
    await consumer.stop()
    await relay.stop()


async def test_two_relays_at_once_do_no_harm(wiring: Wiring, monkeypatch: pytest.MonkeyPatch) -> None:
    async def always(*_: object) -> bool:
        return True

    monkeypatch.setattr("chassis.lease.Lease.hold", always)
    relays = [wiring.relay(), wiring.relay()]
    consumer = wiring.consumer()
    await consumer.start()
    for relay in relays:
        await relay.start()
    last = await wiring.tell(100)
    await wiring.heard(consumer, last)
    await until(lambda: all(relay.status.checkpoint == last for relay in relays))
    await consumer.stop()
    for relay in relays:
        await relay.stop()
    assert await wiring.effects() == list(range(1, last + 1))


async def test_what_jetstream_never_had_comes_from_the_owner(wiring: Wiring) -> None:
    """No relay runs: the whole log is a lost tail."""
    consumer = wiring.consumer()
    await wiring.tell(5)
    await consumer.start()
    await wiring.heard(consumer, 5)
    await wiring.heard(consumer, await wiring.tell(3))
    await consumer.stop()
    assert await wiring.effects() == list(range(1, 9))


async def test_a_hole_is_filled_from_the_owner_and_lower_numbers_are_acknowledged_unread(
    wiring: Wiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    await GAMES.ensure(wiring.relay_nats)
    consumer = wiring.consumer()
    await consumer.start()
    await until(lambda: consumer._pull.is_open and consumer.status.state is State.CAUGHT_UP)
    # From now on only messages tell.
    monkeypatch.setattr(consumer, "_compare_at", float("inf"))
    await wiring.tell(9)
    log = FactLog(wiring.owner)
    head = await log.head()

    async def send(*numbers: int) -> None:
        for fact in (await log.read(0)).facts:
            if fact.number in numbers:
                headers = headers_of(head.incarnation, fact) | {"Nats-Msg-Id": str(uuid4())}
                await wiring.relay_nats.jetstream().publish(fact.subject, fact.payload, headers=headers)

    await send(1, 4)
    await wiring.heard(consumer, 4)
    await send(2, 4, 1, 3, 9)
    await wiring.heard(consumer, 9)
    await send(3)

    async def nothing_is_unacknowledged() -> bool:
        info = await wiring.consumer_nats.jetstream().consumer_info(GAMES.name, wiring.name)
        return (info.num_ack_pending, info.num_pending) == (0, 0)

    await until(nothing_is_unacknowledged)
    await consumer.stop()
    assert await wiring.effects() == list(range(1, 10))


async def test_messages_that_are_no_facts_are_passed_over(wiring: Wiring) -> None:
    relay, consumer = wiring.relay(), wiring.consumer()
    await relay.start()
    await consumer.start()
    await wiring.heard(consumer, await wiring.tell(1))
    jetstream = wiring.relay_nats.jetstream()
    await jetstream.publish("levata.games.finished.x", b"without headers")
    await jetstream.publish("levata.games.finished.x", b"", headers={"Levata-Fact": "1", "Levata-At": "soon"})
    stranger = Fact(1, "levata.games.finished.x", b"", 0)
    await jetstream.publish(stranger.subject, b"", headers=headers_of(uuid4(), stranger))
    await wiring.heard(consumer, await wiring.tell(3))
    await consumer.stop()
    await relay.stop()
    assert await wiring.effects() == [1, 2, 3, 4]


async def test_a_consumer_that_dies_between_effect_and_acknowledgement_does_nothing_twice(
    wiring: Wiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay, consumer = wiring.relay(), wiring.consumer()
    await relay.start()
    await consumer.start()
    await until(lambda: consumer._pull.is_open)
    dying = asyncio.Event()

    async def die(_: Msg) -> None:
        dying.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(Msg, "ack", die)
        await wiring.tell(5)
        await dying.wait()
        await consumer.stop()
    had = await wiring.effects()
    assert had
    successor = wiring.consumer()
    await successor.start()
    await wiring.heard(successor, await wiring.tell(5))
    await successor.stop()
    await relay.stop()
    assert await wiring.effects() == list(range(1, 11))


async def test_effect_and_checkpoint_are_one_transaction(wiring: Wiring) -> None:
    """The effect is there for a moment, then its transaction fails: neither it nor the checkpoint stays."""
    failed: list[int] = []

    async def keep_and_fail_once(session: Session, fact: Fact) -> None:
        await keep(session, fact)
        if not failed:
            failed.append(fact.number)
            raise ValueError("after the effect")

    consumer = wiring.consumer(keep_and_fail_once)
    await wiring.tell(3)
    await consumer.start()
    await wiring.heard(consumer, 3)
    await consumer.stop()
    assert failed == [1]
    assert await wiring.effects() == [1, 2, 3]
    assert consumer.parked_failures == 0


# Replicas


async def test_of_two_replicas_one_works_and_the_other_takes_over(wiring: Wiring) -> None:
    first, second = wiring.consumer(), wiring.consumer()
    await first.start()
    await wiring.heard(first, await wiring.tell(10))
    await second.start()
    last = await wiring.tell(10)
    # The one in reserve knows as well how it stands.
    await wiring.heard(second, last)
    await first.stop()
    await wiring.heard(second, await wiring.tell(10))
    await second.stop()
    assert await wiring.effects() == list(range(1, 31))


async def test_replicas_that_both_believe_to_hold_the_lease_do_nothing_twice(
    wiring: Wiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def always(*_: object) -> bool:
        return True

    monkeypatch.setattr("chassis.lease.Lease.hold", always)
    replicas = [wiring.consumer() for _ in range(3)]
    for replica in replicas:
        await replica.start()
    for _ in range(10):
        await wiring.tell(20)
        await asyncio.sleep(0.05)
    last = await wiring.tell(1)
    for replica in replicas:
        await wiring.heard(replica, last)
        await replica.stop()
    assert await wiring.effects() == list(range(1, last + 1))


# Facts that fail


async def test_a_parked_fact_keeps_the_order_of_its_key_and_the_rest_goes_on(wiring: Wiring) -> None:
    broken = True

    async def keep_unless_broken(session: Session, fact: Fact) -> None:
        if broken and fact.number == 2:
            raise ValueError("the effect of fact 2 fails")
        await keep(session, fact)

    consumer = wiring.consumer(keep_unless_broken)
    await wiring.tell(1, key="sound")  # 1
    await wiring.tell(2, key="sick")  # 2 and 3
    await wiring.tell(1, key="sound")  # 4
    await wiring.tell(1, key="sick")  # 5
    await consumer.start()
    await wiring.heard(consumer, 5)
    assert await wiring.effects() == [1, 4]
    parked = await wiring.hearer.fetch("select fact_no, key, error, attempts from parked_fact order by fact_no")
    assert [(row["fact_no"], row["key"], row["attempts"]) for row in parked] == [
        (2, "sick", consuming.ATTEMPTS),
        (3, "sick", 0),
        (5, "sick", 0),
    ]
    assert "the effect of fact 2 fails" in parked[0]["error"]
    assert [row["error"] for row in parked[1:]] == [None, None]
    assert consumer.parked_failures == 1

    # Still broken: it fails again, and all stay where they are.
    async with wiring.hearer.acquire() as session:
        assert await request_retry(session, wiring.name, "sick") == 3
    attempts = "select attempts from parked_fact where fact_no = 2"

    async def tried_again() -> bool:
        return bool(await wiring.hearer.fetchval(attempts) == consuming.ATTEMPTS + 1)

    await until(tried_again)
    assert await wiring.effects() == [1, 4]

    broken = False
    async with wiring.hearer.acquire() as session:
        await request_retry(session, wiring.name)

    async def nothing_is_parked() -> bool:
        return not await wiring.hearer.fetchval("select count(*) from parked_fact")

    await until(nothing_is_parked)
    await wiring.heard(consumer, await wiring.tell(1, key="sick"))
    await consumer.stop()
    assert await wiring.effects() == [1, 4, 2, 3, 5, 6]


async def test_a_discarded_fact_frees_those_behind_it(wiring: Wiring) -> None:
    async def keep_but_two(session: Session, fact: Fact) -> None:
        if fact.number == 2:
            # The database's own refusal, which ends its transaction.
            await session.execute("insert into effect (fact_no) values (1)")
        await keep(session, fact)

    consumer = wiring.consumer(keep_but_two)
    await wiring.tell(4)
    await consumer.start()
    await wiring.heard(consumer, 4)
    assert await wiring.effects() == [1]
    async with wiring.hearer.acquire() as session:
        assert await discard(session, wiring.name, 2, "a test fact")
        assert not await discard(session, wiring.name, 2, "twice")

    async def all_but_one() -> bool:
        return await wiring.effects() == [1, 3, 4]

    await until(all_but_one)
    await consumer.stop()
    # The decision stays on record.
    assert await wiring.hearer.fetchval("select discarded from parked_fact") == "a test fact"


async def test_a_consumer_stops_instead_of_parking_everything(wiring: Wiring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consuming, "FAILURES_MAX", 3)
    broken = True

    async def keep_unless_broken(session: Session, fact: Fact) -> None:
        if broken:
            raise ValueError("a bad deploy")
        await keep(session, fact)

    consumer = wiring.consumer(keep_unless_broken)
    for number in range(10):
        await wiring.tell(1, key=f"game{number}")
    await consumer.start()
    await until(lambda: consumer.status.state is State.DEAD)
    assert consumer.status.checkpoint == 3
    assert "facts have failed" in (consumer.status.reason or "")
    broken = False
    async with wiring.hearer.acquire() as session:
        await request_retry(session, wiring.name)
    await wiring.heard(consumer, 10)
    await consumer.stop()
    assert sorted(await wiring.effects()) == list(range(1, 11))


async def test_trouble_of_the_database_parks_nothing(database: Database, wiring: Wiring) -> None:
    admin = await asyncpg.connect(database.admin_dsn)
    cut = 0

    async def keep_and_be_cut_off(session: Session, fact: Fact) -> None:
        nonlocal cut
        if fact.number % 10 == 0 and cut < 5:
            cut += 1
            await admin.execute("select pg_terminate_backend($1)", session.get_server_pid())
        await keep(session, fact)

    consumer = wiring.consumer(keep_and_be_cut_off)
    await wiring.tell(50)
    await consumer.start()
    await wiring.heard(consumer, 50)
    await consumer.stop()
    await admin.close()
    assert cut == 5
    assert await wiring.effects() == list(range(1, 51))
    assert await wiring.hearer.fetchval("select count(*) from parked_fact") == 0


# Other logs


async def test_another_incarnation_is_refused_until_an_operator_accepts_it(database: Database, wiring: Wiring) -> None:
    relay, consumer = wiring.relay(), wiring.consumer()
    await relay.start()
    await consumer.start()
    await wiring.heard(consumer, await wiring.tell(4))

    incarnation = begin_incarnation(database.admin_dsn, "tables")
    assert incarnation.began_after == 4
    await wiring.tell(3)
    await until(lambda: consumer.status.state is State.DEAD)
    assert str(incarnation.id) in (consumer.status.reason or "")
    await until(lambda: relay.status.checkpoint == 7)
    assert await wiring.effects() == [1, 2, 3, 4]

    async with wiring.hearer.acquire() as session:
        await accept_incarnation(session, wiring.name, incarnation.id, incarnation.began_after)
    await wiring.heard(consumer, 7)
    await until(lambda: consumer.status.state is State.CAUGHT_UP)
    await consumer.stop()
    await relay.stop()
    assert await wiring.effects() == list(range(1, 8))


async def test_a_log_that_ends_before_what_was_consumed_is_refused(wiring: Wiring) -> None:
    """A backup was put back and nobody said so."""
    consumer = wiring.consumer()
    await wiring.tell(2)
    await consumer.start()
    await wiring.heard(consumer, 2)
    await consumer.stop()
    await wiring.hearer.execute("update consumer_checkpoint set last = 5")
    await consumer.start()
    await until(lambda: consumer.status.state is State.DEAD)
    assert "ends at 2, before 5" in (consumer.status.reason or "")
    await consumer.stop()


async def test_an_accepted_incarnation_forgets_parked_facts_that_are_gone(wiring: Wiring) -> None:
    async def fail(session: Session, fact: Fact) -> None:
        raise ValueError("always")

    consumer = wiring.consumer(fail)
    await wiring.tell(4)
    await consumer.start()
    await wiring.heard(consumer, 4)
    await consumer.stop()
    async with wiring.hearer.acquire() as session:
        await accept_incarnation(session, wiring.name, uuid4(), 2)
    assert await wiring.hearer.fetchval("select last from consumer_checkpoint") == 2
    parked = await wiring.hearer.fetch("select fact_no from parked_fact order by fact_no")
    assert [row["fact_no"] for row in parked] == [1, 2]


# Rebuilding


async def test_a_projection_is_thrown_away_and_made_again_while_facts_flow(wiring: Wiring) -> None:
    relay, consumer = wiring.relay(), wiring.consumer()
    await relay.start()
    await consumer.start()
    await wiring.heard(consumer, await wiring.tell(30))

    async def clear(session: Session) -> None:
        await session.execute("delete from effect")

    telling = asyncio.create_task(wiring.tell(30))
    async with wiring.hearer.acquire() as session:
        await rebuild(session, wiring.name, clear)
    await telling

    async def is_made_again() -> bool:
        return await wiring.effects() == list(range(1, 61))

    await until(is_made_again)
    await consumer.stop()
    await relay.stop()


# How it stands


async def test_an_owner_that_is_away_does_not_stop_what_jetstream_brings(wiring: Wiring) -> None:
    owner = CountingOwner(wiring)
    relay, consumer = wiring.relay(), wiring.consumer(owner=owner)
    await relay.start()
    await consumer.start()
    await wiring.heard(consumer, await wiring.tell(1))
    owner.away = True
    await wiring.heard(consumer, await wiring.tell(20))
    await until(lambda: "away" in (consumer.status.reason or ""))
    await consumer.stop()
    await relay.stop()


async def test_a_slow_consumer_is_lagging_and_a_stuck_one_is_dead(
    wiring: Wiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = asyncio.Event()

    async def keep_slowly(session: Session, fact: Fact) -> None:
        await stuck.wait()
        await keep(session, fact)

    consumer = wiring.consumer(keep_slowly)
    await wiring.tell(3)
    await consumer.start()
    await until(lambda: consumer.status.state is State.LAGGING and consumer.status.head == 3)
    # Not before, for the start counts as well.
    monkeypatch.setattr(consumer._pulse, "_dead_seconds", 0.5)
    await until(lambda: consumer.status.state is State.DEAD)
    stuck.set()
    await until(lambda: consumer.status.state is State.CAUGHT_UP)
    await consumer.stop()


class CountingOwner:
    """The owner's log, with a count of the pages that were read from it, and an off switch."""

    def __init__(self, wiring: Wiring) -> None:
        self._log = FactLog(wiring.owner)
        self.pages = 0
        self.away = False

    async def head(self) -> Head:
        if self.away:
            raise ConnectionError("away")
        return await self._log.head()

    async def read(self, after: int, limit: int = 1000) -> Page:
        self.pages += 1
        return await self._log.read(after, limit)


def test_consumers_are_named_as_jetstream_wants_it(wiring: Wiring) -> None:
    with pytest.raises(ValueError, match="name"):
        Consumer("league.places", GAMES, FactLog(wiring.owner), wiring.hearer, wiring.consumer_nats, keep)
