"""The way to a table of quick play as a client goes it: a wish, a ticket, and what becomes of it on Me.Watch."""

import asyncio
import secrets
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self

import grpc
from levata.matchmaker.v1 import matchmaker_pb2
from levata.me.v1 import me_pb2

from chassis.errors import Refused, reason_of, status_of
from chassis.tasks import end
from tools.client import CALL_SECONDS, Client
from tools.patience import HERE_SECONDS, Again, Following, patiently

CANCEL_SECONDS: Final = 3.0
# News is sent once, and may be lost on the way: a stream that begins anew is told how everything is. A table deals
# within ten seconds, so that there is always some news within this time.
NEWS_SECONDS: Final = 12.0
NONCE_BYTES: Final = 16
# Why a ticket ended that is not there any more: somebody gave it up on another device.
CANCELLED: Final = "CANCELLED"
# Too late to give a ticket up.
_DEALT: Final = frozenset({"DEALING", "ALREADY_PLAYING"})
_OVER: Final = frozenset({matchmaker_pb2.TICKET_STATE_PLAYING, matchmaker_pb2.TICKET_STATE_ENDED})


class Wish(NamedTuple):
    """What somebody would like to play."""

    game_type: str
    # Empty for the first that the game has in quick play.
    variant: str = ""
    room: int = 1
    # Empty for none.
    coffee: str = ""


class Searching(Following[matchmaker_pb2.Ticket]):
    """A ticket on its way to a game.

    As a context it tells that its player is there, and gives the ticket up if it is left before there is a game.
    """

    def __init__(self, client: Client, ticket: matchmaker_pb2.Ticket) -> None:
        self.ticket = ticket
        # As they were shown before anybody could add a nonce, by game: a table may join another one.
        self.commitments: dict[str, bytes] = {}
        self._client = client
        self._answered = ""
        # What the stream has shown, and whether that is how it is now.
        self._shown = me_pb2.Search()
        self._is_known = False
        self._news_at = 0.0
        self._being_there: asyncio.Task[None] | None = None

    @classmethod
    async def begin(cls, client: Client, wish: Wish) -> Self:
        """Ask for a ticket, or find the one that one has; who plays already has one that leads to that game.

        A refusal is raised as the `grpc.aio.AioRpcError` it is.
        """
        request = matchmaker_pb2.EnqueueRequest(
            room=wish.room, game_type=wish.game_type, variant=wish.variant, coffee=wish.coffee
        )
        try:
            answer: matchmaker_pb2.EnqueueResponse = await patiently(
                lambda: client.matchmaker.Enqueue(request, timeout=CALL_SECONDS)
            )
        except grpc.aio.AioRpcError as error:
            status = status_of(error)
            if status is None or reason_of(error) != "ALREADY_PLAYING":
                raise
            game_id = Refused.from_status(status).metadata["game_id"]
            return cls(client, matchmaker_pb2.Ticket(state=matchmaker_pb2.TICKET_STATE_PLAYING, game_id=game_id))
        return cls(client, answer.ticket)

    async def __aenter__(self) -> Self:
        self._being_there = asyncio.create_task(self._say_here_often(), name="be there")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._being_there is not None:
            await end(self._being_there)
        if not self.over:
            await self.cancel()

    @property
    def over(self) -> bool:
        """Whether a game has begun, or none will."""
        return self.ticket.state in _OVER

    async def cancel(self) -> bool:
        """Give the ticket up; False if the cards are being dealt already."""
        request = matchmaker_pb2.CancelTicketRequest(ticket_id=self.ticket.ticket_id)
        try:
            await self._client.matchmaker.CancelTicket(request, timeout=CANCEL_SECONDS)
        except grpc.aio.AioRpcError as error:
            # A server that does not answer hears nothing of its player either, and ends the ticket by itself.
            return reason_of(error) not in _DEALT
        return True

    def _start(self) -> Any:
        self._is_known = False
        self._news_at = asyncio.get_running_loop().time()
        return self._client.me.Watch(me_pb2.WatchRequest())

    def _take(self, response: me_pb2.WatchResponse) -> matchmaker_pb2.Ticket | None:
        now = asyncio.get_running_loop().time()
        match response.WhichOneof("kind"):
            case "search":
                self._shown = response.search
                self._news_at = now
            case "status":
                self._is_known = me_pb2.PART_SEARCH not in response.status.unavailable
            case "closing":
                raise Again(response.closing.reason)
            case _ if now - self._news_at > NEWS_SECONDS:
                raise Again("there is no news of the ticket")
            case _:
                return None
        return self._look() if self._is_known else None

    def _look(self) -> matchmaker_pb2.Ticket:
        ticket = self._shown.ticket
        if not self._shown.HasField("ticket"):
            ticket = matchmaker_pb2.Ticket(state=matchmaker_pb2.TICKET_STATE_ENDED, ended=CANCELLED)
        if ticket.table.game_id:
            self.commitments[ticket.table.game_id] = ticket.table.commitment
        self.ticket = ticket
        return ticket

    async def _answer(self) -> None:
        """Add something to the shuffle as soon as the commitment is shown: a full table waits for it."""
        game_id = self.ticket.table.game_id
        if self.ticket.state != matchmaker_pb2.TICKET_STATE_SEATED or game_id in ("", self._answered):
            return
        request = matchmaker_pb2.AddNonceRequest(game_id=game_id, nonce=secrets.token_bytes(NONCE_BYTES))
        try:
            await self._client.matchmaker.AddNonce(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            # The table was dealt at this moment, or has joined another one, whose commitment comes.
            if reason_of(error) != "NOTHING_TO_ANSWER":
                raise
        self._answered = game_id

    async def _say_here_often(self) -> None:
        """Also while the stream is away: a ticket ends when its player was not heard for ten seconds."""
        while True:
            await asyncio.sleep(HERE_SECONDS)
            with suppress(grpc.aio.AioRpcError):
                await self._client.matchmaker.Here(matchmaker_pb2.HereRequest(), timeout=CALL_SECONDS)
