"""Balances on `Me.Watch`, live, whatever moves them; and no old one comes back, however late it is heard."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from levata.ledger.v1 import entries_pb2
from levata.me.v1 import me_pb2, updates_pb2
from levata.table.v1 import facts_pb2

from chassis import bus
from chassis.auth import KeyFiles, Signer, Verifier
from chassis.database import Pool, open_pool
from chassis.facts import publish
from chassis.log import NewFact
from chassis.rpc import channel, stub
from chassis.settings import Address
from services.accounts.__main__ import build as build_accounts
from services.ledger.__main__ import build as build_ledger
from services.ledger.domain.journal import (
    COFFEES,
    Balance,
    Cause,
    CauseKind,
    Currency,
    House,
    Transfer,
    pending,
    posted,
)
from services.ledger.settings import LedgerSettings
from services.ledger.store.balances import PostgresBalances
from services.ledger.store.journal import put_down
from tests.accounts import Phone, World, accounts_settings
from tests.conftest import Database
from tests.facts import until
from tests.ledger import CATALOGUE_FILE, COIN, GOLD, finished, of_six, quick_play_created, seat
from tools.embedded.nats import EmbeddedNats
from tools.embedded.process import free_port
from tools.up.service import ServiceProcess

TEST = Cause(CauseKind.GRANT, "test", "test")
WELCOME = dict.fromkeys(COFFEES, (10, 0))


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    async with await open_pool(database.dsn("ledger"), "test") as pool:
        yield pool


@dataclass
class Backend:
    """Accounts and ledger, who know each other, and a table service's log."""

    accounts: World
    entries: Any
    games: Pool

    async def tell(self, fact: facts_pb2.GameFact) -> None:
        """A fact of a game."""
        subject = f"levata.games.{fact.WhichOneof('kind')}.{fact.game_id}"
        async with self.games.acquire() as session, session.transaction():
            await publish(session, [NewFact(subject, fact.SerializeToString())])


@pytest.fixture
async def backend(
    database: Database,
    nats: EmbeddedNats,
    keys: KeyFiles,
    tmp_path: Path,
    start_service: Callable[..., ServiceProcess],
) -> AsyncIterator[Backend]:
    signer, table = Signer.from_file(keys.signing_key), start_service("table")
    address = Address("127.0.0.1", free_port())
    tokens = {service: tmp_path / f"{service}.token" for service in ("accounts", "ledger")}
    for service, file in tokens.items():
        file.write_text(signer.service_token(service, 3600))
    async with AsyncExitStack() as stack:
        settings = accounts_settings(
            database,
            keys,
            tmp_path,
            nats_url=nats.url("accounts"),
            service_token_file=tokens["accounts"],
            peers={"ledger": [str(address)]},
        )
        accounts = await stack.enter_async_context(build_accounts(settings))
        ledger = LedgerSettings(
            service_name="ledger",
            listen=address,
            postgres_dsn=database.dsn("ledger"),
            nats_url=nats.url("ledger"),
            jwks_file=keys.jwks,
            service_token_file=tokens["ledger"],
            # Nobody is at the league's.
            peers={"table": [str(table.address)], "accounts": [str(accounts)], "league": ["127.0.0.1:9"]},
            catalogue_file=CATALOGUE_FILE,
        )
        await stack.enter_async_context(build_ledger(ledger))
        as_matchmaker = await stack.enter_async_context(channel(str(address), signer.service_token("matchmaker", 3600)))
        yield Backend(
            World(settings, database, Verifier.from_file(keys.jwks), str(accounts)),
            stub(as_matchmaker, entries_pb2.DESCRIPTOR.services_by_name["Entries"]),
            await stack.enter_async_context(await open_pool(database.dsn("table"), "test")),
        )


class Watcher:
    """What a client was shown of its balances."""

    def __init__(self) -> None:
        self.shown: list[dict[Currency, tuple[int, int]]] = []

    async def run(self, responses: Any) -> None:
        async for response in responses:
            if response.WhichOneof("kind") == "balances":
                self.shown.append(
                    {Currency(each.currency): (each.free, each.held) for each in response.balances.balances}
                )

    async def until(self, *, coin: tuple[int, int], more: Mapping[Currency, tuple[int, int]] = WELCOME) -> None:
        """Wait until this, free and held, is what there is."""
        expected = dict.fromkeys(Currency, (0, 0)) | {COIN: coin} | dict(more)
        await until(lambda: bool(self.shown) and self.shown[-1] == expected)


@asynccontextmanager
async def watching(phone: Phone) -> AsyncIterator[Watcher]:
    watcher = Watcher()
    async with channel(phone.at, phone.got.access_token, own_connection=True) as opened:
        me = stub(opened, me_pb2.DESCRIPTOR.services_by_name["Me"])
        running = asyncio.create_task(watcher.run(me.Watch(me_pb2.WatchRequest())))
        try:
            yield watcher
        finally:
            running.cancel()
            await asyncio.wait([running])


