"""The close of a week from end to end: games that finish, the ledger that pays for them, the league that closes the
week by both logs under a moved clock, and the rewards; and a rebuild of all of it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import grpc
import psycopg
import pytest
from levata.accounts.v1 import facts_pb2 as accounts_facts_pb2
from levata.league.v1 import league_pb2, operations_pb2, standings_pb2
from levata.me.v1 import updates_pb2
from levata.table.v1 import facts_pb2
from nats.aio.msg import Msg

from chassis import bus
from chassis.auth import KeyFiles, Signer
from chassis.database import Pool, open_pool
from chassis.errors import reason_of
from chassis.facts import ACCOUNTS, GAMES, Relay, publish
from chassis.log import NewFact
from chassis.rpc import channel, stub
from chassis.settings import Address
from services.league.__main__ import build as build_league
from services.league.settings import LeagueSettings
from services.ledger.__main__ import build as build_ledger
from services.ledger.settings import LedgerSettings
from tests.conftest import Database
from tests.facts import serve_facts, until
from tests.ledger import CATALOGUE_FILE, COIN, finished, of_six, owns, seat
from tools.embedded.nats import EmbeddedNats
from tools.embedded.process import free_port

ALICE, BOB, CAROL = (UUID(int=number, version=4) for number in (1, 2, 3))
# Clocks are moved over weeks.
TOKEN_SECONDS = 60 * 86_400


@dataclass
class World:
    """A league and a ledger, and the logs of games and accounts that they hear."""

    database: Database
    games: Pool
    relay: Relay
    accounts: Pool
    accounts_relay: Relay
    ledger: Pool
    league: Pool
    signer: Signer
    # The league's replicas: the first is asked, the others only work.
    settings: list[LeagueSettings]
    replicas: AsyncExitStack

    @property
    def address(self) -> str:
        """Where the league is asked."""
        return str(self.settings[0].listen)

    async def start_league(self) -> None:
        """Start all replicas."""
        for settings in self.settings:
            await self.replicas.enter_async_context(build_league(settings))

    async def stop_league(self) -> None:
        """Stop all replicas."""
        await self.replicas.aclose()

    async def play(self, *seats: facts_pb2.FinishedSeat) -> UUID:
        """A game of quick play finishes now."""
        game_id = uuid4()
        await self.tell(finished(game_id, of_six(*seats)))
        return game_id

    async def tell(self, fact: facts_pb2.GameFact) -> int:
        """Append a fact to the games' log."""
        subject = f"levata.games.{fact.WhichOneof('kind')}.{fact.game_id}"
        async with self.games.acquire() as session, session.transaction():
            number = await publish(session, [NewFact(subject, fact.SerializeToString())])
        self.relay.wake()
        return number

    async def delete(self, account: UUID) -> None:
        """An account is deleted now."""
        fact = accounts_facts_pb2.AccountFact(account_id=str(account), deleted=accounts_facts_pb2.AccountDeletedFact())
        async with self.accounts.acquire() as session, session.transaction():
            await publish(session, [NewFact(f"levata.accounts.deleted.{account}", fact.SerializeToString())])
        self.accounts_relay.wake()

    def move_clock_to(self, moment: datetime) -> None:
        """All services' clocks."""
        with psycopg.connect(self.database.admin_dsn, autocommit=True) as admin:
            for schema in ("tables", "ledger", "league", "accounts"):
                admin.execute(f"update {schema}.clock_offset set amount = %s - clock_timestamp()", [moment])

    async def closed(self) -> list[date]:
        """Closed weeks."""
        return [row["week"] for row in await self.league.fetch("select week from week_close order by week")]

    async def points(self, account: UUID) -> int:
        """Prizes won in the week that runs, as the league tells."""
        (rank,) = (await self.ranks(account)).ranks
        (row,) = await self.league.fetch(
            "select coalesce(sum(points), 0) as points from score where account_id = $1", account
        )
        assert (rank.place > 0) <= (row["points"] > 0)
        return int(row["points"])

    async def ranks(self, *accounts: UUID) -> standings_pb2.RanksResponse:
        """What other services are told."""
        async with channel(self.address, self.signer.service_token("matchmaker", TOKEN_SECONDS)) as opened:
            service = stub(opened, standings_pb2.DESCRIPTOR.services_by_name["Standings"])
            answer: standings_pb2.RanksResponse = await service.Ranks(
                standings_pb2.RanksRequest(account_ids=map(str, accounts))
            )
            return answer

    def as_player(self, account: UUID) -> Any:
        """The public API."""
        token = self.signer.player_token(str(account), False, TOKEN_SECONDS)
        return stub(channel(self.address, token), league_pb2.DESCRIPTOR.services_by_name["League"])

    async def rebuild(self, *, dry_run: bool = False) -> operations_pb2.RebuildDone:
        """Make the league's projection anew."""
        async with channel(self.address, self.signer.operator_token("tools", TOKEN_SECONDS)) as opened:
            operations = stub(opened, operations_pb2.DESCRIPTOR.services_by_name["Operations"])
            steps = [step async for step in operations.Rebuild(operations_pb2.RebuildRequest(dry_run=dry_run))]
        assert not [step for step in steps if step.WhichOneof("kind") == "difference"], steps
        done: operations_pb2.RebuildDone = steps[-1].done
        return done


