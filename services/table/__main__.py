"""`python -m services.table`: the table service, put together for its process and for tests alike."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from chassis.auth import Verifier
from chassis.clock import Clock
from chassis.database import open_pool
from chassis.log import GroupWriter, LogReader
from chassis.process import run
from chassis.rpc import Server
from chassis.settings import Address, Settings
from chassis.telemetry import ProcessCollector, serve_metrics
from services.table import rpc
from services.table.app import Tables
from services.table.host import Host
from services.table.store import Store

# Streams have been told to resume before; what is left is unary calls.
STOP_SECONDS: Final = 3


@asynccontextmanager
async def build(settings: Settings) -> AsyncIterator[Address]:
    """Start the service; it is stopped at the end of the context."""
    async with (
        await open_pool(settings.postgres_dsn, settings.service_name) as pool,
        Clock.following(pool) as clock,
        GroupWriter(settings.postgres_dsn) as writer,
    ):
        store, reader = Store(pool), LogReader(pool)
        host = Host(store, reader, writer, clock)
        server = Server(Verifier.from_file(settings.jwks_file, clock))
        rpc.serve(server, Tables(store, reader, host))
        if settings.metrics_listen is not None:
            serve_metrics(settings.metrics_listen, [ProcessCollector(server, asyncio.get_running_loop(), pool)])
        port = await server.start(*settings.listen)
        address = Address(settings.listen.host, port)
        await host.start(str(address))
        try:
            yield address
        finally:
            await host.stop()
            await server.stop(STOP_SECONDS)


if __name__ == "__main__":
    run("table", Settings, build)
