"""The table service's API: messages in, use cases, messages out."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from datetime import date
from hashlib import sha256
from typing import Final
from uuid import UUID

import grpc
from levata.table.v1 import games_pb2, table_pb2

from chassis.auth import Caller, Role
from chassis.errors import Refused, refused
from chassis.rpc import Access, Call, Server, checks_itself, validate
from chassis.together import answer_each
from services.table.app import errors
from services.table.app.delayed import DelayedGame, DelayedGames
from services.table.app.following import FollowedGame
from services.table.app.gatherings import Gatherings
from services.table.app.listing import Summary
from services.table.app.ports import Side
from services.table.app.requests import Leave, Outcome, PlayerCommand, Sign, TakeSeat
from services.table.app.running import RunningGame
from services.table.app.subscription import Subscription
from services.table.app.tables import LIST_PAGE, NewGame, Tables, not_shown_yet
from services.table.domain import OPEN, SPECTATOR, Clock, Kind, Mode, Occupant, SeatRejection, Table, Viewer
from services.table.rpc import messages
from services.table.rpc.messages import CommitMessages

# As in the protos.
_VERSION_MAX = 1_000_000
_CANONICAL_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch
# Signs of life on one stream; clients send one every five seconds.
SIGNS_APART_SECONDS: Final = 0.25
_TABLE_ACCESS = {
    "Watch": Access.ANY,
    "Here": Access.PLAYER,
    "Act": Access.PLAYER,
    "Play": Access.PLAYER,
    "Leave": Access.PLAYER,
    "TakeSeat": Access.PLAYER,
    "Replay": Access.ANY,
    "Say": Access.PLAYER,
    "Mute": Access.PLAYER,
    "List": Access.PLAYER,
    "Daily": Access.PUBLIC,
}
# The matchmaker opens games; `tools` are `levata play` and `demo` on the operator's machine.
_GAMES_ACCESS = {
    "Prepare": Access.by("matchmaker", "tools"),
    "Create": Access.by("matchmaker", "tools"),
    "PrepareAll": Access.by("matchmaker", "tools"),
    "CreateAll": Access.by("matchmaker", "tools"),
    # The ledger settles what became of a game whose entries nobody has ended.
    "Cancel": Access.by("ledger", "matchmaker", "tools"),
}


def serve(server: Server, tables: Tables, delayed: DelayedGames, gatherings: Gatherings) -> None:
    """Add the table service's API to a server."""
    server.add(table_pb2.DESCRIPTOR.services_by_name["Table"], TableApi(tables, delayed, gatherings), _TABLE_ACCESS)
    server.add(games_pb2.DESCRIPTOR.services_by_name["Games"], GamesApi(tables), _GAMES_ACCESS)