@asynccontextmanager
async def running(database: Database, nats: EmbeddedNats, keys: KeyFiles, leagues: int = 1) -> AsyncIterator[World]:
    """Both services and what they hear."""
    signer = Signer.from_file(keys.signing_key)
    tokens = {service: keys.jwks.with_name(f"{service} for weeks.token") for service in ("league", "ledger")}
    for service, file in tokens.items():
        file.write_text(signer.service_token(service, TOKEN_SECONDS))
    async with AsyncExitStack() as stack:
        games, relay, games_at = await serve_facts(stack, database, nats, keys, "table", GAMES)
        accounts, accounts_relay, accounts_at = await serve_facts(stack, database, nats, keys, "accounts", ACCOUNTS)
        league_port, ledger_port = free_port(), free_port()
        peers = {
            "table": [games_at],
            "accounts": [accounts_at],
            "ledger": [f"127.0.0.1:{ledger_port}"],
            "league": [f"127.0.0.1:{league_port}"],
        }

        def told(service: str, port: int) -> dict[str, Any]:
            return {
                "service_name": service,
                "listen": Address("127.0.0.1", port),
                "postgres_dsn": database.dsn(service),
                "nats_url": nats.url(service),
                "jwks_file": keys.jwks,
                "service_token_file": tokens[service],
                "peers": peers,
            }

        ledger_settings = LedgerSettings(**told("ledger", ledger_port), catalogue_file=CATALOGUE_FILE)
        await stack.enter_async_context(build_ledger(ledger_settings))
        settings = [
            LeagueSettings(**told("league", league_port if first else 0), catalogue_file=CATALOGUE_FILE)
            for first in (True, *[False] * (leagues - 1))
        ]
        replicas = await stack.enter_async_context(AsyncExitStack())
        ledger = await stack.enter_async_context(await open_pool(database.dsn("ledger"), "test", connections_max=2))
        league = await stack.enter_async_context(await open_pool(database.dsn("league"), "test", connections_max=2))
        world = World(database, games, relay, accounts, accounts_relay, ledger, league, signer, settings, replicas)
        await world.start_league()
        yield world


def monday_after(moment: datetime) -> datetime:
    """When the next week begins."""
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + timedelta(days=7 - moment.weekday())


async def test_weeks_are_closed_by_both_logs_rewarded_once_and_rebuilt_to_the_same(
    database: Database, nats: EmbeddedNats, keys: KeyFiles
) -> None:
    async with running(database, nats, keys, leagues=3) as world:
        # The last second of a week.
        boundary = monday_after(datetime.now(UTC)) + timedelta(days=7)
        week = (boundary - timedelta(days=7)).date()
        world.move_clock_to(boundary - timedelta(seconds=60))
        await world.play(seat(ALICE, 1), seat(BOB, 2))
        await world.play(seat(ALICE, 3))
        await until(lambda: _is(world.points(ALICE), 500 + 275))
        assert await world.closed() == []

        world.move_clock_to(boundary + timedelta(seconds=1))
        await world.play(seat(CAROL, 1))
        await until(lambda: _is(world.closed(), [week]))
        await until(lambda: _is(_coins(world, ALICE), 775 + 100_000))
        assert await _coins(world, BOB) == 350 + 80_000
        await until(lambda: _is(_coins(world, CAROL), 500))
        await until(lambda: _is(world.points(CAROL), 500))
        (alice, carol) = (await world.ranks(ALICE, CAROL)).ranks
        assert (getattr(alice, "class"), alice.place, getattr(carol, "class"), carol.place) == ("queen", 0, "jack", 1)
        assert alice.xp > 0 and alice.level == 1 and alice.standing < carol.standing
        done = await world.rebuild()
        assert done.switched and done.ledger_fact >= 4

        # Off over two week ends: each is closed, once, in its turn.
        await world.stop_league()
        world.move_clock_to(boundary + timedelta(days=15))
        await world.play(seat(BOB, 1))
        await until(lambda: _is(_coins(world, BOB), 350 + 80_000 + 500))
        assert await world.closed() == [week]
        await world.start_league()
        await until(lambda: _is(world.closed(), [week + timedelta(days=7) * nth for nth in range(3)]))
        await until(lambda: _is(_coins(world, CAROL), 500 + 100_000))
        await until(lambda: _is(world.points(BOB), 350 + 500))
        told = await world.league.fetch("select subject from facts where subject like '%week_closed%' order by fact_no")
        assert len(told) == len({row["subject"] for row in told}) == 3
        assert (await world.rebuild()).switched

        # What players see.
        weeks = (await world.as_player(ALICE).ListWeeks(league_pb2.ListWeeksRequest())).weeks
        assert [(each.week, getattr(each, "class"), each.place, each.points, each.closed) for each in weeks] == [
            (week.isoformat(), "jack", 1, 775, True)
        ]
        board = league_pb2.Board(league=league_pb2.LeagueBoard(week=week.isoformat()))
        setattr(board.league, "class", "jack")
        standing = await world.as_player(BOB).GetStanding(league_pb2.GetStandingRequest(board=board, neighbours=1))
        assert (standing.own.place, [line.account_id for line in standing.around]) == (2, [str(ALICE), str(BOB)])
        explained = await world.as_player(ALICE).Explain(league_pb2.ExplainRequest(score=board))
        assert (explained.total, sum(cause.amount for cause in explained.causes)) == (775, 775)
        xp = await world.as_player(ALICE).Explain(league_pb2.ExplainRequest(xp=league_pb2.XpNumber()))
        assert (xp.total, sum(cause.amount for cause in xp.causes)) == (alice.xp, alice.xp)
        board.league.week = "2026-11-10"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await world.as_player(BOB).GetStanding(league_pb2.GetStandingRequest(board=board))
        assert reason_of(refused.value) == "INVALID_REQUEST"


