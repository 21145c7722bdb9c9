"""A small client of the public API: signs guests in, follows and plays games, and survives lost connections.

What a player sees is a `Picture` (tools.picture), folded from what the server sends; what may be done comes with the
open decision. So a client needs no rules, and this one has none.
"""

import asyncio
from typing import Any, Final, NamedTuple, Self, TypeAlias
from uuid import uuid4

import grpc
from levata.accounts.v1 import accounts_pb2
from levata.league.v1 import league_pb2
from levata.matchmaker.v1 import matchmaker_pb2
from levata.me.v1 import me_pb2
from levata.table.v1 import play_pb2, table_pb2

from chassis import rpc
from chassis.errors import reason_in, reason_of
from tools.patience import AGAIN, Again, Disconnected, Following, Reconnected, patiently
from tools.picture import Gap, Picture, fold

CALL_SECONDS: Final = 10.0
REPLAY_SECONDS: Final = 60.0


class Account(NamedTuple):
    """Somebody who signed in."""

    account_id: str
    name: str
    guest: bool
    token: str
    # Whoever knows it is given a token: it was made at random, and is kept as secret as the token.
    request_id: str


async def sign_in_guest(target: str, request_id: str = "", *, trusted: bytes = b"") -> Account:
    """A new guest at the server `target` (host:port), or, with a fresh token, the one whose `request_id` this is.

    The server speaks TLS if a certificate is `trusted`.
    """
    request_id = request_id or str(uuid4())
    async with rpc.channel(target, trusted=trusted) as channel:
        accounts = rpc.stub(channel, accounts_pb2.DESCRIPTOR.services_by_name["Accounts"])
        # The request id makes it safe to ask again: it is the same guest.
        request = accounts_pb2.CreateGuestRequest(request_id=request_id)
        created: accounts_pb2.CreateGuestResponse = await patiently(
            lambda: accounts.CreateGuest(request, timeout=CALL_SECONDS)
        )
    account = created.account
    return Account(account.account_id, account.name, account.guest, created.access_token, request_id)


class Client:
    """A connection to the public port in somebody's name; over TLS if a certificate is `trusted`."""

    def __init__(self, target: str, token: str, *, trusted: bytes = b"") -> None:
        self._channel = rpc.channel(target, token, trusted=trusted)
        self.accounts = rpc.stub(self._channel, accounts_pb2.DESCRIPTOR.services_by_name["Accounts"])
        self.me = rpc.stub(self._channel, me_pb2.DESCRIPTOR.services_by_name["Me"])
        self.matchmaker = rpc.stub(self._channel, matchmaker_pb2.DESCRIPTOR.services_by_name["Matchmaker"])
        self.table = rpc.stub(self._channel, table_pb2.DESCRIPTOR.services_by_name["Table"])
        self.league = rpc.stub(self._channel, league_pb2.DESCRIPTOR.services_by_name["League"])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    def play(self, game_id: str) -> "Playing":
        """A game in which one holds a seat."""
        return Playing(self.table, game_id)

    def watch(self, game_id: str) -> "Watching":
        """A game to look at."""
        return Watching(self.table, game_id)

    async def replay(self, game_id: str, seat: int | None = None) -> list[table_pb2.ReplayResponse]:
        """A game from its first commit: from a seat's view, or, once it is over, open."""
        request = table_pb2.ReplayRequest(game_id=game_id, seat=seat)
        return [response async for response in self.table.Replay(request, timeout=REPLAY_SECONDS)]

    async def record(self, account_id: str = "") -> league_pb2.GetRecordResponse:
        """What an account (default: one's own) has played and reached."""
        request = league_pb2.GetRecordRequest(account_id=account_id)
        response: league_pb2.GetRecordResponse = await patiently(
            lambda: self.league.GetRecord(request, timeout=CALL_SECONDS)
        )
        return response


class Refused(NamedTuple):
    """The server did not take a move."""

    move: play_pb2.Move
    reason: str
    message: str


# What one hears of a game that one follows. A snapshot begins the picture anew, a commit is folded into it already;
# `Repeated` answers a move whose commit had come without its answer.
GameChange: TypeAlias = table_pb2.Snapshot | table_pb2.Commit | table_pb2.Repeated | Refused
Change: TypeAlias = GameChange | Disconnected | Reconnected


