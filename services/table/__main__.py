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
from services.table.app.host import Host
from services.table.app.tables import Tables
from services.table.rpc import api, messages
from services.table.store.database import Store
from services.table.store.log import GameLog

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
        store, game_log = Store(pool), GameLog(writer, LogReader(pool))
        host = Host(store, game_log, messages, clock)
        server = Server(Verifier.from_file(settings.jwks_file, clock))
        api.serve(server, Tables(store, game_log, host))
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
