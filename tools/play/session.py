"""A guest's seat in one game, over as many connections and tokens as it takes."""

from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Protocol, Self

import grpc
from levata.table.v1 import play_pb2, table_pb2

from chassis.errors import reason_of
from tools.client import Account, Change, Client, sign_in_guest
from tools.picture import Picture
from tools.play.names import Names


class Seat(Protocol):
    """What the screen needs of a session."""

    game_id: str

    @property
    def picture(self) -> Picture:
        """The game at the last version heard of."""
        ...

    @property
    def names(self) -> Mapping[str, str]:
        """What the people at the table are called, by account id."""
        ...

    def changes(self) -> AsyncIterator[Change]:
        """All that happens until the game is over."""
        ...

    async def act(self, move: play_pb2.Move) -> None:
        """Make a move in the decision that is open in the picture; what comes of it comes as a change."""
        ...


class Session:
    """The seat of `account` in a game at the public port `target`."""

    def __init__(self, target: str, account: Account, game_id: str, *, trusted: bytes = b"") -> None:
        self.game_id = game_id
        self._target = target
        self._trusted = trusted
        self._account = account
        self._client = Client(target, account.token, trusted=trusted)
        self._playing = self._client.play(game_id)
        self._names = Names()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    @property
    def picture(self) -> Picture:
        """The game at the last version heard of."""
        return self._playing.picture

    @property
    def names(self) -> Mapping[str, str]:
        """What the people at the table are called, by account id."""
        return self._names.known

    async def act(self, move: play_pb2.Move) -> None:
        """Make a move in the decision that is open in the picture; what comes of it comes as a change."""
        await self._playing.act(move)

    async def changes(self) -> AsyncIterator[Change]:
        """All that happens until the game is over; a token that has run out is renewed on the way."""
        is_fresh = False
        while True:
            try:
                async for change in self._playing.changes():
                    is_fresh = False
                    if _may_bring_people(change):
                        await self._names.learn(self._client.accounts, (seat.account_id for seat in self.picture.seats))
                    yield change
            except grpc.aio.AioRpcError as error:
                # A stream goes on when its token runs out, but a new one needs a new token.
                if reason_of(error) != "TOKEN_EXPIRED" or is_fresh:
                    raise
                await self._renew()
                is_fresh = True
            else:
                return

    async def _renew(self) -> None:
        self._account = await sign_in_guest(self._target, self._account.request_id, trusted=self._trusted)
        spent, self._client = self._client, Client(self._target, self._account.token, trusted=self._trusted)
        self._playing.continue_over(self._client)
        await spent.__aexit__()


def _may_bring_people(change: Change) -> bool:
    match change:
        case table_pb2.Snapshot():
            return True
        case table_pb2.Commit():
            return any(event.HasField("seat_changed") for event in change.events)
        case _:
            return False


def back_at_table(picture: Picture) -> play_pb2.Move:
    """A move that is refused for certain, for whoever acts is back: a card that one does not hold."""
    held = set(picture.view.hand)
    return play_pb2.Move(play_card=next(card for card in play_pb2.Card.values()[1:] if card not in held))
