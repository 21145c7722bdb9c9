"""`python -m services.accounts`: the accounts service, put together for its process and for tests alike."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from chassis.auth import Signer, Verifier
from chassis.clock import Clock
from chassis.database import open_pool
from chassis.front import keep_public_health, public_names
from chassis.process import run
from chassis.rpc import Server
from chassis.settings import Address, Settings
from chassis.tasks import end
from chassis.telemetry import ProcessCollector, serve_metrics
from services.accounts import rpc
from services.accounts.app import Accounts
from services.accounts.store import PostgresStore

# Calls are short here: those that run when the service stops are done long before.
STOP_SECONDS: Final = 3


class AccountsSettings(Settings):
    """What the accounts service is told."""

    # The private key that tokens are signed with; no other service has it.
    signing_key_file: Path
    access_token_seconds: int = 15 * 60


@asynccontextmanager
async def build(settings: AccountsSettings) -> AsyncIterator[Address]:
    """Start the service; it is stopped at the end of the context."""
    async with (
        await open_pool(settings.postgres_dsn, settings.service_name) as pool,
        Clock.following(pool) as clock,
    ):
        signer = Signer.from_file(settings.signing_key_file, clock)
        # At the public port this service answers for all of them.
        server = Server(Verifier.from_file(settings.jwks_file, clock), settings.limits, reflected=public_names())
        rpc.serve(server, Accounts(PostgresStore(pool), signer, clock, settings.access_token_seconds))
        if settings.metrics_listen is not None:
            serve_metrics(settings.metrics_listen, [ProcessCollector(server, asyncio.get_running_loop(), pool)])
        port = await server.start(*settings.listen)
        front = asyncio.create_task(keep_public_health(server, settings.service_name, settings.peers), name="front")
        try:
            yield Address(settings.listen.host, port)
        finally:
            await end(front)
            await server.stop(STOP_SECONDS)


if __name__ == "__main__":
    run("accounts", AccountsSettings, build)
