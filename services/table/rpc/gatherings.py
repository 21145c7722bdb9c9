"""How replicas tell each other about the people around friendly tables: one NATS subject, which all of them hear."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final
from uuid import UUID

import structlog
from google.protobuf.message import DecodeError
from levata.table.v1 import gatherings_pb2, table_pb2
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from services.table.app.gatherings import Gatherings
from services.table.app.ports import ChatLine, Side

log = structlog.get_logger(__name__)

SUBJECT: Final = "levata.table.gatherings"
# Below what NATS takes in one message; one game's spectators stay together.
SPECTATORS_IN_A_MESSAGE: Final = 10_000


class OtherReplicas:
    """Implements `app.ports.OtherReplicas`. While NATS is away nothing is told, and nothing waits."""

    def __init__(self, nats: Client, replica_id: str) -> None:
        self._nats = nats
        self._replica_id = replica_id
        self._subscription: Subscription | None = None

    async def start(self, gatherings: Gatherings) -> None:
        """Hand on to `gatherings` what the others tell."""

        async def hear(message: Msg) -> None:
            try:
                self._hear(gatherings, gatherings_pb2.GatheringNotice.FromString(message.data))
            except (DecodeError, ValueError) as error:
                log.warning("a notice that cannot be read", error=repr(error))

        self._subscription = await self._nats.subscribe(SUBJECT, cb=hear)

    async def stop(self) -> None:
        """Hear no more."""
        if self._subscription is not None:
            await self._subscription.unsubscribe()

    async def said(self, game_id: UUID, side: Side, line: ChatLine) -> None:
        """A line was said."""
        message = table_pb2.ChatLine(
            line_no=line.line_no, account_id=line.account, text=line.text, at_ms=line.said_at_us // 1000
        )
        said = gatherings_pb2.LineSaid(game_id=game_id.bytes, side=side.value, line=message)
        await self._tell(gatherings_pb2.GatheringNotice(said=said))

    async def muted(self, game_id: UUID) -> None:
        """Somebody's mutes in this game have changed."""
        await self._tell(gatherings_pb2.GatheringNotice(muted=gatherings_pb2.MutesChanged(game_id=game_id.bytes)))

    async def watching(self, spectators: Mapping[UUID, Collection[str]]) -> None:
        """Whom this replica has as spectators of these games."""
        for here in _messages(spectators):
            await self._tell(gatherings_pb2.GatheringNotice(watching=here))

    async def _tell(self, notice: gatherings_pb2.GatheringNotice) -> None:
        if not self._nats.is_connected:
            # It would wait in the client, and come too late to mean anything.
            return
        notice.replica_id = self._replica_id
        try:
            await self._nats.publish(SUBJECT, notice.SerializeToString())
        except NatsError as error:
            log.warning("cannot tell the other replicas", error=repr(error))

    def _hear(self, gatherings: Gatherings, notice: gatherings_pb2.GatheringNotice) -> None:
        if notice.replica_id == self._replica_id:
            return
        match notice.WhichOneof("kind"):
            case "said":
                said = notice.said
                line = ChatLine(said.line.line_no, said.line.account_id, said.line.text, said.line.at_ms * 1000)
                gatherings.hear_line(UUID(bytes=said.game_id), Side(said.side), line)
            case "muted":
                gatherings.hear_of_mutes(UUID(bytes=notice.muted.game_id))
            case "watching":
                for game in notice.watching.games:
                    game_id = UUID(bytes=game.game_id)
                    # Most games have nobody here.
                    if gatherings.has(game_id):
                        gatherings.hear_of_spectators(notice.replica_id, game_id, frozenset(_accounts(game.accounts)))


def _messages(spectators: Mapping[UUID, Collection[str]]) -> Iterator[gatherings_pb2.SpectatorsHere]:
    """The spectators of many games, in messages that are not too large."""
    here, count = gatherings_pb2.SpectatorsHere(), 0
    for game_id, accounts in spectators.items():
        if count > SPECTATORS_IN_A_MESSAGE:
            yield here
            here, count = gatherings_pb2.SpectatorsHere(), 0
        here.games.add(game_id=game_id.bytes, accounts=b"".join(UUID(account).bytes for account in accounts))
        count += 1 + len(accounts)
    yield here


def _accounts(raw: bytes) -> Iterator[str]:
    for start in range(0, len(raw), 16):
        yield str(UUID(bytes=raw[start : start + 16]))
