"""The other replicas over NATS: requests to games' hosts, and what hosts announce; with the codec of both.

All that one replica has to say to another in one turn of the loop goes as one message, so that the commands of many
games share its cost, as their commits share a statement.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, assert_never
from uuid import UUID

import structlog
from google.protobuf.message import DecodeError
from levata.table.v1 import replicas_pb2
from nats.aio.client import Client
from nats.aio.msg import Msg

from chassis.bus import Outbox
from chassis.errors import Refused
from chassis.tasks import end
from services.table.app.replicas import (
    ATTEMPT_SECONDS,
    Answer,
    Answered,
    Asked,
    LiveCommit,
    Unfollow,
)
from services.table.app.requests import Leave, PlayerCommand, Request, Sign, TakeSeat
from services.table.store.codec import decode

log = structlog.get_logger(__name__)

# An answer that has not come by then will not: the host did not take the request any more.
ANSWER_SECONDS: Final = ATTEMPT_SECONDS + 0.25
LOOK_FOR_LATE_SECONDS: Final = 0.1
PROBE_SECONDS: Final = 2.0
# Requests that wait for their hosts' answers.
ASKS_MAX: Final = 20_000

Serve = Callable[[Asked, Answered], None]


@dataclass(slots=True)
class _Peer:
    """What is between another replica and this one."""

    # By number: who waits for the answer, and until when in loop time. In the order of asking.
    pending: dict[int, tuple[Answered, float]] = field(default_factory=dict)
    mail: replicas_pb2.Mail = field(default_factory=replicas_pb2.Mail)


class NatsReplicas:
    """Implements `app.replicas.Replicas`."""

    def __init__(self, client: Client, host_id: UUID) -> None:
        self._client = client
        self._host_id = host_id
        self._outbox = Outbox(client)
        # Only those with whom something is under way.
        self._peers: dict[UUID, _Peer] = {}
        self._to_send: set[UUID] = set()
        self._asks = 0
        self._inbox = f"{client.new_inbox()}"
        # A letter to ourselves has come back.
        self._reached = asyncio.Event()
        self._serve: Serve | None = None
        self._looking: asyncio.Task[None] | None = None

    async def start(self, serve: Serve) -> None:
        """Begin to hear the others; `serve` is called with what they ask."""
        self._serve = serve
        await self._outbox.start()
        await self._client.subscribe(_host_subject(self._host_id), cb=self._on_mail)
        await self._client.subscribe(f"{self._inbox}.*", cb=self._on_no_responders)
        self._looking = asyncio.create_task(self._look_for_late(), name="late answers")
        # Who finds a game's row naming us can reach us from now on.
        with suppress(TimeoutError):
            async with asyncio.timeout(PROBE_SECONDS):
                await self.reach()

    async def stop(self) -> None:
        """Say and hear nothing more; who waits is told that nothing is known."""
        if self._looking is not None:
            await end(self._looking)
        for host_id in list(self._peers):
            self._give_up(host_id)
        await self._outbox.stop()

    async def reach(self) -> None:
        """A letter to ourselves has come back."""
        self._reached.clear()
        letter = replicas_pb2.Mail(sender=self._host_id.bytes)
        self._outbox.send(_host_subject(self._host_id), letter.SerializeToString())
        await self._reached.wait()

    @property
    def reconnects(self) -> int:
        """How often the way was lost and found again."""
        return self._client.stats["reconnects"]

    # Announcements

    def announce_commit(self, game_id: UUID, version: int, payload: bytes, key: UUID | None) -> None:
        """Tell who follows the game of a commit, by its payload in the log."""
        commit = replicas_pb2.LiveCommit(
            version=version, payload=payload, command_key=b"" if key is None else key.bytes
        )
        self._outbox.send(_live_subject(game_id), replicas_pb2.Live(commit=commit).SerializeToString())

    async def follow(self, game_id: UUID, hear: Callable[[LiveCommit], None]) -> Unfollow:
        """Hear what a game's host announces. The mark that comes back shows that the server has the subscription:
        nats-py's own flush does not."""
        mark = os.urandom(8)
        heard = asyncio.Event()

        async def on_message(message: Msg) -> None:
            live = replicas_pb2.Live.FromString(message.data)
            match live.WhichOneof("kind"):
                case "commit":
                    hear(_live_commit(game_id, live.commit))
                case "probe":
                    if live.probe == mark:
                        heard.set()
                case None:
                    # Of a kind that a newer replica knows.
                    pass

        subscription = await self._client.subscribe(_live_subject(game_id), cb=on_message)

        async def unfollow() -> None:
            if not self._client.is_closed:
                await subscription.unsubscribe()

        try:
            self._outbox.send(_live_subject(game_id), replicas_pb2.Live(probe=mark).SerializeToString())
            async with asyncio.timeout(PROBE_SECONDS if self._client.is_connected else 0):
                await heard.wait()
        except TimeoutError:
            # The way to the others is lost: the log tells what is not heard.
            pass
        except BaseException:
            await unfollow()
            raise
        return unfollow

    # Requests

    def ask(self, host_id: UUID, asked: Asked, answered: Answered) -> None:
        """Ask a game's host."""
        peer = self._peers.setdefault(host_id, _Peer())
        if not self._client.is_connected or len(peer.pending) >= ASKS_MAX:
            answered(None)
            return
        self._asks += 1
        peer.pending[self._asks] = answered, asyncio.get_running_loop().time() + ANSWER_SECONDS
        _write_ask(peer.mail.asks.add(), self._asks, asked)
        self._send_soon(host_id)

    def _reply(self, host_id: UUID, number: int, answer: Answer | None) -> None:
        reply = self._peers.setdefault(host_id, _Peer()).mail.replies.add()
        _write_reply(reply, number, answer)
        self._send_soon(host_id)

    def _send_soon(self, host_id: UUID) -> None:
        if not self._to_send:
            asyncio.get_running_loop().call_soon(self._send_mail)
        self._to_send.add(host_id)

    def _send_mail(self) -> None:
        for host_id in self._to_send:
            peer = self._peers[host_id]
            peer.mail.sender = self._host_id.bytes
            # The server answers to the inbox if nobody hears the host's subject.
            reply = f"{self._inbox}.{host_id}" if peer.mail.asks else ""
            self._outbox.send(_host_subject(host_id), peer.mail.SerializeToString(), reply)
            peer.mail = replicas_pb2.Mail()
            if not peer.pending:
                del self._peers[host_id]
        self._to_send.clear()

    async def _on_mail(self, message: Msg) -> None:
        try:
            mail = replicas_pb2.Mail.FromString(message.data)
        except DecodeError:
            log.warning("a replica's message cannot be decoded")
            return
        sender = UUID(bytes=mail.sender)
        if sender == self._host_id:
            self._reached.set()
        for reply in mail.replies:
            self._take_reply(sender, reply)
        for ask in mail.asks:
            try:
                self._take_ask(sender, ask)
            except Exception:
                # The others' requests are served all the same; this one's asker asks again.
                log.exception("a replica's request failed")

    def _take_reply(self, sender: UUID, reply: replicas_pb2.Reply) -> None:
        peer = self._peers.get(sender)
        waiting = None if peer is None else peer.pending.pop(reply.number, None)
        # None for an answer that came too late.
        if waiting is not None:
            waiting[0](_answer(reply))
            self._forget_if_idle(sender)

    def _take_ask(self, sender: UUID, ask: replicas_pb2.Ask) -> None:
        answered = partial(self._reply, sender, ask.number)
        request = _request(ask)
        if request is None:
            # Of a kind that a newer replica knows.
            answered(None)
            return
        assert self._serve is not None
        self._serve(Asked(UUID(bytes=ask.game_id), ask.epoch, ask.expires_at_us, request), answered)

    async def _on_no_responders(self, message: Msg) -> None:
        """Nobody hears a host's subject. What was asked before may have been taken: only the rows and the log know."""
        self._give_up(UUID(message.subject.rpartition(".")[2]))

    async def _look_for_late(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_FOR_LATE_SECONDS)
            now = loop.time()
            for host_id, peer in list(self._peers.items()):
                for number, (answered, until) in list(peer.pending.items()):
                    if until > now:
                        break
                    del peer.pending[number]
                    answered(None)
                self._forget_if_idle(host_id)

    def _give_up(self, host_id: UUID) -> None:
        peer = self._peers.get(host_id)
        if peer is not None:
            pending, peer.pending = peer.pending, {}
            for answered, _ in pending.values():
                answered(None)
            self._forget_if_idle(host_id)

    def _forget_if_idle(self, host_id: UUID) -> None:
        peer = self._peers.get(host_id)
        if peer is not None and not peer.pending and host_id not in self._to_send:
            del self._peers[host_id]