async def test_who_is_deleted_is_named_nowhere_and_the_others_keep_their_places(
    database: Database, nats: EmbeddedNats, keys: KeyFiles
) -> None:
    async with running(database, nats, keys) as world:
        boundary = monday_after(datetime.now(UTC)) + timedelta(days=7)
        week = (boundary - timedelta(days=7)).date()
        world.move_clock_to(boundary - timedelta(seconds=60))
        await world.play(seat(ALICE, 1), seat(BOB, 2), seat(CAROL, 3))
        await until(lambda: _is(world.points(CAROL), 275))
        await world.delete(ALICE)
        await until(lambda: _is(_is_known(world, ALICE), False))
        assert await _is_known(world, BOB)
        # The ledger, which is not to reward her, hears of it by itself.
        await until(lambda: _is(world.ledger.fetchval("select account_id from deleted_account"), ALICE))

        world.move_clock_to(boundary + timedelta(seconds=1))
        await until(lambda: _is(world.closed(), [week]))
        # What would have been Alice's lapses, and nobody moves up.
        await until(lambda: _is(_coins(world, BOB), 350 + 80_000))
        await until(lambda: _is(_coins(world, CAROL), 275 + 60_000))
        assert await _coins(world, ALICE) == 500
        assert (await world.rebuild()).switched
        assert not await _is_known(world, ALICE)


async def test_clients_are_told_of_their_standing_when_it_changes_and_when_they_ask(
    database: Database, nats: EmbeddedNats, keys: KeyFiles
) -> None:
    async with running(database, nats, keys) as world:
        client = await bus.connect(nats.admin_url, "operator")
        heard: list[updates_pb2.Update] = []

        async def hear(message: Msg) -> None:
            heard.append(updates_pb2.Update.FromString(message.data))

        await client.subscribe(f"levata.me.{ALICE}", cb=hear)
        await client.flush()
        await world.play(seat(ALICE, 1), seat(BOB, 2))
        await until(lambda: any(update.standing.points == 500 and update.standing.place == 1 for update in heard))
        last = max((update for update in heard if update.HasField("standing")), key=lambda update: update.number)
        async with channel(world.address, world.signer.service_token("accounts", TOKEN_SECONDS)) as opened:
            service = stub(opened, updates_pb2.DESCRIPTOR.services_by_name["Snapshots"])
            (now,) = (await service.Snapshot(updates_pb2.SnapshotRequest(account_id=str(ALICE)))).updates
        assert now.number >= last.number
        assert (now.standing.points, now.standing.place, getattr(now.standing, "class")) == (500, 1, "jack")
        await client.close()


async def _is(asked: Any, wanted: object) -> bool:
    return bool(await asked == wanted)


async def _is_known(world: World, account: UUID) -> bool:
    """Whether players are told of an account, both what it has reached and what it has played."""
    league, known = world.as_player(BOB), []
    for ask, request in (
        (league.GetProfile, league_pb2.GetProfileRequest(account_id=str(account))),
        (league.GetRecord, league_pb2.GetRecordRequest(account_id=str(account))),
    ):
        try:
            await ask(request)
        except grpc.aio.AioRpcError as error:
            if reason_of(error) != "ACCOUNT_NOT_FOUND":
                raise
            known.append(False)
        else:
            known.append(True)
    return all(known)


async def _coins(world: World, account: UUID) -> int:
    return (await owns(world.ledger, account)).get(COIN, 0)