class GamesApi:
    """levata.table.v1.Games."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def prepare(self, request: games_pb2.PrepareRequest, call: Call) -> games_pb2.PrepareResponse:
        prepared = await self._tables.prepare(
            UUID(request.request_id), request.game_type, request.variant, request.seats, Mode(request.mode)
        )
        return games_pb2.PrepareResponse(
            game_id=str(prepared.game_id),
            commitment=prepared.commitment,
            day="" if prepared.day is None else prepared.day.isoformat(),
        )

    async def create(self, request: games_pb2.CreateRequest, call: Call) -> games_pb2.CreateResponse:
        new = NewGame(
            UUID(request.game_id),
            tuple(_occupant(seat) for seat in request.seats),
            tuple(seat.nonce for seat in request.seats),
            Clock(request.clock.bid_seconds, request.clock.card_seconds),
            request.spectator_delay_seconds,
            sha256(request.SerializeToString(deterministic=True)).digest()[:16],
        )
        return games_pb2.CreateResponse(version=await self._tables.create(new))

    async def prepare_all(self, request: games_pb2.PrepareAllRequest, call: Call) -> games_pb2.PrepareAllResponse:
        response = games_pb2.PrepareAllResponse()
        await answer_each((self.prepare(game, call) for game in request.games), response.games.add, "prepared")
        return response

    async def create_all(self, request: games_pb2.CreateAllRequest, call: Call) -> games_pb2.CreateAllResponse:
        response = games_pb2.CreateAllResponse()
        await answer_each((self.create(game, call) for game in request.games), response.games.add, "created")
        return response

    async def cancel(self, request: games_pb2.CancelRequest, call: Call) -> games_pb2.CancelResponse:
        kind = await self._tables.cancel(UUID(request.game_id))
        outcome = games_pb2.CancelResponse.OUTCOME_CREATED
        if kind is Kind.CANCELLED:
            outcome = games_pb2.CancelResponse.OUTCOME_CANCELLED
        return games_pb2.CancelResponse(outcome=outcome)


def _occupant(seat: games_pb2.SeatSetup) -> Occupant:
    if seat.WhichOneof("who") == "bot":
        return Occupant(bot_level=seat.bot.level or "steady")
    account = seat.account
    return Occupant(
        str(UUID(account.account_id)),
        account.guest,
        "",
        account.room,
        account.coins,
        account.gold,
        account.prize,
        account.coffee,
    )


class TableApi:
    """levata.table.v1.Table."""

    def __init__(self, tables: Tables, delayed: DelayedGames, gatherings: Gatherings) -> None:
        self._tables = tables
        self._delayed = delayed
        self._gatherings = gatherings

    @checks_itself
    async def act(self, request: table_pb2.ActRequest, call: Call) -> table_pb2.ActResponse:
        if not _CANONICAL_UUID(request.game_id):
            validate(request)
        command = _command(call.who, request)
        return table_pb2.ActResponse(version=await self._tables.asked(UUID(request.game_id), command))

    async def here(self, request: table_pb2.HereRequest, call: Call) -> table_pb2.HereResponse:
        version = await self._tables.asked(UUID(request.game_id), Sign(call.who.subject))
        return table_pb2.HereResponse(version=version)

    async def leave(self, request: table_pb2.LeaveRequest, call: Call) -> table_pb2.LeaveResponse:
        leave = Leave.of(call.who.subject, str(UUID(request.request_id)))
        return table_pb2.LeaveResponse(version=await self._tables.asked(UUID(request.game_id), leave))

    async def take_seat(self, request: table_pb2.TakeSeatRequest, call: Call) -> table_pb2.TakeSeatResponse:
        take = TakeSeat.of(call.who.subject, call.who.guest, request.seat, str(UUID(request.request_id)))
        return table_pb2.TakeSeatResponse(version=await self._tables.take_seat(UUID(request.game_id), take))

    async def watch(self, request: table_pb2.WatchRequest, call: Call) -> None:
        async with self._follow(request, call) as subscription:
            if subscription is not None:
                await subscription.pump(call.write)

    async def play(self, call: Call) -> None:
        first = await call.read()
        if first is None or first.WhichOneof("kind") != "open":
            raise refused("OPEN_FIRST", grpc.StatusCode.INVALID_ARGUMENT, "The first message must open a game.")
        validate(first)
        async with self._follow(first.open, call) as subscription:
            if subscription is None:
                return
            moves = asyncio.create_task(self._take_moves(call, UUID(first.open.game_id), subscription))
            try:
                await subscription.pump(call.write)
                if moves.done():
                    moves.result()
            finally:
                moves.cancel()

    async def _take_moves(self, call: Call, game_id: UUID, subscription: Subscription) -> None:
        """Hand the moves of a Play stream on, until the client ends its side; the stream of events goes on then."""
        loop = asyncio.get_running_loop()
        heard_at = loop.time()
        try:
            while (request := await call.read()) is not None:
                match request.WhichOneof("kind"):
                    case "act":
                        self._take_move(call, game_id, subscription, request)
                    case "here":
                        # Who says it more often than it can mean anything is not passed on.
                        if subscription.viewer >= 0 and loop.time() - heard_at >= SIGNS_APART_SECONDS:
                            heard_at = loop.time()
                            self._tables.hear(game_id, Sign(call.who.subject))
                    case _:
                        validate(request)
                        raise refused(
                            "OPEN_FIRST", grpc.StatusCode.INVALID_ARGUMENT, "Only the first message opens a game."
                        )
        except Exception:
            # Nobody would hear the client any more: the call ends with the same error.
            subscription.end()
            raise

    def _take_move(self, call: Call, game_id: UUID, subscription: Subscription, request: table_pb2.PlayRequest) -> None:
        act = request.act

        def answer(response: table_pb2.PlayResponse) -> None:
            subscription.push(response.SerializeToString(), asyncio.get_running_loop().time())

        def refuse(refused: Refused) -> None:
            call.count_refusal(refused)
            refusal = table_pb2.Refusal(command_id=act.command_id, status=refused.status())
            answer(table_pb2.PlayResponse(refusal=refusal))

        def done(outcome: Outcome, _: bool) -> None:
            if isinstance(outcome, Refused):
                subscription.expected.pop(key, None)
                refuse(outcome)
            elif not subscription.is_answered(key, outcome):
                earlier = table_pb2.Repeated(command_id=act.command_id, version=outcome)
                answer(table_pb2.PlayResponse(repeated_command=earlier))

        try:
            command = _command(call.who, act)
        except Refused as refused:
            refuse(refused)
            return
        key = command.name.key
        if subscription.expect(key, act.command_id):
            self._tables.ask(game_id, command, done)
        else:
            refuse(errors.busy())

    @asynccontextmanager
    async def _follow(self, request: table_pb2.WatchRequest, call: Call) -> AsyncIterator[Subscription | None]:
        """Send a viewer what it lacks, and yield the subscription to all that comes; None when nothing will."""
        game_id, after_version = UUID(request.game_id), request.after_version
        game = await self._tables.find(game_id, after_version)
        table = game if isinstance(game, Table) else game.table
        # First of all: nobody is told anything of a game that they may not see, or not yet.
        viewer = _viewer(table, call.who, self._tables.is_disclosed(table))
        delay = table.created.spectator_delay_seconds if viewer == SPECTATOR else 0
        shown: RunningGame | FollowedGame | DelayedGame | Table = game
        if delay:
            shown = await self._delayed.find(game_id, delay)
        # Nothing may come between the table as it is sent and the subscription.
        seen = shown if isinstance(shown, Table) else shown.table
        version = 0 if seen is None else seen.version
        if after_version > version:
            raise errors.future_version(version) if delay else await self._tables.beyond(game_id, after_version)
        audience = None if isinstance(shown, Table) else shown.audience
        subscription = None if audience is None else audience.subscribe(viewer, call.who.subject)
        is_players = subscription is not None and viewer >= 0
        if is_players:
            self._tables.hear(game_id, Sign(call.who.subject))
        try:
            if after_version:
                async for step in self._tables.history(game_id, up_to=version):
                    if step.commit.version > after_version:
                        await call.write(CommitMessages(step.before, step.commit, step.after).message(viewer))
            else:
                await call.write(messages.heartbeat(0) if seen is None else messages.snapshot(seen, viewer))
            with self._joined(table, viewer, call.who, subscription):
                yield subscription
        finally:
            if audience is not None and subscription is not None:
                audience.unsubscribe(subscription)
            if is_players:
                self._tables.hear(game_id, Sign(call.who.subject, is_close=True))

    def _joined(
        self, table: Table, viewer: Viewer, who: Caller, subscription: Subscription | None
    ) -> AbstractContextManager[None]:
        """While a person follows a running game, chat and count come down the stream too."""
        if subscription is None or who.role is not Role.PLAYER:
            return nullcontext()
        side = Side.SPECTATORS if viewer == SPECTATOR else Side.PLAYERS
        return self._gatherings.joined(table, side, who.subject, subscription)

    async def say(self, request: table_pb2.SayRequest, call: Call) -> table_pb2.SayResponse:
        table = await self._tables.table(UUID(request.game_id))
        request_id = UUID(request.request_id)
        line_no = await self._gatherings.say(table, call.who.subject, request_id, request.text)
        return table_pb2.SayResponse(line_no=line_no)

    async def mute(self, request: table_pb2.MuteRequest, call: Call) -> table_pb2.MuteResponse:
        table = await self._tables.table(UUID(request.game_id))
        await self._gatherings.mute(table, call.who.subject, UUID(request.account_id), request.muted)
        return table_pb2.MuteResponse()

    async def replay(self, request: table_pb2.ReplayRequest, call: Call) -> None:
        game_id = UUID(request.game_id)
        table = await self._tables.table(game_id)
        disclosed = self._tables.is_disclosed(table)
        viewer = _replay_viewer(table, call.who, request.seat if request.HasField("seat") else None, disclosed)
        async for step in self._tables.history(game_id, up_to=table.version):
            response = table_pb2.ReplayResponse()
            response.commit.ParseFromString(CommitMessages(step.before, step.commit, step.after).body(viewer))
            if disclosed:
                # Before that, its chain would let hidden hands be searched.
                response.chain = step.chain
            await call.write(response)

    async def daily(self, request: table_pb2.DailyRequest, call: Call) -> table_pb2.DailyResponse:
        daily = await self._tables.daily(request.game_type, _day(request.day))
        variant, seats = daily.game.daily
        return table_pb2.DailyResponse(
            game_type=daily.game.game_type,
            day=daily.day.isoformat(),
            variant=variant,
            seats=seats,
            commitment=daily.commitment,
            server_seed=daily.server_seed or b"",
        )

    async def list(self, request: table_pb2.ListRequest, call: Call) -> table_pb2.ListResponse:
        before = None
        if request.page_token:
            try:
                before = UUID(request.page_token)
            except ValueError:
                raise refused(
                    "PAGE_TOKEN_INVALID", grpc.StatusCode.INVALID_ARGUMENT, "The page token is not one of ours."
                ) from None
        limit = request.page_size or LIST_PAGE
        summaries, last = await self._tables.list_games(UUID(call.who.subject), before, request.running_only, limit)
        return table_pb2.ListResponse(
            games=[_summary_message(summary, call.who.subject) for summary in summaries],
            next_page_token="" if last is None else str(last),
        )


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise refused("NO_SUCH_DAY", grpc.StatusCode.INVALID_ARGUMENT, "There is no such day.") from None


def _command(who: Caller, request: table_pb2.ActRequest | table_pb2.PlayMove) -> PlayerCommand:
    """A move as the game takes it. Checked by hand, being the hot path; where it fails, the proto's rules say why."""
    move = messages.move_code(request.move)
    command_id, at_version = request.command_id, request.at_version
    if move is None or at_version > _VERSION_MAX or not _CANONICAL_UUID(command_id):
        validate(request)
        # The rules take other spellings of a UUID too.
        command_id = str(UUID(command_id))
        assert move is not None, "the proto's rules let pass what the hot path refuses"
    return PlayerCommand.of(who.subject, command_id, at_version, move)


