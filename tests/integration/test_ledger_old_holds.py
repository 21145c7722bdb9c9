"""Entries of games that nobody creates or cancels: the ledger has them settled, and their facts end the holds."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import grpc
import pytest
import pytest_asyncio
from levata.ledger.v1 import entries_pb2
from levata.table.v1 import games_pb2, table_pb2

from chassis.auth import KeyFiles, Signer
from chassis.database import Pool, open_pool
from chassis.errors import reason_of
from chassis.rpc import channel, stub
from services.ledger.domain.journal import Balance
from tests.conftest import NOBODY, Database
from tests.facts import until
from tests.ledger import give, has, sums
from tools.up.service import ServiceProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

# After so long a hold is old here.
OLD_SECONDS = 0.5
ENTRY = 200


@dataclass
class Backend:
    """Table and ledger as processes, and who calls them in the matchmaker's place."""

    table: ServiceProcess
    games: Any
    entries: Any
    ledger: Pool
    ledger_log: Path

    async def prepare(self) -> str:
        """A game's id."""
        request = games_pb2.PrepareRequest(
            request_id=str(uuid4()), game_type="euchre", seats=4, mode=table_pb2.MODE_QUICK_PLAY
        )
        prepared = await self.games.Prepare(request)
        return str(prepared.game_id)

    async def hold(self, game_id: str) -> UUID:
        """Somebody's entry."""
        account = uuid4()
        await give(self.ledger, account, ENTRY)
        entrant = entries_pb2.Entrant(account_id=str(account), room=2)
        held = await self.entries.Hold(entries_pb2.HoldRequest(game_id=game_id, entrants=[entrant]))
        assert [each.refusal for each in held.entrants] == [""]
        return account

    async def create(self, game_id: str, account: UUID) -> bool:
        """Begin the game; whether it is one."""
        seats = [games_pb2.SeatSetup(account=games_pb2.AccountSeat(account_id=str(account), room=2, coins=ENTRY))]
        seats += [games_pb2.SeatSetup(bot=games_pb2.BotSeat()) for _ in range(3)]
        try:
            await self.games.Create(games_pb2.CreateRequest(game_id=game_id, seats=seats))
        except grpc.aio.AioRpcError as error:
            if reason_of(error) != "GAME_CANCELLED":
                raise
            return False
        return True

    async def until_ended(self, account: UUID) -> Balance:
        """What somebody has once nothing is held any more."""

        async def is_free() -> bool:
            return (await has(self.ledger, account)).held == 0

        await until(is_free)
        return await has(self.ledger, account)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend(
    module_database: Database,
    module_start_service: Callable[..., ServiceProcess],
    keys: KeyFiles,
) -> AsyncIterator[Backend]:
    table, accounts = module_start_service("table"), module_start_service("accounts")
    league = module_start_service(
        "league", peers={"table": [table.address], "ledger": [NOBODY], "accounts": [accounts.address]}
    )
    ledger = module_start_service(
        "ledger",
        peers={"table": [table.address], "accounts": [accounts.address], "league": [league.address]},
        settings={"LEVATA_OLD_HOLD_SECONDS": str(OLD_SECONDS)},
    )
    token = Signer.from_file(keys.signing_key).service_token("matchmaker", 3600)
    async with AsyncExitStack() as stack:
        to_table = await stack.enter_async_context(channel(str(table.address), token))
        to_ledger = await stack.enter_async_context(channel(str(ledger.address), token))
        assert ledger.log_path is not None
        yield Backend(
            table,
            stub(to_table, games_pb2.DESCRIPTOR.services_by_name["Games"]),
            stub(to_ledger, entries_pb2.DESCRIPTOR.services_by_name["Entries"]),
            await stack.enter_async_context(await open_pool(module_database.dsn("ledger"), "test")),
            ledger.log_path,
        )


async def test_entries_of_a_game_that_nobody_creates_are_given_back_and_it_never_will_be_one(backend: Backend) -> None:
    game_id = await backend.prepare()
    account = await backend.hold(game_id)
    # In the journal, where it stays: the hold itself may be over by now.
    held = await backend.ledger.fetch(
        "select debit, amount from entry join transfer using (number) where kind = 'pending' and cause_id = $1", game_id
    )
    assert [tuple(row) for row in held] == [(account, ENTRY)]
    assert await backend.until_ended(account) == Balance(ENTRY)
    assert not await backend.create(game_id, account)


async def test_a_game_that_is_created_meanwhile_has_its_entries_and_no_other_has(backend: Backend) -> None:
    """Creation comes about when the ledger asks, before and after: whichever was first decides, for the coins too."""

    async def play(wait_seconds: float) -> None:
        game_id = await backend.prepare()
        account = await backend.hold(game_id)
        await asyncio.sleep(wait_seconds)
        is_game = await backend.create(game_id, account)
        assert await backend.until_ended(account) == Balance(0 if is_game else ENTRY)

    await asyncio.gather(*(play(0.1 * nth) for nth in range(12)))
    assert await sums(backend.ledger) == {0}


async def test_a_game_that_the_table_service_does_not_know_holds_up_no_other(backend: Backend) -> None:
    unknown, known = str(uuid4()), await backend.prepare()
    lost, account = await backend.hold(unknown), await backend.hold(known)
    assert await backend.until_ended(account) == Balance(ENTRY)
    # Time alone ends nothing.
    assert await has(backend.ledger, lost) == Balance(ENTRY, ENTRY)
    await until(lambda: unknown in backend.ledger_log.read_text())
    rows = await backend.ledger.fetch("select ask_again_at from game_entry where game_id = $1", UUID(unknown))
    assert rows[0]["ask_again_at"] is not None


async def test_while_the_table_service_is_away_entries_are_held(backend: Backend) -> None:
    game_id = await backend.prepare()
    backend.table.stop()
    account = await backend.hold(game_id)
    await until(lambda: "old holds cannot be settled now" in backend.ledger_log.read_text())
    assert await has(backend.ledger, account) == Balance(ENTRY, ENTRY)
    backend.table.start()
    assert await backend.until_ended(account) == Balance(ENTRY)