class Watching(Following[GameChange]):
    """A game as one viewer sees it, over as many connections as it takes."""

    def __init__(self, table: rpc.Stub, game_id: str) -> None:
        self._table = table
        self.game_id = game_id
        self._picture: Picture | None = None
        # What the picture shows, if there is one, is not what one is to see now: only a snapshot helps.
        self._is_outdated = True

    @property
    def picture(self) -> Picture:
        """The game at the last version heard of."""
        assert self._picture is not None, "nothing was heard yet"
        return self._picture

    @property
    def over(self) -> bool:
        """Whether nothing will happen any more: a game that goes on always waits for a decision."""
        return self._picture is not None and not self._picture.HasField("decision")

    def continue_over(self, client: Client) -> None:
        """Call over another connection from now on, such as one with a fresh token."""
        self._table = client.table

    def _start(self) -> Any:
        return self._table.Watch(self._where())

    async def _say_here(self) -> None:
        if not self.over and not self._is_outdated and self.picture.view.HasField("seat"):
            await self._table.Here(table_pb2.HereRequest(game_id=self.game_id), timeout=CALL_SECONDS)

    def _where(self) -> table_pb2.WatchRequest:
        version = 0 if self._is_outdated else self.picture.version
        return table_pb2.WatchRequest(game_id=self.game_id, after_version=version)

    def _take(self, response: Any) -> GameChange | None:
        match response.WhichOneof("kind"):
            case "snapshot":
                picture: Picture = response.snapshot
                self._picture = picture
                self._is_outdated = False
                return picture
            case "commit":
                commit: table_pb2.Commit = response.commit
                try:
                    fold(self.picture, commit)
                except Gap as gap:
                    raise Again(str(gap)) from gap
                return commit
            # A spectator of a delayed game may have to wait for its beginning.
            case "heartbeat" if not self._is_outdated and response.heartbeat.version != self.picture.version:
                raise Again(f"the game is at version {response.heartbeat.version}")
            case "closing":
                self._is_outdated = response.closing.resume_after_version == 0
                raise Again(response.closing.reason)
        return None

    def _why_again(self, error: grpc.aio.AioRpcError) -> str:
        if reason_of(error) == "FUTURE_VERSION":
            # The server's log was restored to an earlier state, or one has left a seat of a delayed game.
            self._is_outdated = True
            return "FUTURE_VERSION"
        return super()._why_again(error)


class Playing(Watching):
    """As `Watching`, with moves going up the same stream, and going up again when it breaks."""

    def __init__(self, table: rpc.Stub, game_id: str) -> None:
        super().__init__(table, game_id)
        self._stream: Any = None
        # By command id. As the id stays the same, the server applies each once, however often it comes.
        self._unanswered: dict[str, table_pb2.PlayMove] = {}
        # A stream takes one message at a time.
        self._writing = asyncio.Lock()

    @property
    def legal_moves(self) -> list[play_pb2.Move]:
        """All that one may do now; empty at another's turn, before anything is heard, and with a move on its way."""
        if self._unanswered or self._picture is None:
            return []
        return list(self.picture.decision.legal_moves)

    async def act(self, move: play_pb2.Move) -> None:
        """Make a move in the decision that is open in the picture; what comes of it comes as a change."""
        act = table_pb2.PlayMove(command_id=str(uuid4()), at_version=self.picture.version, move=move)
        self._unanswered[act.command_id] = act
        try:
            await self._write(self._stream, table_pb2.PlayRequest(act=act))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # Whoever reads the stream notices as well, and the next one sends the move again.
            return

    def _start(self) -> Any:
        self._stream = self._table.Play()
        return self._stream

    async def _open(self, stream: Any) -> None:
        await self._write(stream, table_pb2.PlayRequest(open=self._where()))
        for act in list(self._unanswered.values()):
            await self._write(stream, table_pb2.PlayRequest(act=act))

    async def _write(self, stream: Any, request: table_pb2.PlayRequest) -> None:
        async with self._writing:
            await stream.write(request)

    def _take(self, response: Any) -> GameChange | None:
        match response.WhichOneof("kind"):
            case "commit":
                self._unanswered.pop(response.commit.command_id, None)
            case "repeated_command":
                repeated: table_pb2.Repeated = response.repeated_command
                self._unanswered.pop(repeated.command_id, None)
                return repeated
            case "refusal":
                return self._refused(response.refusal)
        return super()._take(response)

    def _refused(self, refusal: table_pb2.Refusal) -> GameChange | None:
        reason = reason_in(refusal.status) or ""
        if reason in AGAIN:
            raise Again(reason)
        act = self._unanswered.pop(refusal.command_id, None)
        return None if act is None else Refused(act.move, reason, refusal.status.message)
