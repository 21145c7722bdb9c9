"""The services that the matchmaker asks. Any of their replicas will do, and every call may be repeated."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, NamedTuple
from uuid import UUID

import grpc
from google.rpc import status_pb2
from levata.accounts.v1 import devices_pb2
from levata.league.v1 import standings_pb2
from levata.ledger.v1 import entries_pb2
from levata.me.v1 import updates_pb2
from levata.table.v1 import games_pb2, table_pb2

from chassis.errors import Refused, reason_of, status_of
from chassis.peers import Peers
from chassis.settings import Settings
from services.matchmaker.app.ports import (
    DEFAULT_CLOCK,
    QUICK_PLAY,
    Clock,
    Entrants,
    Entry,
    NewGame,
    NotCreated,
    PreparedGame,
    Rank,
    Seat,
)
from services.matchmaker.domain.quick_play import Pool, QuickTable

CALL_SECONDS: Final = 3.0


class Others(NamedTuple):
    """All of them."""

    games: "TableService"
    ledger: "LedgerService"
    league: "LeagueService"
    accounts: "AccountsService"

    @classmethod
    @asynccontextmanager
    async def at(cls, settings: Settings) -> AsyncIterator["Others"]:
        """Where the settings say that they are."""
        async with AsyncExitStack() as stack:

            async def peers(name: str, module: Any, service: str) -> Peers:
                descriptor = module.DESCRIPTOR.services_by_name[service]
                opened = Peers.at(settings.peers[name], settings.service_token, descriptor)
                return await stack.enter_async_context(opened)

            yield cls(
                TableService(await peers("table", games_pb2, "Games"), await peers("table", updates_pb2, "Snapshots")),
                LedgerService(await peers("ledger", entries_pb2, "Entries")),
                LeagueService(await peers("league", standings_pb2, "Standings")),
                AccountsService(await peers("accounts", devices_pb2, "Devices")),
            )


class TableService:
    """Implements `app.ports.Games`."""

    def __init__(self, games: Peers, snapshots: Peers) -> None:
        self._games = games
        self._snapshots = snapshots

    async def prepare(self, request_id: UUID, game_type: str, variant: str, seats: int, mode: str) -> PreparedGame:
        """Fix a game's id and seed."""
        request = _prepare_request(request_id, Pool(game_type, variant), seats, mode)
        return _prepared(await _ask(self._games, "Prepare", request))

    async def prepare_all(self, tables: Sequence[QuickTable]) -> Sequence[PreparedGame | Exception]:
        """Fix the games of tables of quick play."""
        request = games_pb2.PrepareAllRequest(
            games=[_prepare_request(table.table_id, table.pool, table.pool.capacity, QUICK_PLAY) for table in tables]
        )
        answer: games_pb2.PrepareAllResponse = await _ask(self._games, "PrepareAll", request)
        return [
            Refused.from_status(game.refusal) if game.HasField("refusal") else _prepared(game.prepared)
            for game in answer.games
        ]

    async def create(
        self, game_id: UUID, seats: Sequence[Seat], clock: Clock = DEFAULT_CLOCK, spectator_delay_seconds: int = 0
    ) -> None:
        """Start a prepared game; NotCreated if its id was closed."""
        request = games_pb2.CreateRequest(
            game_id=str(game_id),
            seats=map(_setup, seats),
            clock=games_pb2.ClockOptions(bid_seconds=clock.bid_seconds, card_seconds=clock.card_seconds),
            spectator_delay_seconds=spectator_delay_seconds,
        )
        try:
            await _ask(self._games, "Create", request)
        except Refused as refused:
            raise _not_created(refused) from None

    async def create_all(self, games: Sequence[NewGame]) -> Sequence[Exception | None]:
        """Start prepared games of quick play."""
        request = games_pb2.CreateAllRequest(
            games=[games_pb2.CreateRequest(game_id=str(game.game_id), seats=map(_setup, game.seats)) for game in games]
        )
        answer: games_pb2.CreateAllResponse = await _ask(self._games, "CreateAll", request)
        return [
            _not_created(Refused.from_status(game.refusal)) if game.HasField("refusal") else None
            for game in answer.games
        ]

    async def cancel(self, game_id: UUID) -> bool:
        """Close an id for good, unless its game was created; whether it was."""
        answer = await _ask(self._games, "Cancel", games_pb2.CancelRequest(game_id=str(game_id)))
        return bool(answer.outcome == games_pb2.CancelResponse.OUTCOME_CREATED)

    async def seated_in(self, account: UUID) -> frozenset[UUID]:
        """The running games in which an account holds a seat."""
        request = updates_pb2.SnapshotRequest(account_id=str(account))
        snapshot: updates_pb2.SnapshotResponse = await _ask(self._snapshots, "Snapshot", request)
        return frozenset(UUID(update.game.game_id) for update in snapshot.updates if update.game.HasField("game"))