async def test_whatever_moves_money_is_seen_at_once(backend: Backend) -> None:
    phone = backend.accounts.phone()
    await phone.guest()
    account = UUID(phone.got.account.account_id)
    async with watching(phone) as watcher:
        await watcher.until(coin=(0, 0), more={})
        # A fact of accounts: the welcome.
        await phone.sign_in(f"{uuid4()}@example.com")
        await watcher.until(coin=(1_000, 0))
        # A call of the matchmaker, and a fact of games for what it held.
        game_id, seats = uuid4(), of_six(seat(account, 1))
        entrant = entries_pb2.Entrant(account_id=str(account), room=2)
        await backend.entries.Hold(entries_pb2.HoldRequest(game_id=str(game_id), entrants=[entrant]))
        await watcher.until(coin=(800, 200))
        await backend.tell(quick_play_created(game_id, seats))
        await watcher.until(coin=(800, 0))
        await backend.tell(finished(game_id, seats))
        await watcher.until(coin=(1_300, 0), more=WELCOME | {GOLD: (5, 0)})


async def test_an_update_that_is_heard_late_brings_nothing_back(
    backend: Backend, pool: Pool, nats: EmbeddedNats
) -> None:
    phone = backend.accounts.phone()
    await phone.sign_in(f"{uuid4()}@example.com")
    account = UUID(phone.got.account.account_id)
    hearing = await bus.connect(nats.url("accounts"), "test")
    telling = await bus.connect(nats.url("ledger"), "test")
    heard: list[bytes] = []

    async def on_update(message: Any) -> None:
        heard.append(message.data)

    try:
        await hearing.subscribe(f"levata.me.{account}", cb=on_update)
        await hearing.flush()
        async with watching(phone) as watcher:
            await watcher.until(coin=(1_000, 0))
            entrant = entries_pb2.Entrant(account_id=str(account), room=2)
            for free in (800, 600, 400):
                await backend.entries.Hold(entries_pb2.HoldRequest(game_id=str(uuid4()), entrants=[entrant]))
                await watcher.until(coin=(free, 1_000 - free))
            await until(lambda: len(heard) >= 3)
            numbers = [updates_pb2.Update.FromString(update).number for update in heard]
            assert numbers == sorted(numbers)
            shown = len(watcher.shown)
            for update in (*heard, *reversed(heard)):
                await telling.publish(f"levata.me.{account}", update)
            await telling.flush()
            # What is heard next comes after all of them.
            await backend.entries.Hold(entries_pb2.HoldRequest(game_id=str(uuid4()), entrants=[entrant]))
            await watcher.until(coin=(200, 800))
            assert len(watcher.shown) == shown + 1
    finally:
        await hearing.close()
        await telling.close()


async def test_a_later_moment_has_a_higher_number_if_anything_changed(pool: Pool) -> None:
    """Also where two transactions about the same account overlap, and the one that began first ends last."""
    account, balances = uuid4(), PostgresBalances(pool)

    async def read() -> tuple[int, dict[Currency, Balance]]:
        (owned,) = await balances.of([account])
        return owned.number, owned.balances

    moments = [await read()]
    assert moments[0][1] == {}
    async with pool.acquire() as first, pool.acquire() as second:
        slow = first.transaction()
        await slow.start()
        await put_down(first, [posted(f"slow {account}", TEST, [give(account, COIN)])])
        async with second.transaction():
            await put_down(second, [posted(f"quick {account}", TEST, [give(account, GOLD)])])
        moments.append(await read())
        assert moments[-1][1] == {GOLD: Balance(10)}
        await slow.commit()
        moments.append(await read())
        assert moments[-1][1] == {GOLD: Balance(10), COIN: Balance(10)}
        async with second.transaction():
            take = Transfer(account, House.ENTRIES.value, COIN, 10)
            await put_down(second, [pending(f"held {account}", TEST, [take])])
        moments.append(await read())
    numbers = [number for number, _ in moments]
    assert numbers == sorted(set(numbers))


async def test_any_readers_beside_any_writers_agree_on_the_order_of_what_they_saw(pool: Pool) -> None:
    account, balances = uuid4(), PostgresBalances(pool)
    done = asyncio.Event()

    async def write(nth: int) -> None:
        for step in range(25):
            currency = (COIN, GOLD, *COFFEES)[(nth + step) % 6]
            async with pool.acquire() as session, session.transaction():
                await put_down(session, [posted(f"{account} {nth} {step}", TEST, [give(account, currency)])])

    async def read() -> list[tuple[int, int]]:
        seen = []
        while not done.is_set():
            (owned,) = await balances.of([account])
            seen.append((owned.number, sum(balance.posted for balance in owned.balances.values())))
        return seen

    readers = [asyncio.create_task(read()) for _ in range(3)]
    await asyncio.gather(*(write(nth) for nth in range(4)))
    done.set()
    seen: list[list[tuple[int, int]]] = await asyncio.gather(*readers)
    for each in seen:
        assert each == sorted(each)
    by_number = sorted({moment for each in seen for moment in each})
    assert len(by_number) > 5
    # One number never stands for two states, and a higher one never for an earlier state.
    assert len({number for number, _ in by_number}) == len(by_number)
    assert [owned for _, owned in by_number] == sorted(owned for _, owned in by_number)


def give(account: UUID, currency: Currency) -> Transfer:
    """Out of the blue."""
    return Transfer(House.GRANTS.value, account, currency, 10)
