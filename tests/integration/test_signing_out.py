"""Whoever signs out is signed out of every service, on every replica, at once and after a restart."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

import grpc
from levata.accounts.v1 import accounts_pb2
from levata.table.v1 import table_pb2

from chassis.auth import KeyFiles, Signer
from chassis.errors import reason_of
from chassis.rpc import channel, stub
from tests.table_client import Service, create_game
from tools.up.service import ServiceProcess

ACCOUNTS = accounts_pb2.DESCRIPTOR.services_by_name["Accounts"]
TABLE = table_pb2.DESCRIPTOR.services_by_name["Table"]


async def reason(call: Any) -> str | None:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return reason_of(error)
    return None


async def to_its_end(stream: Any) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


async def test_it_ends_the_streams_at_all_replicas_and_a_new_one_knows(
    start_service: Callable[..., ServiceProcess], keys: KeyFiles
) -> None:
    accounts = await asyncio.to_thread(start_service, "accounts")
    peers = {"accounts": [accounts.address]}
    tables = [await asyncio.to_thread(start_service, "table", name=f"table-{n}", peers=peers) for n in (1, 2)]
    async with AsyncExitStack() as stack:
        plain = await stack.enter_async_context(channel(str(accounts.address)))
        guest = await stub(plain, ACCOUNTS).CreateGuest(accounts_pb2.CreateGuestRequest(request_id=str(uuid4())))
        opener = Service(str(tables[0].address), Signer.from_file(keys.signing_key))
        stack.push_async_callback(opener.close)
        game_id = await create_game(opener, people=2)

        async def signed_in(address: Any, service: Any) -> Any:
            return stub(await stack.enter_async_context(channel(str(address), guest.access_token)), service)

        streams = []
        for table in tables:
            streams.append((await signed_in(table.address, TABLE)).Watch(table_pb2.WatchRequest(game_id=game_id)))
            assert (await streams[-1].read()).WhichOneof("kind") == "snapshot"

        own = await signed_in(accounts.address, ACCOUNTS)
        await own.SignOutEverywhere(accounts_pb2.SignOutEverywhereRequest())
        for stream in streams:
            assert await reason(to_its_end(stream)) == "SESSION_REVOKED"
        for table in tables:
            api = await signed_in(table.address, TABLE)
            assert await reason(api.List(table_pb2.ListRequest())) == "SESSION_REVOKED"
        # Accounts itself may hear of it last.
        while await reason(own.GetSelf(accounts_pb2.GetSelfRequest())) is None:
            await asyncio.sleep(0.05)
        assert await reason(own.GetSelf(accounts_pb2.GetSelfRequest())) == "SESSION_REVOKED"

        # One that begins now reads what was revoked before.
        late = await asyncio.to_thread(start_service, "table", name="table-3", peers=peers)
        api = await signed_in(late.address, TABLE)
        while await reason(api.List(table_pb2.ListRequest())) is None:
            await asyncio.sleep(0.05)
        assert await reason(api.List(table_pb2.ListRequest())) == "SESSION_REVOKED"
