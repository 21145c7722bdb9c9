"""The floor of quick play in `bench matchmaker`: a bare grpc.aio server that seats people as they come.

No rooms, no ranks, no rows, no tokens, no checks, no other services: whoever calls six times in a row makes a table,
all of one process' memory. People are answered, and told on their streams, with messages as ours are; who they are is
what they say.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import grpc
import uvloop
from levata.matchmaker.v1 import matchmaker_pb2
from levata.me.v1 import me_pb2

from bench.arrivals import SEATS
from bench.bare_server import HEARTBEAT_SECONDS, identity, run
from bench.seeking import GAME, PLAY_SECONDS

_HEARTBEAT: Final = me_pb2.WatchResponse(heartbeat=me_pb2.Heartbeat()).SerializeToString()
_STATUS: Final = me_pb2.WatchResponse(status=me_pb2.Status()).SerializeToString()
_NO_SEARCH: Final = me_pb2.WatchResponse(search=me_pb2.Search()).SerializeToString()
_SEATED: Final = matchmaker_pb2.TICKET_STATE_SEATED
_PLAYING: Final = matchmaker_pb2.TICKET_STATE_PLAYING


@dataclass
class Table:
    """Who sits there, and how many of them have answered."""

    streams: Sequence[asyncio.Queue[bytes]]
    game_id: str = field(default_factory=lambda: str(uuid4()))
    answers: int = 0


class BareMatchmaker:
    """The calls that people make."""

    def __init__(self) -> None:
        self._streams: dict[str, asyncio.Queue[bytes]] = {}
        self._waiting: list[str] = []
        self._tables: dict[str, Table] = {}

    async def watch(self, _: bytes, context: Any) -> None:
        """All that somebody is told."""
        stream = self._streams[_caller(context)] = asyncio.Queue()
        await context.write(_STATUS)
        while True:
            await context.write(await stream.get())

    async def beat(self) -> None:
        """Heartbeats for all."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            for stream in self._streams.values():
                stream.put_nowait(_HEARTBEAT)

    async def enqueue(self, _: bytes, context: Any) -> bytes:
        """One more who waits, or the last one of a table."""
        self._waiting.append(_caller(context))
        if len(self._waiting) == SEATS:
            callers, self._waiting = self._waiting, []
            table = Table([self._streams[caller] for caller in callers])
            self._tables.update((caller, table) for caller in callers)
            _tell(table, _ticket(_SEATED, table.game_id, callers))
        return matchmaker_pb2.EnqueueResponse(ticket=_ticket(matchmaker_pb2.TICKET_STATE_WAITING)).SerializeToString()

    async def add_nonce(self, _: bytes, context: Any) -> bytes:
        """The game begins when all have answered, and is over soon."""
        table = self._tables[_caller(context)]
        table.answers += 1
        if table.answers == SEATS:
            _tell(table, _ticket(_PLAYING, table.game_id))
            asyncio.get_running_loop().call_later(PLAY_SECONDS, _end, table)
        return b""

    async def here(self, _: bytes, __: Any) -> bytes:
        """Nobody is ever gone."""
        return b""


def _caller(context: Any) -> str:
    return str(dict(context.invocation_metadata())["authorization"])


def _ticket(
    state: "matchmaker_pb2.TicketState.ValueType", game_id: str = "", seated: Sequence[str] = ()
) -> matchmaker_pb2.Ticket:
    now_ms = time.time_ns() // 1_000_000
    ticket = matchmaker_pb2.Ticket(
        ticket_id=str(uuid4()), room=1, game_type=GAME, variant="quick", state=state, queued_at_ms=now_ms
    )
    if seated:
        taken = [matchmaker_pb2.QuickSeat(account_id=str(uuid4()), room=1) for _ in seated]
        ticket.table.MergeFrom(
            matchmaker_pb2.QuickTable(
                table_id=str(uuid4()),
                game_id=game_id,
                commitment=bytes(32),
                deals_at_ms=now_ms,
                seats=SEATS,
                taken=taken,
            )
        )
    else:
        ticket.game_id = game_id
    return ticket


def _tell(table: Table, ticket: matchmaker_pb2.Ticket) -> None:
    for stream in table.streams:
        stream.put_nowait(me_pb2.WatchResponse(search=me_pb2.Search(ticket=ticket)).SerializeToString())


def _end(table: Table) -> None:
    for stream in table.streams:
        stream.put_nowait(_NO_SEARCH)


async def serve() -> None:
    """All of the floor."""
    bare = BareMatchmaker()
    unary = {"Enqueue": bare.enqueue, "AddNonce": bare.add_nonce, "Here": bare.here}
    calls = {name: grpc.unary_unary_rpc_method_handler(call, identity, identity) for name, call in unary.items()}
    streams = {"Watch": grpc.unary_stream_rpc_method_handler(bare.watch, identity, identity)}
    await run({"levata.matchmaker.v1.Matchmaker": calls, "levata.me.v1.Me": streams}, bare.beat())


if __name__ == "__main__":
    uvloop.run(serve())
