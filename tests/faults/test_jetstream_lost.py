"""JetStream is a fast copy that may be lost: its whole store is deleted, again and again, while facts flow."""

import asyncio
import shutil
import signal
import sys
from pathlib import Path

import pytest

from chassis.facts import State
from tests.conftest import Database
from tests.facts import Wiring, until, wired
from tools.embedded.nats import EmbeddedNats

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]


async def tell_until(ended: asyncio.Event, wiring: Wiring) -> int:
    """Tell one fact after the other; answers the last number."""
    last = 0
    while not ended.is_set():
        last = await wiring.tell(1)
        # No more than it takes: all of them are heard in the end.
        await asyncio.sleep(0.01)
    return last


async def test_the_store_is_deleted_while_facts_flow_and_the_consumer_ends_exact(
    database: Database, tmp_path: Path
) -> None:
    nats = EmbeddedNats(tmp_path / "nats")
    nats.start()
    try:
        async with wired(database, nats) as wiring:
            relay, consumer = wiring.relay(), wiring.consumer()
            await relay.start()
            await consumer.start()
            ended = asyncio.Event()
            telling = asyncio.create_task(tell_until(ended, wiring))
            for _ in range(3):
                before = consumer.status.checkpoint
                await until(lambda before=before: consumer.status.checkpoint > before + 50)  # type: ignore[misc]
                nats.kill()
                shutil.rmtree(nats.data_dir / "jetstream")
                # Facts go on without it.
                before = consumer.status.checkpoint
                await until(lambda before=before: consumer.status.checkpoint > before)  # type: ignore[misc]
                nats.start()
            ended.set()
            last = await telling
            await wiring.heard(consumer, last)
            await until(lambda: consumer.status.state is State.CAUGHT_UP and relay.status.state is State.CAUGHT_UP)
            assert await wiring.effects() == list(range(1, last + 1))

            # And JetStream brings facts again, to a stream that is whole from here on.
            await until(lambda: consumer._pull.is_open)
            await wiring.heard(consumer, await wiring.tell(20))
            info = await wiring.consumer_nats.jetstream().stream_info("GAMES")
            assert info.state.messages >= 20
    finally:
        nats.stop()


async def test_consumer_processes_killed_at_any_moment_lose_and_double_nothing(
    database: Database, nats: EmbeddedNats
) -> None:
    async with wired(database, nats) as wiring:
        await wiring.relay().start()
        ended = asyncio.Event()
        telling = asyncio.create_task(tell_until(ended, wiring))
        for life in range(5):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.faults.consumer_process",
                database.dsn("table"), database.dsn("league"), nats.url("league"), wiring.name,
                cwd=ROOT, stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stdout is not None
            # It prints the number of each fact before the effect's transaction has ended.
            for _ in range(20 + 7 * life):
                assert await process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            assert await process.wait() == -signal.SIGKILL
        ended.set()
        last = await telling
        consumer = wiring.consumer()
        await consumer.start()
        await wiring.heard(consumer, last)
        assert await wiring.effects() == list(range(1, last + 1))
