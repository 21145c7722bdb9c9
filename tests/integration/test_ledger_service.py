"""The ledger as a process beside those that it hears: what they tell reaches balances, and tools reach it."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from google.protobuf.message import Message
from levata.accounts.v1 import facts_pb2 as accounts_facts_pb2
from levata.league.v1 import facts_pb2 as league_facts_pb2
from levata.ledger.v1 import entries_pb2, operations_pb2, settlement_pb2

from chassis.auth import KeyFiles, Signer
from chassis.database import open_pool
from chassis.facts import FactLog, publish
from chassis.log import NewFact
from chassis.rpc import channel, stub
from services.ledger.domain.journal import COFFEES
from tests.conftest import NOBODY, Database
from tests.facts import until
from tests.ledger import COIN, GOLD, finished, of_six, owns, quick_play_created, seat
from tools.embedded.part import PartFailed
from tools.up.service import ServiceProcess


async def tell(database: Database, service: str, subject: str, message: Message) -> None:
    """A fact in the log of another service."""
    async with (
        await open_pool(database.dsn(service), "test", connections_max=1) as pool,
        pool.acquire() as session,
        session.transaction(),
    ):
        await publish(session, [NewFact(subject, message.SerializeToString())])


async def test_what_others_tell_reaches_the_balances(
    database: Database, keys: KeyFiles, start_service: Callable[..., ServiceProcess]
) -> None:
    table, accounts = start_service("table"), start_service("accounts")
    league = start_service(
        "league", peers={"table": [table.address], "ledger": [NOBODY], "accounts": [accounts.address]}
    )
    peers = {"table": [table.address], "accounts": [accounts.address], "league": [league.address]}
    ledger = start_service("ledger", peers=peers)
    signer = Signer.from_file(keys.signing_key)
    alice, game_id = uuid4(), uuid4()

    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(await open_pool(database.dsn("ledger"), "test"))

        async def has(**amounts: int) -> None:
            await until(lambda: _has(amounts))

        async def _has(amounts: dict[str, int]) -> bool:
            return {currency.value: amount for currency, amount in (await owns(pool, alice)).items()} == amounts

        registered = accounts_facts_pb2.AccountFact(account_id=str(alice))
        registered.registered.SetInParent()
        await tell(database, "accounts", f"levata.accounts.registered.{alice}", registered)
        coffees = dict.fromkeys((coffee.value for coffee in COFFEES), 10)
        await has(coin=1_000, **coffees)

        to_ledger = await stack.enter_async_context(
            channel(str(ledger.address), signer.service_token("matchmaker", 3600))
        )
        held = await stub(to_ledger, entries_pb2.DESCRIPTOR.services_by_name["Entries"]).Hold(
            entries_pb2.HoldRequest(
                game_id=str(game_id), entrants=[entries_pb2.Entrant(account_id=str(alice), room=2, coffee="coffee_2")]
            )
        )
        assert [(each.refusal, each.coins, each.prize) for each in held.entrants] == [("", 200, 500)]
        seats = of_six(seat(alice, 3, coffee=COFFEES[1]))
        await tell(database, "table", f"levata.games.created.{game_id}", quick_play_created(game_id, seats))
        await tell(database, "table", f"levata.games.finished.{game_id}", finished(game_id, seats))
        await has(**coffees | {COIN.value: 800 + 550, "coffee_2": 9, GOLD.value: 5})

        closed = league_facts_pb2.WeekClosedFact(
            classes=[league_facts_pb2.ClosedClass(name="jack", counted=1, podium_account_ids=[str(alice)])]
        )
        week = league_facts_pb2.LeagueFact(week="2026-11-09", week_closed=closed)
        await tell(database, "league", "levata.league.week_closed.2026-11-09", week)
        await has(**coffees | {COIN.value: 101_350, "coffee_2": 9, GOLD.value: 55})

        as_operator = await stack.enter_async_context(
            channel(str(ledger.address), signer.operator_token("tools", 3600))
        )
        operations = stub(as_operator, operations_pb2.DESCRIPTOR.services_by_name["Operations"])
        steps = [step async for step in operations.Audit(operations_pb2.AuditRequest())]
        done = steps[-1].done
        assert (done.fact, done.games, done.entries, done.differences, done.parked) == (2, 1, 3, 0, 0)
        rebuilt = await operations.Rebuild(operations_pb2.RebuildRequest())
        assert (rebuilt.differences, rebuilt.switched) == (0, True)

        games_log = FactLog(await stack.enter_async_context(await open_pool(database.dsn("table"), "test")))
        as_league = await stack.enter_async_context(channel(str(ledger.address), signer.service_token("league", 3600)))
        settlement = stub(as_league, settlement_pb2.DESCRIPTOR.services_by_name["Settlement"])
        asked = settlement_pb2.SettledRequest(games_incarnation=str((await games_log.head()).incarnation), games_fact=2)
        answer = await settlement.Settled(asked)
        assert (answer.incarnation, answer.last) == (str((await FactLog(pool).head()).incarnation), 1)
        assert not answer.parked


def test_a_wrong_catalogue_is_told_in_a_sentence(start_service: Callable[..., ServiceProcess], tmp_path: Path) -> None:
    with pytest.raises(PartFailed):
        start_service("ledger", settings={"LEVATA_CATALOGUE_FILE": "/nowhere/catalogue.yaml"})
    log = (tmp_path / "ledger.log").read_text()
    assert "ledger: /nowhere/catalogue.yaml: " in log and "Traceback" not in log