def _live_subject(game_id: UUID) -> str:
    return f"levata.table.live.{game_id}"


def _host_subject(host_id: UUID) -> str:
    return f"levata.table.host.{host_id}"


def _live_commit(game_id: UUID, message: replicas_pb2.LiveCommit) -> LiveCommit:
    key = UUID(bytes=message.command_key) if message.command_key else None
    return LiveCommit(decode(message.version, message.payload, game_id.bytes), key)


def _write_ask(message: replicas_pb2.Ask, number: int, asked: Asked) -> None:
    message.number = number
    message.game_id = asked.game_id.bytes
    message.epoch = asked.epoch
    message.expires_at_us = asked.expires_at_us
    match asked.request:
        case PlayerCommand(account, command_id, at_version, move):
            message.move.account_id = account
            message.move.command_id = command_id
            message.move.at_version = at_version
            message.move.code = move
        case Sign(account, is_close):
            message.sign.account_id = account
            message.sign.is_close = is_close
        case Leave(account, request_id):
            message.leave.account_id = account
            message.leave.request_id = request_id
        case TakeSeat(account, guest, seat, request_id):
            message.take_seat.account_id = account
            message.take_seat.guest = guest
            message.take_seat.seat = seat
            message.take_seat.request_id = request_id
        case _:
            assert_never(asked.request)


def _request(message: replicas_pb2.Ask) -> Request | None:
    kind = message.WhichOneof("request")
    match kind:
        case "move":
            move = message.move
            return PlayerCommand.of(move.account_id, move.command_id, move.at_version, move.code)
        case "sign":
            return Sign(message.sign.account_id, message.sign.is_close)
        case "leave":
            return Leave.of(message.leave.account_id, message.leave.request_id)
        case "take_seat":
            take = message.take_seat
            return TakeSeat.of(take.account_id, take.guest, take.seat, take.request_id)
        case None:
            return None
        case _:
            assert_never(kind)


def _write_reply(message: replicas_pb2.Reply, number: int, answer: Answer | None) -> None:
    message.number = number
    if answer is None:
        return
    message.repeated_request = answer.repeated
    if isinstance(answer.outcome, Refused):
        message.refusal.CopyFrom(answer.outcome.status())
    else:
        message.version = answer.outcome


def _answer(message: replicas_pb2.Reply) -> Answer | None:
    match message.WhichOneof("outcome"):
        case "version":
            return Answer(message.version, message.repeated_request)
        case "refusal":
            return Answer(Refused.from_status(message.refusal), message.repeated_request)
        case None:
            return None