def _viewer(table: Table, who: Caller, disclosed: bool) -> Viewer:
    """Whose view the caller gets: the own seat's, or a spectator's where the game may be watched."""
    seat = table.seat_of(who.subject)
    if seat is not None:
        return seat
    if who.role is not Role.SERVICE and table.created.mode is not Mode.FRIENDLY and not disclosed:
        raise errors.not_seated() if table.finished is None else not_shown_yet(table)
    return SPECTATOR


def _replay_viewer(table: Table, who: Caller, seat: int | None, disclosed: bool) -> Viewer:
    if seat is not None and seat >= len(table.occupants):
        raise errors.rejected(SeatRejection.NO_SUCH_SEAT)
    if disclosed:
        return OPEN if seat is None else seat
    own = table.seat_of(who.subject)
    if own is None or seat not in (None, own):
        raise not_shown_yet(table)
    return own


def _summary_message(summary: Summary, account: str) -> table_pb2.GameSummary:
    created = summary.created
    message = table_pb2.GameSummary(
        game_id=str(summary.game_id),
        game_type=created.game_type,
        variant=created.setup.variant,
        mode=table_pb2.Mode.ValueType(created.mode.value),
        seats=[
            messages.seat_info(seating.occupant, seating.away, summary.is_vacated(seat))
            for seat, seating in enumerate(summary.seats)
        ],
        version=summary.version,
        finished=summary.finished is not None,
        created_at_ms=summary.created_at_us // 1000,
        left=not summary.is_seated(account),
    )
    if summary.finished is not None:
        message.standings.extend(summary.finished.standings)
    return message