class LedgerService:
    """Implements `app.ports.Ledger`."""

    def __init__(self, entries: Peers) -> None:
        self._entries = entries

    async def purses(self, accounts: Sequence[UUID]) -> Sequence[Mapping[str, int]]:
        """What is free, by currency."""
        request = entries_pb2.PursesRequest(account_ids=map(str, accounts))
        answer: entries_pb2.PursesResponse = await _ask(self._entries, "Purses", request)
        return [purse.free for purse in answer.purses]

    async def hold(self, games: Sequence[Entrants]) -> Sequence[Sequence[Entry] | Exception]:
        """Hold all entries of these games; NotCreated for one whose id was closed."""
        request = entries_pb2.HoldAllRequest()
        for game in games:
            asked = request.games.add(game_id=str(game.game_id))
            for ticket in game.tickets:
                asked.entrants.add(account_id=str(ticket.account), room=ticket.room, coffee=ticket.coffee)
        answer: entries_pb2.HoldAllResponse = await _ask(self._entries, "HoldAll", request)
        return [_not_held(game.refusal) if game.HasField("refusal") else _entries(game.held) for game in answer.games]


class LeagueService:
    """Implements `app.ports.League`."""

    def __init__(self, standings: Peers) -> None:
        self._standings = standings

    async def ranks(self, accounts: Sequence[UUID]) -> Sequence[Rank]:
        """How far these have come."""
        request = standings_pb2.RanksRequest(account_ids=map(str, accounts))
        answer: standings_pb2.RanksResponse = await _ask(self._standings, "Ranks", request)
        return [Rank(rank.xp, rank.level, rank.standing) for rank in answer.ranks]


class AccountsService:
    """Implements `app.ports.Accounts`."""

    def __init__(self, devices: Peers) -> None:
        self._devices = devices

    async def companions(self, accounts: Sequence[UUID]) -> Sequence[tuple[UUID, ...]]:
        """For each of these, the accounts that were used on one device with it."""
        request = devices_pb2.CompanionsRequest(account_ids=map(str, accounts))
        answer: devices_pb2.CompanionsResponse = await _ask(self._devices, "Companions", request)
        companions: dict[UUID, list[UUID]] = {}
        for pair in answer.pairs:
            one, other = UUID(pair.first_account_id), UUID(pair.second_account_id)
            companions.setdefault(one, []).append(other)
            companions.setdefault(other, []).append(one)
        return [tuple(companions.get(account, ())) for account in accounts]


async def _ask(peers: Peers, rpc: str, request: Any) -> Any:
    """An answer, or the other service's refusal as it was; what else fails is grpc's own error."""
    try:
        return await peers.ask(rpc, request, CALL_SECONDS)
    except grpc.aio.AioRpcError as error:
        status = status_of(error)
        if status is None or reason_of(error) is None:
            raise
        raise Refused.from_status(status) from error


def _prepare_request(request_id: UUID, pool: Pool, seats: int, mode: str) -> games_pb2.PrepareRequest:
    return games_pb2.PrepareRequest(
        request_id=str(request_id),
        game_type=pool.game_type,
        variant=pool.variant,
        seats=seats,
        mode=table_pb2.Mode.Value(f"MODE_{mode}"),
    )


def _prepared(message: games_pb2.PrepareResponse) -> PreparedGame:
    return PreparedGame(UUID(message.game_id), message.commitment, message.day)


def _not_created(refused: Refused) -> Exception:
    """What a refusal to create means."""
    return NotCreated() if refused.reason == "GAME_CANCELLED" else refused


def _entries(message: entries_pb2.HoldResponse) -> Sequence[Entry]:
    return [Entry(UUID(each.account_id), each.refusal, each.coins, each.gold, each.prize) for each in message.entrants]


def _not_held(status: status_pb2.Status) -> Exception:
    refused = Refused.from_status(status)
    # Nobody begins a game of ours before its entries are held: it was cancelled.
    return NotCreated() if refused.reason == "GAME_SETTLED" else refused


def _setup(seat: Seat) -> games_pb2.SeatSetup:
    if seat.account is None:
        return games_pb2.SeatSetup(bot=games_pb2.BotSeat(level=seat.bot_level))
    account = games_pb2.AccountSeat(
        account_id=str(seat.account),
        guest=seat.guest,
        room=seat.room,
        coins=seat.coins,
        gold=seat.gold,
        prize=seat.prize,
        coffee=seat.coffee,
    )
    return games_pb2.SeatSetup(account=account, nonce=seat.nonce)
